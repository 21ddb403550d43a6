package fsm

import (
	"strings"
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/fsmtest"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// TestEraseOwn: a retraction erases the text of its author from the state and its files. The
// replies stay, and so does the sender.
func TestEraseOwn(t *testing.T) {
	r := newRig(t)
	r.WantDone(fsmtest.Register("Bob", "bob", nil))
	own := fsmtest.TextByKey("bob", "Buy "+purgedWord+" now.")
	own.Proof.Sender = "sender-1"
	seq := r.WantDone(own)
	id := state.FormatID(state.TypeEntry, seq)
	reply := r.Publish(func(p *command.Publish) { p.Relation, p.Target = command.RelationReply, id })
	must.Do(t, r.store.Flush())
	if len(r.find()) == 0 {
		t.Fatal("the word is in no file: the test shows nothing")
	}
	retraction := r.WantDone(fsmtest.Erase("bob", id))
	stub, raw := r.Read(seq)
	if stub.Hidden == nil || !stub.Hidden.Purged || stub.Hidden.Reason != "Erased by its author" || strings.Contains(raw, purgedWord) {
		t.Errorf("the stub is %s", raw)
	}
	if doc, raw := r.Read(reply); doc.Hidden != nil || *doc.Supersedes != id {
		t.Errorf("the reply is %s", raw)
	}
	if doc, raw := r.Read(retraction); doc.Hidden != nil {
		t.Errorf("the retraction is %s", raw)
	}
	v := r.View()
	defer func() { v.Release() }()
	check.Equal(t, must.Get(v.SenderFingerprint(seq))(t), "sender-1", "the sender of the erased entry")
	var listed []string
	check.Err(t, v.Purges(0, func(p state.Purge) error { listed = append(listed, p.ID); return nil }), nil, "list the purges")
	check.Diff(t, listed, []string{id}, "the purges")
	v.Release()
	v = r.View()
	must.Do(t, r.store.Flush())
	v.Release()
	r.erase()
	v = r.View()
	check.Empty(t, r.find(), "files with the word")
	r.WantProblem(fsmtest.Erase("bob", id), command.ProblemHidden)
}
