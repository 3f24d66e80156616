// One lookup by Go's own resolver: prints its outcome as getaddrinfo's number, when it began and how long it took (ns),
// then the error or the addresses, one a line.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"
	"unsafe"
)

func now() int64 {
	var t syscall.Timespec
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, 1, uintptr(unsafe.Pointer(&t)), 0)
	return t.Nano()
}

func main() {
	network := map[string]string{"inet": "ip4", "inet6": "ip6"}[os.Args[2]]
	if network == "" {
		network = "ip"
	}
	resolver := net.Resolver{PreferGo: true}
	context, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	begin := now()
	found, err := resolver.LookupIP(context, network, os.Args[1])
	took := now() - begin
	rc := 0
	var failure *net.DNSError
	if errors.As(err, &failure) && failure.IsNotFound {
		rc = -2
	} else if err != nil {
		rc = -3
	}
	fmt.Println(rc, begin, took)
	if err != nil {
		fmt.Println(err)
	}
	for _, address := range found {
		fmt.Println(address)
	}
}
