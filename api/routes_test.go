package api

import (
	"testing"

	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/api/op/resource"
	"github.com/commons-cluster/commons/fsm/command"
)

// TestLabelsAreFitForTheLog holds that whatever is counted can be replicated, and
// that everything served has a name.
func TestLabelsAreFitForTheLog(t *testing.T) {
	labels := []string{op.LabelNone, op.LabelOther}
	for _, c := range op.ClientLabels {
		labels = append(labels, c.Label)
	}
	for _, action := range resource.JobActions {
		labels = append(labels, action.Counted)
	}
	for _, o := range routes() {
		labels = append(labels, o.ID)
	}
	for _, label := range labels {
		for _, row := range []command.UsageRow{{Action: label, Client: "x"}, {Action: "x", Client: label}} {
			row.Surface, row.Count = command.SurfaceAPI, 1
			if err := command.Check(&command.AddUsage{Boot: command.BootID{1}, Number: 1, Rows: []command.UsageRow{row}}); err != nil {
				t.Errorf("%q: %v", label, err)
			}
		}
	}
}
