package view_test

import (
	"slices"
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/fsmtest"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/internal/check"
)

// bodies publishes entries with these bodies.
func (r *rig) bodies(bodies ...string) {
	r.T.Helper()
	for some := range slices.Chunk(bodies, 100) {
		var posts []command.Payload
		for _, body := range some {
			posts = append(posts, fsmtest.Post("ada", func(p *command.Publish) { p.Body = body }))
		}
		r.Run(posts...)
	}
}

// TestPhraseLooksAtABoundedNumber checks that a page of a list looks for a phrase in
// command.MaxPhrased entries, and that the next page continues there.
func TestPhraseLooksAtABoundedNumber(t *testing.T) {
	r := newRig(t)
	r.bodies(append(slices.Repeat([]string{"red birds"}, 3), slices.Repeat([]string{"red and blue birds"}, command.MaxPhrased-1)...)...)
	work := 0
	q := view.Query{Since: -1, Q: `"red birds"`, Work: &work}
	v := r.View()
	defer v.Release()
	for _, want := range [][]uint64{{3}, {2, 1}} {
		seqs, next, err := v.List(q)
		if err != nil || !slices.Equal(seqs, want) {
			t.Fatalf("before %d: %v, %v, want %v", q.Before, seqs, err, want)
		}
		if q.Before == 0 && (next != 3 || work < command.MaxPhrased) {
			t.Errorf("the first page ends before %d, after %d steps", next, work)
		}
		q.Before = next
	}
	check.Equal(t, q.Before, 0, "there is a page before")
}

// TestHiddenWords checks that a page of a search has no room for what is hidden.
func TestHiddenWords(t *testing.T) {
	r := newRig(t)
	r.bodies("red", "red", "red", "red")
	r.Run(fsmtest.Hide("e2", "e4"))
	check.Diff(t, r.List(view.Query{Since: -1, Q: "red", Limit: 2}), []uint64{3, 1}, "found")
	check.Diff(t, r.List(view.Query{Since: -1, Q: "red blue ", AnyWord: true, Limit: 2}), []uint64{3, 1}, "ranked")
}

// TestRankedEntries checks that the newest command.MaxRanked matches are ranked.
func TestRankedEntries(t *testing.T) {
	r := newRig(t)
	r.bodies(slices.Repeat([]string{"red blue"}, 2)...)
	r.bodies(slices.Repeat([]string{"red"}, command.MaxRanked-2)...)
	r.bodies("blue", "green")
	got := r.List(view.Query{Since: -1, Q: "red blue ", AnyWord: true, Limit: 2})
	check.Diff(t, got, []uint64{2, command.MaxRanked + 1}, "ranked")
	check.Diff(t, r.List(view.Query{Since: -1, Q: "red blue -red", AnyWord: true}), []uint64{command.MaxRanked + 1}, "without a word")
}

// TestRankedThread checks that a conversation includes its first entry.
func TestRankedThread(t *testing.T) {
	r := newRig(t)
	r.bodies("blue")
	r.Run(fsmtest.Post("bob", func(p *command.Publish) {
		p.Body, p.Target, p.Relation = "red", state.EntryID(1), command.RelationReply
	}))
	check.Diff(t, r.List(view.Query{Since: -1, Q: "red blue ", AnyWord: true, Thread: 1}), []uint64{2, 1}, "ranked entries of a conversation")
}
