package propose

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/await"
)

func TestReadIndexCoversWhatWasAcknowledged(t *testing.T) {
	c := newCluster(t, 3)
	c.lead("node-0")
	for i, n := range c.nodes {
		_, acked, err := c.nodes[(i+1)%3].publish("some text")
		must.Do(t, err)
		index, err := n.ReadIndex(context.Background())
		if err != nil || index < acked {
			t.Errorf("%s: read index %d (%v) after %d was acknowledged", n.id, index, err, acked)
		}
	}
}

// A follower may have applied and shown an entry that the leader has committed but not yet
// applied. No strong read after that may show an older state.
func TestReadIndexCoversWhatOthersHaveApplied(t *testing.T) {
	c := newCluster(t, 3)
	leader := c.lead("node-0")
	before := leader.sm.Applied()
	leader.set(func(n *fakeNode) { n.held = true })
	published := make(chan error, 1)
	go func() {
		_, _, err := c.nodes[1].publish("some text")
		published <- err
	}()
	await.Eventually(t, "a follower has applied it", func() bool { return c.nodes[1].sm.Applied() > before })
	for _, n := range c.nodes {
		if index, err := n.ReadIndex(context.Background()); err != nil || index != before+1 {
			t.Errorf("%s: read index %d (%v), and a follower has applied %d", n.id, index, err, before+1)
		}
	}
	leader.set(func(n *fakeNode) { n.held = false })
	check.Err(t, <-published, nil, "published")
}

// Raft's own entries reach no state machine, so no read may wait for them.
func TestNewestCommand(t *testing.T) {
	log := raft.NewInmemStore()
	for i, kind := range []raft.LogType{raft.LogNoop, raft.LogCommand, raft.LogCommand, raft.LogConfiguration, raft.LogNoop} {
		must.Do(t, log.StoreLog(&raft.Log{Index: uint64(i + 1), Type: kind}))
	}
	for _, tt := range []struct{ applied, commit, want uint64 }{
		{0, 0, 0}, {0, 1, 0}, {0, 2, 2}, {0, 3, 3}, {0, 5, 3}, {2, 5, 3}, {2, 2, 2}, {3, 5, 3}, {3, 2, 3},
	} {
		if got, err := newestCommand(log, tt.applied, tt.commit); got != tt.want || err != nil {
			t.Errorf("applied %d, committed %d: %d (%v), want %d", tt.applied, tt.commit, got, err, tt.want)
		}
	}
	check.Err(t, check.Last(newestCommand(log, 5, 6)), raft.ErrLogNotFound, "an entry that is not there")
}

func TestReadIndexWaitsForTheFirstCommandOfTheTerm(t *testing.T) {
	c := newCluster(t, 3)
	leader := c.elect("node-0")
	type answer struct {
		index uint64
		err   error
	}
	answers := make(chan answer, 2)
	for _, n := range c.nodes[:2] {
		go func() {
			index, err := n.ReadIndex(context.Background())
			answers <- answer{index, err}
		}()
	}
	select {
	case a := <-answers:
		t.Fatalf("answered %+v before the leader knew what is committed", a)
	case <-time.After(50 * time.Millisecond):
	}
	must.Do(t, leader.establish())
	for range 2 {
		if a := <-answers; a.err != nil || a.index != 1 {
			t.Errorf("answer %+v", a)
		}
	}
}

func TestReadIndexWithoutALeader(t *testing.T) {
	c := newCluster(t, 3)
	n := c.nodes[0]
	n.timing.readIndex = 30 * time.Millisecond
	wantCode(t, check.Last(n.ReadIndex(context.Background())), command.CodeNoLeader)

	c.lead("node-1")
	c.net.decide(func(string, string, *http.Request) fate { return rejected })
	wantCode(t, check.Last(n.ReadIndex(context.Background())), command.CodeNoLeader)
}

