package simulation

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/commons-cluster/commons/api/client"
	datadir "github.com/commons-cluster/commons/cluster"
	"github.com/commons-cluster/commons/internal/longtest"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/internal/simdisk"
	"github.com/commons-cluster/commons/internal/simnet"
	"github.com/commons-cluster/commons/node/admin"
	"github.com/commons-cluster/commons/node/config"
	"github.com/commons-cluster/commons/node/logstore"
	"github.com/commons-cluster/commons/node/nodetest"
	"github.com/commons-cluster/commons/node/offline"
	"github.com/commons-cluster/commons/node/propose"
	"github.com/commons-cluster/commons/scripts/chaos/check"
	"github.com/commons-cluster/commons/scripts/chaos/record"
	"github.com/commons-cluster/commons/scripts/harness"
)

const (
	// nodesLength is the virtual time of a run of whole nodes with faults, and raftLength that
	// of one of Raft.
	nodesLength, raftLength = 30 * time.Second, time.Minute
	// lookEvery is the pause between two looks at all nodes, and clientPause that of a client.
	lookEvery   = 50 * time.Millisecond
	clientPause = time.Second
	// clockSlack is how far the time of a write may be off its call while all clocks are right.
	clockSlack = 3 * time.Second
	// before and after are the newest formats of the programs of a rolling upgrade.
	before, after = 1, 2
)

// nodes is a cluster of whole nodes, recorded clients and their checks.
type nodes struct {
	*nodetest.Cluster
	*journal

	t       *testing.T
	seed    uint64
	rng     *rand.Rand // of the faults
	mix     mix
	hosts   []*host
	leaders map[uint64]string   // by term
	terms   map[string]uint64   // by server
	digests map[uint64][32]byte // by index
	anyTime bool                // two clocks were wrong at once
}

// host is the machine of a node.
type host struct {
	name  string // in the network
	clock clock
	state *simdisk.Disk // of its state
	life  atomic.Pointer[life]
}

// life lasts from one start of a node to the next.
type life struct {
	*disk

	ended atomic.Pointer[error] // the reason why the node ended by itself
}

// clock is the clock of a host, which can be set.
type clock struct {
	propose.Clock

	off   atomic.Int64
	ended time.Time // when a process ended with the clock wrong; the others go on with what they measured
}

// counts reports whether the clock is wrong, or others may still believe that it is.
func (c *clock) counts() bool {
	return c.off.Load() != 0 || time.Since(c.ended) < propose.ClockExpiry
}

func (c *clock) Read() (wall time.Time, mono time.Duration) {
	wall, mono = c.Clock.Read()
	return wall.Add(time.Duration(c.off.Load())), mono
}

// simulateNodes makes one run of whole nodes.
func simulateNodes(t *testing.T, seed uint64, o *journal) {
	t.Helper()
	nodetest.VirtualSeed(t, seed, func(t *testing.T) {
		t.Helper()
		o.began = time.Now()
		rng := rand.New(rand.NewPCG(seed, 1))
		c := &nodes{
			t: t, seed: seed, rng: rng, mix: drawNodesMix(rng), journal: o,
			leaders: map[uint64]string{}, terms: map[string]uint64{}, digests: map[uint64][32]byte{},
		}
		c.event("%+v", c.mix)
		c.Cluster = nodetest.New(t, c.mix.voters, nodetest.Impatient, c.configure)
		for i := range c.Nodes {
			c.watchEnd(i)
		}
		c.WaitVoters()
		c.run()
	})
}

// configure gives a node its host.
func (c *nodes) configure(cfg *config.Config) {
	h := &host{name: netip.MustParseAddrPort(cfg.HTTPAddr).Addr().String(), clock: clock{Clock: propose.WallClock(0)}}
	c.hosts = append(c.hosts, h)
	h.state = c.emptyState(cfg)
	cfg.TrustedProxies = []string{"127.0.0.0/8"}
	cfg.Tuning.Clock, cfg.Tuning.Format = &h.clock, before
	cfg.Tuning.PurgeGather = c.mix.gather
	cfg.DiskReserve = "10%"
	cfg.Tuning.DiskSpace = func() (free, size uint64, err error) { return h.life.Load().free(), diskSize, nil }
	cfg.Tuning.SnapshotBytes, cfg.Tuning.TrailingBytes, cfg.Tuning.JournalBytes = c.mix.logBytes, c.mix.logBytes, journalBytes
	c.renew(h, cfg)
}

