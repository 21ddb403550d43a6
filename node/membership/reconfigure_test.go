package membership

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/cluster"
	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/node/consensus"
)

// leaderOf returns a node whose Raft leads, in memory, a configuration of itself
// and of servers that are not there; those have no vote, so that it goes on.
func leaderOf(t *testing.T, others ...string) *Membership {
	t.Helper()
	ms := inMemory(t)
	first := consensus.Alone("a-1")
	for _, id := range others {
		first.Servers = append(first.Servers, raft.Server{Suffrage: raft.Nonvoter, ID: raft.ServerID(id), Address: raft.ServerAddress(id)})
	}
	must.Do(t, ms.cfg.Raft.BootstrapCluster(first).Error())
	select {
	case <-ms.cfg.Raft.LeaderCh():
	case <-time.After(time.Minute):
		t.Fatal("it does not lead")
	}
	if err := ms.cfg.Machine.Wait(t.Context(), 1); err != nil { // the first configuration
		t.Fatal(err)
	}
	return ms
}

// inMemory returns a node with a state, and a Raft in memory.
func inMemory(t *testing.T) *Membership {
	t.Helper()
	machine := must.Get(fsm.Open(fsm.Options{Dir: t.TempDir()}))(t)
	store := raft.NewInmemStore()
	_, transport := raft.NewInmemTransport("a-1")
	config := raft.DefaultConfig()
	config.LocalID, config.Logger = "a-1", consensus.NewLogger(quiet(), nil)
	config.HeartbeatTimeout, config.ElectionTimeout, config.LeaderLeaseTimeout = 50*time.Millisecond, 50*time.Millisecond, 50*time.Millisecond
	r := must.Get(raft.NewRaft(config, machine.FSM(), store, store, raft.NewDiscardSnapshotStore(), transport))(t)
	t.Cleanup(func() {
		check.Err(t, errors.Join(r.Shutdown().Error(), machine.Close()), nil, "error")
	})
	nowhere := func(context.Context, command.Payload) error { return nil }
	return New(Config{Raft: &consensus.Raft{Raft: r}, Machine: machine, Propose: nowhere, CheckDisk: func() error { return nil }, Logger: quiet(), Book: cluster.OpenBook(filepath.Join(t.TempDir(), "book"), quiet())})
}

// TestChangeHoldsForWhatItWasDecidedOn: a change that was decided on a configuration is
// not made on another one, which another leader may have made meanwhile.
func TestChangeHoldsForWhatItWasDecidedOn(t *testing.T) {
	for _, tt := range []struct {
		name string
		c    change
	}{
		{"add", change{add: "d-1"}},
		{"promote", change{promote: "b-1"}},
		{"demote", change{demote: "b-1"}},
		{"remove", change{remove: "b-1"}},
		{"replace", change{promote: "b-1", remove: "c-1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ms := leaderOf(t, "b-1", "c-1")
			err := ms.reconfigure(t.Context(), func(configuration) (change, error) {
				return tt.c, ms.cfg.Raft.RemoveServer("c-1", 0, changeTimeout).Error()
			})
			check.ErrText(t, err, "configuration changed since", "the change was made on another configuration")
			if got := ms.cfg.Raft.Servers(); len(got) != 2 || consensus.Contains(got, "c-1") || len(ms.cfg.Raft.Voters()) != 1 {
				t.Errorf("the configuration is %v", got)
			}
		})
	}
}

// TestNoChangeOnAFullDisk: below the reserve no change of the configuration reaches Raft,
// which would use it also if the log could not take it.
func TestNoChangeOnAFullDisk(t *testing.T) {
	full := errors.New("nearly full")
	for name, c := range map[string]change{
		"add": {add: "d-1"}, "promote": {promote: "b-1"}, "demote": {demote: "b-1"}, "remove": {remove: "b-1"},
	} {
		t.Run(name, func(t *testing.T) {
			ms := leaderOf(t, "b-1")
			before := ms.cfg.Raft.Servers()
			ms.cfg.CheckDisk = func() error { return full }
			check.Err(t, ms.reconfigure(t.Context(), func(configuration) (change, error) { return c, nil }), full, "the change ends")
			check.Diff(t, ms.cfg.Raft.Servers(), before, "the configuration changed")
		})
	}
}

