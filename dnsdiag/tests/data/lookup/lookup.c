/* One getaddrinfo: prints its return code, when it began (CLOCK_MONOTONIC, ns) and how long it took (ns).
   The libc is the one that this is linked with. */
#include <netdb.h>
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
	return 0;
}