// emptyState returns an empty disk for the state of a node.
func (c *nodes) emptyState(cfg *config.Config) *simdisk.Disk {
	return must.Get(simdisk.New(filepath.Join(cfg.DataDir, offline.StateDir)))(c.t)
}

// renew begins a life of a host, with a disk that works and a clock that was set. A process
// that starts with a wrong clock while a voter is away can only go on from the log's time.
func (c *nodes) renew(h *host, cfg *config.Config) {
	if h.clock.off.Swap(0) != 0 {
		h.clock.ended = time.Now()
	}
	l := &life{disk: newDisk(rand.New(rand.NewPCG(c.seed, c.rng.Uint64())), &c.mix, func() *simnet.Net { return c.Net() }, h.name)}
	l.state = h.state
	h.life.Store(l)
	cfg.Tuning.StateFS = h.state.Before(l.beforeChange)
	path := filepath.Join(cfg.DataDir, offline.LogFile)
	cfg.Tuning.AroundWrite = func(what string, do func() error) error {
		switch what {
		case logstore.Storing, logstore.Deleting, logstore.Filing, logstore.Clearing, logstore.Rewriting:
			return l.around(what, path, do, func() {})
		}
		l.whilePaused()
		return do()
	}
}

func (c *nodes) life(i int) *life { return c.hosts[i].life.Load() }

// watchEnd notices when a node ends by itself.
func (c *nodes) watchEnd(i int) {
	run, l := c.Nodes[i].Run, c.life(i)
	go func() {
		err := run.Wait()
		l.ended.Store(&err)
	}()
}

// run lets clients work during the faults, and checks their calls.
func (c *nodes) run() {
	token := c.moderator()
	var newest struct{ LastEventID string }
	must.Do(c.t, c.Nodes[0].Client().Do(c.t.Context(), http.MethodGet, "/api/events", nil, &newest))
	began := time.Now()
	var history record.History
	crowd := &record.Crowd{
		Client: record.NewCaller(began, c.HTTP, &history), Seed: c.seed, Pause: clientPause, Poll: clientPause, Token: token, From: newest.LastEventID,
		Purge: c.purge,
	}
	for _, nd := range c.Nodes {
		crowd.Nodes = append(crowd.Nodes, &harness.Node{Name: nd.Config.NodeID, URL: nd.URL()})
	}
	endCrowd := crowd.Begin(c.t.Context())
	for time.Since(began) < cmp.Or(*length, nodesLength) && c.found() == 0 {
		c.pass(time.Duration(c.rng.Int64N(int64(c.mix.pause))))
		c.startAll()
		order := c.rng.Perm(len(c.Nodes))
		c.fault(c.mix.faults[c.rng.IntN(len(c.mix.faults))], order[0], order[1])
	}
	c.settle()
	last := c.lastWrite()
	endCrowd()
	c.WaitConverged()
	c.judge(history.Calls, began, last)
}

// moderator returns the token of a moderator.
func (c *nodes) moderator() (token string) {
	c.Eventually("a moderator", func() error {
		order := admin.Moderation{Operation: "setModerator", Body: []byte(`{"name":"chaos"}`)}
		answer, err := operate[struct{ Token string }](c, 0, admin.PathModerate, order)
		token = answer.Token
		return err
	})
	return token
}

// purge purges an entry, at the first node that does it.
func (c *nodes) purge(id string) (err error) {
	order := admin.Moderation{Operation: "purge", Body: fmt.Appendf(nil, `{"ids":[%q],"reason":"chaos"}`, id)}
	for i := range c.Nodes {
		if _, err = operate[struct{}](c, i, admin.PathModerate, order); err == nil {
			return nil
		}
	}
	return err
}

