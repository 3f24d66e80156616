// The peer of `cargo xtask corefiles`: CoreDNS itself, of the version that the task names.
package main

import (
	_ "github.com/coredns/coredns/core/plugin"

	"github.com/coredns/coredns/coremain"
)

func main() { coremain.Run() }
