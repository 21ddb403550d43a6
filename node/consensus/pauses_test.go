package consensus

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/internal/simnet"

	"github.com/hashicorp/raft"
)

// TestSnapshotPauses: pauses between snapshots for a server grow from a second to a minute,
// and begin anew when the server has confirmed entries behind the last snapshot.
func TestSnapshotPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p snapshotPauses
		expect := func(when string, id raft.ServerID, want ...time.Duration) {
			t.Helper()
			var got []time.Duration
			for range want {
				begun := time.Now()
				for p.check(id) != nil {
					time.Sleep(time.Second)
				}
				got = append(got, time.Since(begun)/time.Second)
				p.sent(id, 10)
			}
			check.Diff(t, got, want, "seconds before each snapshot %s", when)
		}
		expect("for a new server", "f", 0, 1, 2, 4, 8, 16, 32, 60, 60)
		p.advanced("f", 10)
		expect("without progress", "f", 60, 60)
		expect("for another new server", "g", 0, 1, 2)
		p.advanced("f", 11)
		expect("after progress", "f", 0, 1, 2, 4)
		time.Sleep(2 * forgetSnapshot)
		expect("after a long time", "h", 0)
		check.Equal(t, len(p.last), 1, "servers are remembered")
	})
}

// closedReader records whether it was closed.
type closedReader struct {
	io.Reader
	closed atomic.Bool
}

func (r *closedReader) Close() error { r.closed.Store(true); return nil }

// TestNextSnapshotWaits: a server is not sent a second snapshot at once. The snapshot that
// was opened for it is closed. Other servers, and those that were not reached, do not wait.
func TestNextSnapshotWaits(t *testing.T) {
	to := tcpTransport(t)
	var received atomic.Int64
	go func() {
		for rpc := range to.Consumer() {
			_, _ = io.Copy(io.Discard, rpc.Reader)
			received.Add(1)
			rpc.Respond(&raft.InstallSnapshotResponse{Success: true}, nil)
		}
	}()
	from := newTransport(noQueue{}, electedIn(5), nothingCovered, tcpTransport(t))
	defer from.stop()
	send := func(id raft.ServerID, address raft.ServerAddress) (closed bool, err error) {
		data := closedReader{Reader: bytes.NewReader([]byte("x"))}
		err = from.InstallSnapshot(id, address, &raft.InstallSnapshotRequest{Term: 5, Size: 1}, &raft.InstallSnapshotResponse{}, &data)
		return data.closed.Load(), err
	}
	if _, err := send("f", "127.0.0.1:1"); err == nil || errors.Is(err, errSentRecently) {
		t.Errorf("to an address without a server: %v", err)
	}
	_, err := send("f", to.LocalAddr())
	check.Err(t, err, nil, "the first one")
	closed, err := send("f", to.LocalAddr())
	check.Err(t, err, errSentRecently, "the second one")
	check.Equal(t, closed, true, "the second one is closed")
	_, err = send("g", to.LocalAddr())
	check.Err(t, err, nil, "one for another server")
	check.Equal(t, received.Load(), 2, "snapshots arrived")
}

// hostStreams is the stream layer of a host in a simulated network.
type hostStreams struct {
	net.Listener
	host simnet.Host
}

func streamsAt(t *testing.T, network *simnet.Net, name string) hostStreams {
	t.Helper()
	host := network.Host(name)
	return hostStreams{must.Get(host.Listen(t.Context(), "tcp", name))(t), host}
}

func (s hostStreams) Dial(to raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return s.host.DialContext(ctx, "tcp", string(to))
}

// TestServerThatRejectsWhatFollows: a server takes each snapshot and rejects all entries.
// The leader sends and opens few snapshots for it. When the server takes entries again and
// needs a snapshot later, it gets one soon.
func TestServerThatRejectsWhatFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := simnet.New(1)
		var got, lastTaken atomic.Int64
		var takes atomic.Bool
		server := raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
			Stream: streamsAt(t, network, "f"), MaxPool: 1, Timeout: time.Second, Logger: NewLogger(slog.New(slog.DiscardHandler), nil),
		})
		end := make(chan struct{})
		t.Cleanup(func() {
			close(end)
			check.Err(t, server.Close(), nil, "close")
			network.Reset("f", "")
		})
		go func() {
			for {
				select {
				case <-end:
					return
				case rpc := <-server.Consumer():
					switch req := rpc.Command.(type) {
					case *raft.InstallSnapshotRequest:
						got.Add(1)
						_, _ = io.Copy(io.Discard, rpc.Reader)
						rpc.Respond(&raft.InstallSnapshotResponse{Term: req.Term, Success: true}, nil)
					case *raft.AppendEntriesRequest:
						taken := isHeartbeat(req) || takes.Load()
						if index, _ := lastOf(req); taken && len(req.Entries) > 0 {
							lastTaken.Store(int64(index)) //nolint:gosec // small
						}
						rpc.Respond(&raft.AppendEntriesResponse{Term: req.Term, Success: taken}, nil)
					}
				}
			}
		}()
		streams := streamsAt(t, network, "n")
		leader := newNodeAt(t, streams)
		leader.start(t, streams, time.Second)
		must.Do(t, leader.BootstrapCluster(raft.Configuration{Servers: []raft.Server{
			{ID: raft.ServerID(leader.id), Address: raft.ServerAddress(leader.id)}, {Suffrage: raft.Nonvoter, ID: "f", Address: "f"},
		}}).Error())
		wait(t, "it does not lead", leader.Leads)
		cut := func() { must.Do(t, leader.CutLog(t.Context(), mustApply(t, leader, "a text", leader))) }
		during := func(length time.Duration) (sent, opened int64) {
			sent, opened = -got.Load(), -leader.stored.opened.Load()
			for end := time.Now().Add(length); time.Now().Before(end) && got.Load()+sent < 100; {
				time.Sleep(time.Second)
			}
			return sent + got.Load(), opened + leader.stored.opened.Load()
		}
		cut()
		// The pauses of up to 32 s take the first minute; then there is one snapshot in a minute.
		// For each pause one more is opened, and closed at once.
		if sent, opened := during(10 * time.Minute); sent < 12 || sent > 16 || opened > 2*sent+2 {
			t.Errorf("in ten minutes %d snapshots were opened, and %d sent", opened, sent)
		}
		takes.Store(true)
		index := mustApply(t, leader, "it is taken", leader)
		wait(t, "the server gets no entries", func() bool { return lastTaken.Load() >= int64(index) }) //nolint:gosec // small
		takes.Store(false)
		cut()
		if sent, _ := during(6 * time.Second); sent < 3 || sent > 4 {
			t.Errorf("in the six seconds after progress %d snapshots were sent", sent)
		}
	})
}
