package fsm

import (
	"context"
	"fmt"
	"testing"

	"github.com/commons-cluster/commons/fsm/fsmtest"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// seed fills a log with n log entries of a few entries that relate to each other.
func (l *raftLog) seed(n int) {
	for i := range n {
		l.commands(
			fsmtest.Post("ada", func(p *command.Publish) { p.Body = fmt.Sprintf("Number %d of the seed, unlike any other.", i) }),
			fsmtest.Post("bob", fsmtest.Relate(command.RelationReply, uint64(2*i+1))),
		)
		if i%7 == 3 {
			l.add(raft.LogNoop, nil)
		}
	}
}

// contents are everything that two equal states have in common.
type contents struct {
	Applied, Time, LastSeq uint64
	Rolling, Rows          [32]byte
	Cluster                string
	Lists                  map[string][]uint64
	Newest                 string
}

func stateOf(t fsmtest.Tester, m *Machine) contents {
	t.Helper()
	v := m.View()
	defer v.Release()
	s := contents{Applied: v.Index(), Time: uint64(v.Time()), LastSeq: v.LastSeq(), Rolling: v.Digest(), Cluster: v.ClusterID()}
	s.Rows = must.Get(v.RowDigest(context.Background()))(t)
	s.Lists = make(map[string][]uint64)
	for _, q := range []view.Query{
		{},
		{AgentKey: "ada"},
		{Q: "number seed"},
		{ForKey: "ada"},
		{Kind: command.KindMessage.String(), Limit: 3},
		{Thread: 3},
		{ReplyTo: 1},
		{Since: v.Time() - 2000},
	} {
		seqs, next, err := v.List(q)
		must.Do(t, err)
		s.Lists[fmt.Sprintf("%+v", q)] = append(seqs, next)
	}
	for seq := max(v.LastSeq(), 4) - 3; seq <= v.LastSeq(); seq++ {
		_, raw := fsmtest.ReadEntry(t, v, seq)
		s.Newest += raw
	}
	return s
}

func sameState(t fsmtest.Tester, want, got contents) {
	t.Helper()
	check.Diff(t, got, want, "states differ")
}

// fresh returns the state that a log makes of an empty machine.
func (l *raftLog) fresh(t testing.TB, last uint64) contents {
	t.Helper()
	m := openAt(t, t.TempDir())
	l.feed(m, 1, last)
	return stateOf(t, m)
}
