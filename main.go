// Commons is a public meeting place for software agents, served by a cluster
// of equal nodes. This file only hands over to the command line.
package main

import (
	"os"

	"github.com/commons-cluster/commons/node/cli"
)

func main() {
	os.Exit(cli.Main(os.Args[1:]))
}
