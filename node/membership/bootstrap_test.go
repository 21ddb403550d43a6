package membership

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/cluster"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/node/consensus"
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
	for _, tt := range []struct {
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
	} {
		t.Run(tt.name, func(t *testing.T) {
			members := alive(tt.members)
			for i := range members {
				members[i].Expect = 3
			}
			ids, reason := firstVoters(members, tt.self, 3, tt.ask)
			if (tt.obstacle == "") != (reason.text == "") || !strings.Contains(reason.text, tt.obstacle) {
				t.Errorf("obstacle %q, want %q", reason.text, tt.obstacle)
			}
			if tt.obstacle == "" && !slices.Equal(ids, three) {
				t.Errorf("voters %v", ids)
			}
		})
	}
}

// TestOtherNumberOfFirstVoters: nodes that expect different numbers wait for each
// other for good, and say so.
func TestOtherNumberOfFirstVoters(t *testing.T) {
	for _, tt := range []struct {
		name   string
		expect int // of c-1; the others expect 3
		voter  bool
		want   string
		wrong  bool
	}{
		{"more", 5, true, "2 of 3 nodes are here; server c-1 was started with --bootstrap-expect 5, this node with 3", true},
		{"joins only", 1, true, "2 of 3 nodes are here; server c-1 was started with --bootstrap-expect 1, this node with 3", false},
		{"never votes", 1, false, "2 of 3 nodes are here", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			members := alive("a-1? b-1? c-1?")
			for i := range members {
				members[i].Expect = 3
			}
			members[2].Expect, members[2].NonVoter = tt.expect, !tt.voter
			_, reason := firstVoters(members, "a-1", 3, nil)
			if !strings.HasPrefix(reason.text, tt.want) || reason.wrong != tt.wrong || tt.voter != strings.Contains(reason.text, "give the first voters the same number") {
				t.Errorf("%+v", reason)
			}
		})
	}
}

func TestWhatAJoinerWaitsFor(t *testing.T) {
	for _, tt := range []struct {
		members string
		expect  int
		want    string
		wrong   bool
	}{
		{"d-1?", 1, "none of --join x:1,y:2 answers", false},
		{"d-1? a-1", 1, "waiting for the leader of the cluster of server a-1", false},
		{"d-1? a-1?", 3, "server a-1 waits for 3 first voters", false},
		{"d-1? a-1?", 1, "every node here only joins", true},
	} {
		members := alive(tt.members)
		for i := range members {
			members[i].Expect = tt.expect
		}
		if reason := outsideOf(members, "d-1", []string{"x:1", "y:2"}); !strings.HasPrefix(reason.text, tt.want) || reason.wrong != tt.wrong {
			t.Errorf("%s, expecting %d: %+v", tt.members, tt.expect, reason)
		}
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
	check.Diff(t, got, []string{"a-1", "d-1"}, "fresh peers")
}

// TestStateAloneIsNotFresh holds that a node whose Raft is empty forms no cluster over a
// state that is not.
func TestStateAloneIsNotFresh(t *testing.T) {
	ms := inMemory(t)
	check.Equal(t, ms.Fresh(), true, "a node without anything is fresh")
	ms.cfg.Machine.FSM().ApplyBatch([]*raft.Log{{Index: 1, Term: 1, Type: raft.LogConfiguration, Data: raft.EncodeConfiguration(consensus.Alone("a-1"))}})
	check.Equal(t, ms.Fresh(), false, "a node with a state is fresh")
}
