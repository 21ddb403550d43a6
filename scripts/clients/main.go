// Clients runs a program that is built from a generated client (scripts/clients/author)
// against three real nodes. It fails where that program does.
package main

import (
	"flag"
	"os"
	"os/exec"

	"github.com/commons-cluster/commons/scripts/harness"
)

func main() {
	author := flag.String("author", "", "the program that is run")
	harness.Main("clients", func(r *harness.Run) {
		cmd := exec.CommandContext(r.Ctx, *author, r.StartCluster().URLs()...)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		harness.Must(cmd.Run())
	})
}