// operate makes a call of an operator at a node.
func operate[Answer any](c *nodes, i int, path string, request any) (answer Answer, err error) {
	to, err := admin.NewClient(c.Operators(), c.Nodes[i].Config.SecretFile, c.Nodes[i].ClusterAddr())
	if err != nil {
		return answer, err
	}
	defer to.Close()
	ctx, cancel := context.WithTimeout(c.t.Context(), writeTimeout)
	defer cancel()
	return admin.Call[Answer](ctx, to, path, request)
}

// pass lets time pass, and looks at the nodes.
func (c *nodes) pass(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(lookEvery) {
		c.look()
	}
}

// look checks the running nodes: terms never go back, a term has one leader, and digests
// are equal at equal indexes.
func (c *nodes) look() {
	for i, nd := range c.Nodes {
		if nd.Run == nil || c.life(i).ended.Load() != nil {
			continue
		}
		s := nd.Status()
		if was := c.terms[s.Node]; s.Term < was {
			c.problem("%s: its term goes back from %d to %d", s.Node, was, s.Term)
		}
		c.terms[s.Node] = s.Term
		if s.Role == "leader" && nd.Status().Term == s.Term {
			switch c.leaders[s.Term] {
			case "":
				c.leaders[s.Term] = s.Node
				c.event("%s leads in term %d", s.Node, s.Term)
			case s.Node:
			default:
				c.problem("%s and %s lead in term %d", c.leaders[s.Term], s.Node, s.Term)
			}
		}
		index, digest := nd.Run.Machine().Digest()
		if was, known := c.digests[index]; known && was != digest {
			c.problem("%s: its state at index %d differs from that of another node", s.Node, index)
		}
		c.digests[index] = digest
	}
}

// startAll starts the nodes that are down. A node that lives on without power, as its log only
// failed to be cut, is down, too.
func (c *nodes) startAll() {
	for i, nd := range c.Nodes {
		if ended := c.life(i).ended.Load(); nd.Run != nil && ended != nil {
			c.event("%s has ended: %v", nd.Config.NodeID, *ended)
			expected := func(cause error) bool { return errors.Is(*ended, cause) }
			if !slices.ContainsFunc([]error{errBadDisk, errPowerOff, syscall.ENOSPC}, expected) {
				c.problem("%s ended by itself: %v", nd.Config.NodeID, *ended)
			}
			c.crash(i)
		} else if nd.Run != nil && c.life(i).off.Load() {
			c.crash(i)
		}
		if nd.Run == nil {
			c.event("%s starts", nd.Config.NodeID)
			c.renew(c.hosts[i], &nd.Config)
			c.Start(i)
			c.watchEnd(i)
		}
	}
}

// crash ends nodes at once. Their next starts see the synced data of logs and states, and a share
// of the unsynced data of states.
func (c *nodes) crash(victims ...int) {
	left := map[int]image{}
	path := func(i int) string { return filepath.Join(c.Nodes[i].DataDir(), offline.LogFile) }
	for _, i := range victims {
		data, err := c.life(i).powerOff(path(i))
		if err != nil {
			c.problem("crash of %s: %v", c.Nodes[i].Config.NodeID, err)
		}
		left[i], c.hosts[i].state = data, c.life(i).left
		c.Net().Reset(c.Nodes[i].Host(), "")
	}
	c.Kill(victims...)
	for i, data := range left {
		if lock, err := datadir.LockDir(c.Nodes[i].DataDir()); err != nil {
			c.leave(i)
		} else {
			must.Do(c.t, lock.Release())
		}
		if err := data.write(path(i)); err != nil {
			c.problem("crash of %s: %v", c.Nodes[i].Config.NodeID, err)
		}
	}
}

// leave gives a node a copy of its directory: if it cannot close its files when it ends, it
// keeps them open until its process ends.
func (c *nodes) leave(i int) {
	synctest.Wait()
	cfg := &c.Nodes[i].Config
	from := cfg.DataDir
	cfg.DataDir += "x"
	state := c.hosts[i].state.Move(filepath.Join(from, offline.StateDir), filepath.Join(cfg.DataDir, offline.StateDir))
	if err := errors.Join(os.CopyFS(cfg.DataDir, os.DirFS(from)), state); err != nil {
		c.problem("copy of %s: %v", from, err)
	}
}

