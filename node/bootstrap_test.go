package node

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/cluster"
)

func TestFirstVoters(t *testing.T) {
	three := []string{"a-1", "b-1", "c-1"}
	agree := func(id string) (peerAnswer, error) {
		return peerAnswer{ID: id, Fresh: true, Expect: 3, Seen: three}, nil
	}
	differ := func(which string, change func(*peerAnswer)) func(string) (peerAnswer, error) {
		return func(id string) (peerAnswer, error) {
			p, err := agree(id)
			if id == which {
				change(&p)
			}
			return p, err
		}
	}
	tests := []struct {
		name     string
		members  string // fresh ones with a question mark; see alive
		self     string
		ask      func(string) (peerAnswer, error)
		obstacle string // a fragment; empty: the three form a cluster
	}{
		{"all here and agreed", "a-1? b-1? c-1?", "a-1", agree, ""},
		{"own membership not yet in gossip", "b-1? c-1?", "a-1", agree, ""},
		{"too few", "a-1? b-1?", "a-1", agree, "2 of 3 nodes are here"},
		{"too many", "a-1? b-1? c-1? d-1?", "a-1", agree, "4 nodes are here and each expects 3"},
		{"another has the lowest id", "a-1? b-1? c-1?", "b-1", agree, "a-1 will form the cluster"},
		{"one has a cluster", "a-1? b-1 c-1?", "a-1", agree, "b-1 is part of a cluster already"},
		{"one has state", "a-1? b-1! c-1?", "a-1", agree, "b-1 is part of a cluster already"},
		{"a fourth has a cluster", "a-1? b-1? c-1? d-1", "a-1", agree, "d-1 is part of a cluster already"},
		{
			"one does not answer", "a-1? b-1? c-1?", "a-1",
			func(id string) (peerAnswer, error) {
				p, _ := agree(id)
				return p, map[string]error{"c-1": errors.New("down")}[id]
			}, "c-1 does not answer",
		},
		{"one got state meanwhile", "a-1? b-1? c-1?", "a-1", differ("b-1", func(p *peerAnswer) { p.Fresh = false }), "b-1 has state already"},
		{"one got a cluster meanwhile", "a-1? b-1? c-1?", "a-1", differ("b-1", func(p *peerAnswer) { p.ClusterID = "x" }), "b-1 has state already"},
		{
			"one sees others", "a-1? b-1? c-1?", "a-1",
			differ("c-1", func(p *peerAnswer) { p.Seen = []string{"a-1", "c-1", "d-1"} }), "c-1 does not see the same nodes",
		},
		{"one expects more", "a-1? b-1? c-1?", "a-1", differ("c-1", func(p *peerAnswer) { p.Expect = 5 }), "c-1 does not see the same nodes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			members := alive(tt.members)
			for i := range members {
				members[i].Expect = 3
			}
			ids, obstacle := firstVoters(members, tt.self, 3, tt.ask)
			if (tt.obstacle == "") != (obstacle == "") || !strings.Contains(obstacle, tt.obstacle) {
				t.Errorf("obstacle %q, want %q", obstacle, tt.obstacle)
			}
			if tt.obstacle == "" && !slices.Equal(ids, three) {
				t.Errorf("voters %v", ids)
			}
		})
	}
}

func TestFreshPeers(t *testing.T) {
	members := alive("d-1? a-1? b-1 c-1!")
	for i := range members {
		members[i].Expect = 3
	}
	other := cluster.Member{Meta: cluster.Meta{ServerID: "e-1", Fresh: true, Expect: 5}}
	silent := cluster.Member{Meta: cluster.Meta{ServerID: "f-1", Fresh: true, Expect: 3, NonVoter: true}}
	got := freshPeers(append(members, other, silent), "d-1", 3)
	if !slices.Equal(got, []string{"a-1", "d-1"}) {
		t.Errorf("fresh peers %v", got)
	}
}

// TestStateAloneIsNotFresh holds that a node whose Raft knows nothing forms no cluster
// over a state that holds something.
func TestStateAloneIsNotFresh(t *testing.T) {
	n := inMemory(t)
	if !n.fresh() {
		t.Error("a node without anything is not fresh")
	}
	n.machine.FSM().ApplyBatch([]*raft.Log{{Index: 1, Term: 1, Type: raft.LogConfiguration, Data: raft.EncodeConfiguration(alone("a-1"))}})
	if n.fresh() {
		t.Error("a node with a state is fresh")
	}
}