// A leader whose process was stopped for a while does not know of the next leader when it
// goes on. It does not answer, even if VerifyLeader counts old replies.
func TestDeposedLeaderServesNoStrongRead(t *testing.T) {
	for _, blind := range []bool{false, true} {
		c := newCluster(t, 3)
		old := c.lead("node-0")
		old.set(func(n *fakeNode) { n.held, n.blind = true, blind })
		c.lead("node-1", "node-0")
		must.Do(t, check.Last(c.nodes[2].publish("newer text")))
		old.timing.readIndex = 50 * time.Millisecond
		index, err := old.ReadIndex(context.Background())
		if err == nil {
			t.Errorf("blind=%v: the deposed leader answered %d", blind, index)
		}
		wantCode(t, err, command.CodeNoLeader)
	}
}

// One unreachable voter of three does not prevent an answer, two do.
func TestConfirmationNeedsAMajority(t *testing.T) {
	c := newCluster(t, 3)
	leader := c.lead("node-0")
	c.net.cut("node-1")
	check.Err(t, check.Last(leader.ReadIndex(context.Background())), nil, "one of three is away")
	leader.timing.readIndex = 50 * time.Millisecond
	c.net.decide(func(string, string, *http.Request) fate { return rejected })
	wantCode(t, check.Last(leader.ReadIndex(context.Background())), command.CodeNoLeader)
	leader.set(func(n *fakeNode) { n.outside = true })
	c.net.decide(nil)
	wantCode(t, check.Last(leader.ReadIndex(context.Background())), command.CodeNoLeader)
}

func TestFollowerTurnsToTheNextLeader(t *testing.T) {
	c := newCluster(t, 3)
	c.lead("node-0")
	n := c.nodes[2]
	n.timing.attempt = time.Minute
	asked, release := c.loseAnswers("node-0", 100)
	defer release()
	done := n.read()
	await.Eventually(t, "it has asked", func() bool { return asked.Load() > 0 })
	c.lead("node-1", "node-0")
	must.Do(t, <-done)
}

// read asks for an index in the background.
func (n *fakeNode) read() <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := n.ReadIndex(context.Background())
		done <- err
	}()
	return done
}

// loseAnswers withholds the first answers of a node to strong reads. It returns the count of
// the questions, and a function that releases the answers.
func (c *fakeCluster) loseAnswers(node string, n int) (asked *atomic.Int64, release func()) {
	asked = new(atomic.Int64)
	block := make(chan struct{})
	c.net.onServed(func(_, to string, r *http.Request) {
		if to == node && r.URL.Path == pathReadIndex && int(asked.Add(1)) <= n {
			<-block
		}
	})
	return asked, sync.OnceFunc(func() { close(block) })
}

// A question that gets no answer does not delay other reads.
func TestHungRoundHoldsNobodyUp(t *testing.T) {
	c := newCluster(t, 3)
	c.lead("node-0")
	n := c.nodes[2]
	n.timing.attempt, n.timing.leadWait = time.Minute, time.Minute
	asked, release := c.loseAnswers("node-0", 1)
	defer release()
	first := n.read()
	await.Eventually(t, "the first has asked", func() bool { return asked.Load() == 1 })
	check.Equal(t, must.Get(n.ReadIndex(context.Background()))(t), 1, "the second")
	release()
	check.Err(t, <-first, nil, "the first")
}

// A question that gets no answer is asked anew after the time that a new leader needs.
func TestLostRoundIsAskedAnew(t *testing.T) {
	c := newCluster(t, 3)
	c.lead("node-0")
	n := c.nodes[2]
	n.timing.attempt, n.timing.leadWait, n.timing.confirm = time.Minute, 5*time.Millisecond, 5*time.Millisecond
	_, release := c.loseAnswers("node-0", 1)
	defer release()
	check.Equal(t, must.Get(n.ReadIndex(context.Background()))(t), 1, "read index")
}

// A strong read does not wait for later writes: the leader reads the index before it checks
// its leadership.
func TestReadIndexIsTakenBeforeItIsConfirmed(t *testing.T) {
	c := newCluster(t, 1)
	n := c.lead("node-0")
	before := n.sm.Applied()
	n.set(func(n *fakeNode) {
		n.verifying = func() error {
			_, _, err := n.publish("written meanwhile")
			return err
		}
	})
	index := must.Get(n.ReadIndex(context.Background()))(t)
	check.Equal(t, index, before, "index")
	check.Equal(t, n.sm.Applied(), before+1, "index: applied")
}