// stop asks a node to end, which goes on if it stands still. It may lack a quorum, and may
// crash meanwhile.
func (c *nodes) stop(i int) {
	c.life(i).goOn()
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	err := c.Nodes[i].Run.Shutdown(ctx)
	synctest.Wait()
	if ended := c.life(i).ended.Load(); err == nil && ended != nil {
		err = *ended
	}
	if err != nil || c.life(i).off.Load() {
		c.event("%s loses power as it ends: %v", c.Nodes[i].Config.NodeID, err)
		c.crash(i)
	}
	c.Nodes[i].Run = nil
}

// settle ends the faults, those that are to come included, and waits until all nodes are well.
func (c *nodes) settle() {
	c.event("all faults end")
	c.Net().Heal()
	c.mix.stalls = 0
	for _, h := range c.hosts {
		h.clock.off.Store(0)
		h.life.Load().heal()
	}
	c.startAll()
	for began := time.Now(); time.Since(began) < settleFor/2; {
		c.pass(beat)
		c.startAll() // a node may end late
	}
	c.WaitReady()
	c.WaitVoters()
}

// lastWrite returns an entry that is acknowledged when there are no faults any more. Its time
// is that of the write, unless the log is ahead, because clocks were.
func (c *nodes) lastWrite() nodetest.Entry {
	began := time.Now().Add(-clockSlack)
	post := nodetest.Post{Agent: "last", Body: "written after all faults", RequestID: "the-last-write"}
	var written nodetest.Answer
	c.Within(settleFor, "a write after all faults", func() (err error) {
		written, err = c.Nodes[c.rng.IntN(len(c.Nodes))].Publish(c.t.Context(), post)
		return cmp.Or(err, nodetest.ErrorIf(written.Code != "", "%s: %s", written.Code, written.Message))
	})
	if at := time.UnixMilli(written.Entry.CreatedAt); at.Before(began) || at.After(time.Now().Add(clockSlack)) && !c.anyTime {
		c.problem("the last write was made at %v, and is dated %v", time.Now(), at)
	}
	return written.Entry
}

// judge checks that every node has the last write, and runs the checks of scripts/chaos on the
// calls.
func (c *nodes) judge(calls []record.Call, began time.Time, last nodetest.Entry) {
	f := check.Final{Entries: map[string][]check.Entry{}, Equal: true, Began: began, AnyTime: c.anyTime}
	for i, nd := range c.Nodes {
		all := c.All(i, client.EntryQuery{})
		slices.Reverse(all)
		f.Entries[nd.Config.NodeID] = all
		if !slices.ContainsFunc(all, func(e check.Entry) bool { return e.ID == last.ID }) {
			c.problem("%s lacks %s, which was acknowledged after all faults", nd.Config.NodeID, last.ID)
		}
	}
	for _, v := range check.All(calls, &f) {
		for _, finding := range v.Findings {
			shown := must.Get(json.Marshal(finding.Calls[:min(len(finding.Calls), check.MaxShown)]))(c.t)
			c.problem("%s: %s\n%s", v.Name, finding.Text, shown)
		}
	}
	kinds := map[string]int{}
	for i := range calls {
		kinds[string(calls[i].Outcome)]++
	}
	c.event("%d calls: %v, %d terms", len(calls), kinds, len(c.leaders))
	if kinds[string(record.Done)] == 0 {
		c.problem("no call succeeded")
	}
}

// TestNodes runs whole nodes with the faults of several seeds: claims, strong reads and all
// other calls of scripts/chaos, which its checks judge. A failure shows the seed and the
// events of its run.
func TestNodes(t *testing.T) {
	longtest.SkipShort(t, "the steps test and simulation run it")
	t.Parallel()
	seeds(t, foundByNodes, func(seed uint64, o *journal) { simulateNodes(t, seed, o) })
}
