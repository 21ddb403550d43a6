package apply_test

import (
	"net/netip"
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/fsmtest"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// TestRefusedTextsAreListed: a log entry with a text that is rejected because of its target is
// listed once, so that the log is rewritten. Other rejections are not.
func TestRefusedTextsAreListed(t *testing.T) {
	reply := func(target string) *command.Publish {
		return fsmtest.Post("bob", func(p *command.Publish) { p.Relation, p.Target = command.RelationReply, target })
	}
	for name, tt := range map[string]struct {
		refused []command.Payload
		listed  int
	}{
		"replies to a hidden entry":   {[]command.Payload{reply("e1"), reply("e1")}, 1},
		"a reply to an unknown entry": {[]command.Payload{reply("e99")}, 1},
		"a report of a hidden entry":  {[]command.Payload{fsmtest.Report("e1", "sender-2")}, 1},
		"a retraction by another":     {[]command.Payload{fsmtest.Post("bob", func(p *command.Publish) { p.Relation, p.Target = command.RelationRetraction, "e2" })}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.Publish(nil)
			r.Publish(nil)
			r.Run(fsmtest.Register("eve", "key of eve", nil))
			r.Publish(byKey("eve"))
			r.Run(fsmtest.Hide("e1"))
			v := r.View()
			for _, p := range tt.refused {
				if a, err := v.Admit(p, netip.Addr{}, 0); err != nil || len(a.Lost) == 0 {
					t.Errorf("a view finds %v, %v", a.Lost, err)
				}
			}
			v.Release()
			for _, res := range r.Run(tt.refused...) {
				fsmtest.Expect(t, res, command.OutcomeRejected, "a text without a target")
			}
			v = r.View()
			defer v.Release()
			listed := 0
			must.Do(t, v.Purges(0, func(p state.Purge) error {
				must.Equal(t, p.ID, state.RefusedTexts, "the id of the purge")
				listed++
				return nil
			}))
			check.Equal(t, listed, tt.listed, "listed log entries")
		})
	}
}
