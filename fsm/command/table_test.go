package command

import (
	"testing"

	"github.com/commons-cluster/commons/internal/check"
)

// TestEveryCommandIsDescribed holds that each row of the command table is complete, and fits
// the type of its command.
func TestEveryCommandIsDescribed(t *testing.T) {
	named := map[string]Op{}
	for _, op := range Ops() {
		p := New(op)
		d := Describe(p)
		t.Run(d.Name, func(t *testing.T) {
			check.Equal(t, OpOf(p), op, "number of the type of command %d", op)
			if other, twice := named[d.Name]; twice || d.Name == "" {
				t.Errorf("commands %d and %d have the name %q", other, op, d.Name)
			}
			named[d.Name] = op
			if d.Format < InitialFormat || d.Format > MaxFormat {
				t.Errorf("format %d, want %d to %d", d.Format, InitialFormat, MaxFormat)
			}
			_, signed := SignatureOf(p)
			if signed && d.Proof == ProofNotNeeded && op != OpReport && op != OpRecover {
				t.Error("a command under a name needs no proof")
			}
			if d.Channel == "" || d.Proof == "" {
				t.Errorf("channel %q and rule of proof %q must be chosen", d.Channel, d.Proof)
			}
			if ContentOf(p) != nil && d.Channel == NoChannel {
				t.Error("repeated requests are compared, and it writes no entry")
			}
			if !signed && (TextsOf(p) != nil || d.Channel != NoChannel || d.Proof != ProofNotNeeded) {
				t.Errorf("a command without a name writes for others: %+v", d)
			}
		})
	}
}
