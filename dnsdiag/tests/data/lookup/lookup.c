/* One getaddrinfo: prints its return code, when it began (CLOCK_MONOTONIC, ns) and how long it took (ns), then the
   addresses, one a line.
   The libc is the one that this is linked with. */
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#ifdef __GLIBC__
#include <gnu/libc-version.h>
#endif

static long long now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

int main(int argc, char **argv)
{
#ifdef __GLIBC__
	if (argc == 2 && !strcmp(argv[1], "--version")) {
		printf("glibc:%s\n", gnu_get_libc_version());
		return 0;
	}
#endif
	if (argc != 3)
		return 2;
	struct addrinfo hints, *found = 0;
	memset(&hints, 0, sizeof hints);
	hints.ai_socktype = SOCK_STREAM;
	hints.ai_family = !strcmp(argv[2], "inet") ? AF_INET : !strcmp(argv[2], "inet6") ? AF_INET6 : AF_UNSPEC;
	long long begin = now();
	int rc = getaddrinfo(argv[1], 0, &hints, &found);
	long long end = now();
	printf("%d %lld %lld\n", rc, begin, end - begin);
	for (; rc == 0 && found; found = found->ai_next) {
		char text[INET6_ADDRSTRLEN];
		void *address = found->ai_family == AF_INET6 ? (void *)&((struct sockaddr_in6 *)found->ai_addr)->sin6_addr
							     : (void *)&((struct sockaddr_in *)found->ai_addr)->sin_addr;
		puts(inet_ntop(found->ai_family, address, text, sizeof text));
	}
	return 0;
}
