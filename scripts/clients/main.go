// Clients runs a program that is built from a generated client (scripts/clients/author)
// against three real nodes. It fails where that program does.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/commons-cluster/commons/scripts/harness"
)

const clusterSize = 3

func main() {
	binary := flag.String("binary", "", "the commons binary")
	author := flag.String("author", "", "the program that is run")
	dir := flag.String("dir", "", "directory for data and logs")
	flag.Parse()
	if err := run(*binary, *author, *dir); err != nil {
		fmt.Fprintln(os.Stderr, "clients: FAILED:", err)
		os.Exit(1)
	}
}

func run(binary, author, dir string) (err error) {
	if binary == "" || author == "" || dir == "" {
		return errors.New("-binary, -author and -dir are needed; scripts/clients.sh gives them")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r := harness.NewRun(ctx, binary, dir)
	defer func() {
		r.End()
		if err != nil {
			r.WriteLogs(os.Stderr)
		}
	}()
	c, err := r.NewCluster("main", clusterSize)
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	var urls []string
	for _, n := range c.Nodes {
		urls = append(urls, n.URL)
	}
	cmd := exec.CommandContext(ctx, author, urls...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}
