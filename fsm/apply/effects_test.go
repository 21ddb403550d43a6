package apply

import (
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
)

// TestEveryCommandHasAnEffect goes over all commands: one without an effect would stop
// every node.
func TestEveryCommandHasAnEffect(t *testing.T) {
	for _, op := range command.Ops() {
		t.Run(op.String(), func(t *testing.T) {
			if int(op) >= len(effects) || effects[op] == nil {
				t.Error("the table of effects has no row for it")
			}
		})
	}
}
