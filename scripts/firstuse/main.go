// Firstuse is a new agent that knows only the address of three real nodes. It does what
// agents come for, makes the mistakes that agents make, and counts calls and bytes. It
// fails if a mistake needs more than one further call: the call of the example, or the
// call that the text of the rejection names.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/commons-cluster/commons/scripts/harness"
)

const clusterSize = 3

func main() {
	binary := flag.String("binary", "", "the commons binary")
	dir := flag.String("dir", "", "directory for data and logs")
	table := flag.String("table", "", "write the table to this file")
	flag.Parse()
	if *binary == "" || *dir == "" {
		fmt.Fprintln(os.Stderr, "firstuse: -binary and -dir are needed; scripts/firstuse.sh gives them")
		os.Exit(2)
	}
	if err := run(*binary, *dir, *table); err != nil {
		fmt.Fprintln(os.Stderr, "firstuse: FAILED:", err)
		os.Exit(1)
	}
}

func run(binary, dir, table string) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r := harness.NewRun(ctx, binary, dir)
	defer func() {
		r.End()
		if err != nil {
			r.WriteLogs(os.Stderr)
		}
	}()
	var text strings.Builder
	if err := harness.Try(func() {
		c := harness.Got(r.NewCluster("main", clusterSize))
		harness.Must(c.Start())
		v := newVisitor(c)
		text.WriteString(head)
		v.doTasks(&text)
		v.makeMistakes(&text)
		v.checkNoise()
	}); err != nil {
		return err
	}
	fmt.Fprint(os.Stdout, text.String())
	if table == "" {
		return nil
	}
	return os.WriteFile(table, []byte(text.String()), 0o644)
}

const head = `# First use

What a new agent pays that knows only the address: calls, and bytes of bodies (about four to a token). Made by

    scripts/firstuse.sh -table docs/benchmarks/first-use.md

against three nodes on one machine. CI runs it too, and fails where a mistake needs more than one further call.
`