// TestChangeOfTwoSteps: the second is made on what the first has left.
func TestChangeOfTwoSteps(t *testing.T) {
	ms := leaderOf(t, "b-1", "c-1")
	var noted []command.Payload
	ms.cfg.Propose = func(_ context.Context, c command.Payload) error {
		noted = append(noted, c)
		return nil
	}
	must.Do(t, ms.reconfigure(t.Context(), func(configuration) (change, error) {
		return change{add: "d-1", remove: "b-1", reason: "a test"}, nil
	}))
	want := []command.Payload{
		&command.NoteChange{Action: command.ChangeAdd, Server: "d-1", By: ms.cfg.ServerID, Reason: "it is alive and new"},
		&command.NoteChange{Action: command.ChangeRemove, Server: "b-1", By: ms.cfg.ServerID, Reason: "a test"},
	}
	check.Diff(t, noted, want, "noted")
	if got := ms.cfg.Raft.Servers(); len(got) != 3 || consensus.Contains(got, "b-1") || !consensus.Contains(got, "d-1") {
		t.Errorf("the configuration is %v", got)
	}
}

// TestOneChangeAtATime: a second change is decided on what the first one has left.
func TestOneChangeAtATime(t *testing.T) {
	ms := leaderOf(t, "b-1", "c-1")
	second := make(chan error, 1)
	must.Do(t, ms.reconfigure(t.Context(), func(configuration) (change, error) {
		begun := make(chan struct{})
		go func() {
			close(begun)
			second <- ms.reconfigure(t.Context(), func(current configuration) (change, error) {
				if consensus.Contains(current.servers, "b-1") {
					return change{}, errors.New("it sees what is about to be changed")
				}
				return change{remove: "c-1"}, nil
			})
		}()
		<-begun
		return change{remove: "b-1"}, nil
	}))
	must.Do(t, <-second)
	check.Equal(t, len(ms.cfg.Raft.Servers()), 1, "the configuration")
}

// TestNoChangeWithoutConfiguration: index 0 would stand for any configuration.
func TestNoChangeWithoutConfiguration(t *testing.T) {
	ms := inMemory(t)
	err := ms.reconfigure(t.Context(), func(configuration) (change, error) { return change{add: "b-1"}, nil })
	check.Err(t, err, errNoConfiguration, "a change without a configuration")
}

func TestCommonFormat(t *testing.T) {
	member := func(id, clusterID string, format int) cluster.Member {
		return cluster.Member{Meta: cluster.Meta{ServerID: id, ClusterID: clusterID, Format: format}}
	}
	for name, tt := range map[string]struct {
		members []cluster.Member
		want    int
	}{
		"all know it":                     {[]cluster.Member{member("a-1", "c", 2), member("b-1", "c", 3)}, 2},
		"one does not":                    {[]cluster.Member{member("a-1", "c", 1), member("b-1", "c", 3)}, 1},
		"one is from before there was it": {[]cluster.Member{member("a-1", "c", 0), member("b-1", "c", 3)}, 1},
		"one is away":                     {[]cluster.Member{member("a-1", "c", 3)}, 0},
		"nobody is seen":                  {nil, 0},
		"one may join":                    {[]cluster.Member{member("a-1", "c", 3), member("b-1", "c", 3), member("d-1", "", 2)}, 2},
		"another cluster is near":         {[]cluster.Member{member("a-1", "c", 3), member("b-1", "c", 3), member("d-1", "d", 2)}, 3},
	} {
		check.Equal(t, commonFormat(servers("a-1 (b-1)"), tt.members, "c"), tt.want, "%s", name)
	}
}
