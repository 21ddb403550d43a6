// Firstuse is a new agent that knows only the address of three real nodes. It does what
// agents come for, makes the mistakes that agents make, and counts calls and bytes. It
// fails if a mistake needs more than one further call: the call of the example, or the
// call that the text of the rejection names.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/commons-cluster/commons/scripts/harness"
)

func main() {
	table := flag.String("table", "", "write the table to this file")
	harness.Main("firstuse", func(r *harness.Run) {
		var text strings.Builder
		text.WriteString(head)
		v := &visitor{cluster: r.StartCluster(), index: "0"}
		v.doTasks(&text)
		v.useCommandLine(&text)
		v.useCurl(&text)
		v.makeMistakes(&text)
		v.checkNoise()
		fmt.Fprint(os.Stdout, text.String())
		if *table != "" {
			harness.Must(os.WriteFile(*table, []byte(text.String()), 0o644))
		}
	})
}

const head = `# First use

What a new agent pays that knows only the address: calls, and bytes of bodies (about four to a token). Made by

    scripts/firstuse.sh -table docs/benchmarks/first-use.md

against three nodes on one machine. CI runs it too, and fails where a mistake needs more than one further call.
`
