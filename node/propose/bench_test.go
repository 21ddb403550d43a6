package propose

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/fsm/command"
)

// nothingRaft is a Raft that commits at once. Its other methods have no effect.
type nothingRaft struct {
	index   atomic.Uint64
	applies atomic.Uint64
	bytes   atomic.Uint64
	log     chan *fakeFuture
}

func (r *nothingRaft) Apply(data []byte, _ time.Duration) raft.ApplyFuture {
	r.applies.Add(1)
	r.bytes.Add(uint64(len(data)))
	f := &fakeFuture{done: make(chan struct{}), data: data}
	r.log <- f
	return f
}

func (r *nothingRaft) VerifyLeader() raft.Future {
	f := &fakeFuture{done: make(chan struct{})}
	f.respond(nil)
	return f
}
func (r *nothingRaft) LeaderWithID() (raft.ServerAddress, raft.ServerID) { return "me", "me" }
func (r *nothingRaft) CurrentTerm() uint64                               { return 1 }
func (r *nothingRaft) CommitIndex() uint64                               { return r.index.Load() }
func (*nothingRaft) GetLog(uint64, *raft.Log) error                      { return raft.ErrLogNotFound }
func (*nothingRaft) Format() int                                         { return 1 }

func (r *nothingRaft) Applied() uint64 { return r.index.Load() }
func (r *nothingRaft) View() View      { return nil }
func (r *nothingRaft) GetConfiguration() raft.ConfigurationFuture {
	return fakeConfig{servers: []raft.Server{{ID: "me"}}}
}

// run applies log entries without decoding them. The observer gets each command's number
// from a decoded copy only if the benchmark needs it.
func (r *nothingRaft) run(p *Pipeline) {
	for f := range r.log {
		b, err := command.DecodeBatch(f.data)
		if err != nil {
			f.respond(err)
			continue
		}
		f.index = r.index.Add(1)
		for _, g := range b.Groups {
			for _, c := range g.Commands {
				p.Applied(g.Boot, c.Seq, command.Result{Outcome: command.OutcomeDone}, f.index)
			}
		}
		f.respond(nil)
	}
}

func benchPipeline(b *testing.B) (*Pipeline, *nothingRaft) {
	b.Helper()
	r := &nothingRaft{log: make(chan *fakeFuture, MaxInFlight)}
	p := New(Config{ServerID: "me"})
	p.Start(r, r, r)
	go r.run(p)
	p.StartLeading(context.Background(), 1)
	b.Cleanup(func() {
		p.Close()
		close(r.log)
	})
	return p, r
}

// BenchmarkPropose includes one decoding of each batch, as the state machine does it.
func BenchmarkPropose(b *testing.B) {
	for _, proposers := range []struct {
		name string
		n    int
	}{{"1", 1}, {"64", 64}, {"256", 256}, {"1024", 1024}} {
		b.Run(proposers.name, func(b *testing.B) {
			p, r := benchPipeline(b)
			body := entryOf(strings.Repeat("a word ", 140))
			b.ReportAllocs()
			b.ResetTimer()
			var left atomic.Int64
			left.Store(int64(b.N))
			done := make(chan struct{})
			for range proposers.n {
				go func() {
					defer func() { done <- struct{}{} }()
					for left.Add(-1) >= 0 {
						if _, _, err := p.Propose(context.Background(), sender, body); err != nil {
							b.Error(err)
							return
						}
					}
				}()
			}
			for range proposers.n {
				<-done
			}
			b.ReportMetric(float64(b.N)/float64(max(1, r.applies.Load())), "commands/entry")
		})
	}
}

func BenchmarkReadIndex(b *testing.B) {
	p, _ := benchPipeline(b)
	b.ReportAllocs()
	b.SetParallelism(64)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := p.ReadIndex(context.Background()); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// BenchmarkWay measures the codec on the way of a command: encoding at the node that
// receives it, forwarding or not, decoding and validation at the leader, encoding as a
// batch, and decoding by one state machine.
func BenchmarkWay(b *testing.B) {
	p := &command.Publish{
		Agent: "Ada", AgentKey: "ada", Kind: command.KindKnowledge, Channel: "general", Title: "A title of some words",
		Body: strings.Repeat("wordy ", 160), Tags: []string{"one", "Two"}, Mentions: []string{"bob"},
		Request: command.RequestKey{Scope: "ada", ID: "request-1"}, Proof: command.Proof{Sender: "0123456789abcdef"},
	}
	for _, n := range []int{1, 32} {
		for _, way := range []string{"leader", "forwarded"} {
			b.Run(fmt.Sprint(n, "/", way), func(b *testing.B) {
				b.ReportAllocs()
				writes := 0
				for b.Loop() {
					g := command.Group{Boot: command.BootID{1}, Floor: 1}
					for i := range n {
						data, err := command.Encode(p)
						if err != nil {
							b.Fatal(err)
						}
						g.Commands = append(g.Commands, command.Command{Seq: uint64(i + 1), Payload: p, Data: data, From: sender})
					}
					if way == "forwarded" {
						data, err := command.EncodeGroup(g)
						if err != nil {
							b.Fatal(err)
						}
						if g, err = command.DecodeGroup(data); err != nil {
							b.Fatal(err)
						}
					}
					data, err := command.EncodeBatch(command.Batch{Stamp: 1, Groups: []command.Group{g}})
					if err != nil {
						b.Fatal(err)
					}
					if _, err := command.DecodeBatch(data); err != nil {
						b.Fatal(err)
					}
					writes += n
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(writes), "ns/write")
			})
		}
	}
}
