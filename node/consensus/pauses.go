package consensus

import (
	"errors"
	"io"
	"maps"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// Pauses between two snapshots for one server. Raft would send the next one at once to a
// server that takes a snapshot and rejects the entries after it.
const (
	minSnapshotPause = time.Second
	maxSnapshotPause = time.Minute
	// forgetSnapshot is how long the last snapshot for a server is remembered.
	forgetSnapshot = time.Hour
)

var errSentRecently = errors.New("a snapshot was sent to this server recently; the next one waits")

// snapshotPauses bound how often this node sends a snapshot to one server. The pause after
// a snapshot is twice the one before, and begins anew when the server's log has advanced.
// The zero value is ready for use.
type snapshotPauses struct {
	mu   sync.Mutex
	last map[raft.ServerID]*sentSnapshot
}

// sentSnapshot is the last snapshot for a server.
type sentSnapshot struct {
	ended   time.Time // the end of its sending
	pause   time.Duration
	reached uint64 // the newest index that the server has confirmed, with this snapshot or since
}

// check returns an error during a pause.
func (p *snapshotPauses) check(id raft.ServerID) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.last[id]; s != nil && time.Since(s.ended) < max(s.pause, minSnapshotPause) {
		return errSentRecently
	}
	return nil
}

// advanced records that a server has confirmed the entries up to an index.
func (p *snapshotPauses) advanced(id raft.ServerID, index uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.last[id]; s != nil && index > s.reached {
		s.reached, s.pause = index, 0
	}
}

// sent records the end of a snapshot for a server, and the index up to which the server
// has confirmed it, 0 if it has not. A snapshot itself is no advance: a server that rejects
// all that follows would get each newer one at once.
func (p *snapshotPauses) sent(id raft.ServerID, index uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	s := p.last[id]
	if s == nil {
		s = &sentSnapshot{}
	}
	s.ended, s.reached = now, max(s.reached, index)
	s.pause = min(max(2*s.pause, minSnapshotPause), maxSnapshotPause)
	maps.DeleteFunc(p.last, func(_ raft.ServerID, s *sentSnapshot) bool { return now.Sub(s.ended) > forgetSnapshot })
	if p.last == nil {
		p.last = map[raft.ServerID]*sentSnapshot{}
	}
	p.last[id] = s
}

// InstallSnapshot sends a snapshot to a server, after the pause since the last one. If it
// had to wait it returns an error: Raft then opens a newer snapshot.
func (t *transport) InstallSnapshot(id raft.ServerID, target raft.ServerAddress, req *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	if err := t.terms.elected(req.Term); err != nil {
		return err
	}
	pauses := &t.notices.pauses
	if err := pauses.check(id); err != nil {
		if open, is := data.(io.Closer); is {
			_ = open.Close() // it would keep disk space and the log; Raft closes it, too
		}
		_ = persist(t.end, func() error { return pauses.check(id) }, func() bool { return t.wanted(id, req.Term) })
		return err
	}
	read := &observedReader{Reader: data}
	err := t.NetworkTransport.InstallSnapshot(id, target, req, resp, read)
	if err != nil && err.Error() == errTakesOwn.Error() {
		err = errTakesOwn // as Raft's log knows it
	}
	confirmed := uint64(0)
	if err == nil && resp.Success {
		confirmed = req.LastLogIndex
	}
	if read.begun {
		pauses.sent(id, confirmed)
	}
	return err
}

// observedReader records whether it was read. It is not if the server is out of reach: the
// next attempt then need not wait.
type observedReader struct {
	io.Reader
	begun bool
}

func (r *observedReader) Read(p []byte) (int, error) {
	r.begun = true
	return r.Reader.Read(p)
}
