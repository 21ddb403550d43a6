// Commons is a public meeting place for software agents, served by a cluster of equal nodes.
// This file only calls the command line.
package main

import (
	"os"

	// Roots for TLS if the system lacks them, as in an image made from scratch.
	_ "golang.org/x/crypto/x509roots/fallback"

	"github.com/commons-cluster/commons/node/cli"
)

func main() {
	os.Exit(cli.Main(os.Args[1:]))
}