func TestRoundsAreSharedAndNeverJoinedLate(t *testing.T) {
	started := make(chan int)
	finish := make(chan uint64)
	n := 0
	r := rounds{base: context.Background(), patience: time.Minute, run: func(context.Context) (uint64, error) {
		n++
		started <- n
		return <-finish, nil
	}}
	ask := func() <-chan uint64 {
		joined := r.join()
		ch := make(chan uint64, 1)
		go func() {
			<-joined.done
			ch <- joined.index
		}()
		return ch
	}
	first := ask()
	<-started
	var late []<-chan uint64
	for range 10 {
		late = append(late, ask())
	}
	finish <- 1
	check.Equal(t, <-first, 1, "the first asker got")
	check.Equal(t, <-started, 2, "round")
	finish <- 2
	for _, ch := range late {
		check.Equal(t, <-ch, 2, "round of the answer to an asker that came during round 1")
	}
	await.Eventually(t, "the rounds end", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return !r.running
	})
	check.Equal(t, n, 2, "rounds for 11 askers")
}

func TestRoundsLetAskersGo(t *testing.T) {
	block := make(chan struct{})
	defer close(block)
	r := rounds{base: context.Background(), patience: time.Minute, run: func(context.Context) (uint64, error) {
		<-block
		return 0, nil
	}}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	check.Err(t, check.Last(r.ask(ctx)), context.DeadlineExceeded, "error")
}

func TestConcurrentStrongReads(t *testing.T) {
	c := newCluster(t, 3)
	leader := c.lead("node-0")
	// The first round does not end before all callers have asked.
	release := make(chan struct{})
	leader.set(func(n *fakeNode) {
		n.verifying = func() error { <-release; return nil }
	})
	const askers = 300
	errs := make(chan error, askers)
	ask := func() {
		_, err := leader.ReadIndex(context.Background())
		errs <- err
	}
	go ask()
	await.Eventually(t, "the first round runs", func() bool {
		leader.localReads.mu.Lock()
		defer leader.localReads.mu.Unlock()
		return leader.localReads.running && leader.localReads.next == nil
	})
	for range askers - 1 {
		go ask()
	}
	await.Eventually(t, "the others wait", func() bool { return waiting(&leader.localReads) == askers-1 })
	close(release)
	for range askers {
		check.Err(t, <-errs, nil, "errs")
	}
	check.Equal(t, leader.get(func(n *fakeNode) int { return n.verifies }), 2, "rounds for %d askers", askers)
}

// waiting returns the number of callers of the round that begins next.
func waiting(r *rounds) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next == nil {
		return 0
	}
	return r.next.askers
}

func TestReadIndexNeedsRaftsConsent(t *testing.T) {
	c := newCluster(t, 1)
	n := c.lead("node-0")
	n.timing.readIndex = 20 * time.Millisecond
	n.set(func(n *fakeNode) { n.verifying = func() error { return raft.ErrLeadershipLost } })
	wantCode(t, check.Last(n.ReadIndex(context.Background())), command.CodeNoLeader)
	// Leadership ends while the round runs.
	n.set(func(n *fakeNode) {
		n.verifying = func() error { n.leader.mu.Lock(); n.leader.term = 0; n.leader.mu.Unlock(); return nil }
	})
	wantCode(t, check.Last(n.ReadIndex(context.Background())), command.CodeNoLeader)
}

func TestElectedLeaderLetsOthersWait(t *testing.T) {
	c := newCluster(t, 2)
	n := c.elect("node-0")
	n.timing.leadWait = 5 * time.Second
	done := make(chan *httptest.ResponseRecorder, 1)
	go func() {
		w := httptest.NewRecorder()
		n.handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, pathReadIndex, http.NoBody))
		done <- w
	}()
	select {
	case w := <-done:
		t.Fatalf("answered %d before it led", w.Code)
	case <-time.After(30 * time.Millisecond):
	}
	must.Do(t, n.establish())
	if w := <-done; w.Code != http.StatusOK || w.Body.String() != `{"value":1}`+"\n" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	w := httptest.NewRecorder()
	c.nodes[1].handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, pathReadIndex, http.NoBody))
	check.Equal(t, w.Code, http.StatusMisdirectedRequest, "a follower answered")
}
