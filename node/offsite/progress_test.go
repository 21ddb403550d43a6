package offsite_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/internal/simnet"
	"github.com/commons-cluster/commons/node/offsite"
	"github.com/commons-cluster/commons/node/offsite/offsitetest"
	"github.com/commons-cluster/commons/node/pace"
)

// inMemory starts a service on a network in memory, for a test in virtual time. around changes the
// client's end of each connection.
func inMemory(t *testing.T, around func(net.Conn) net.Conn) (*offsitetest.Service, offsite.Access) {
	t.Helper()
	network := simnet.New(1)
	service := offsitetest.Serve(t, must.Get(network.Host("127.0.0.2").Listen(t.Context(), "tcp", "127.0.0.2:9000"))(t))
	t.Cleanup(func() { time.Sleep(2 * time.Minute) }) // until idle connections have ended
	access := service.Access(t)
	access.Dial = func(ctx context.Context, kind, addr string) (net.Conn, error) {
		c, err := network.Host("127.0.0.1").DialContext(ctx, kind, addr)
		if err != nil {
			return nil, err
		}
		return around(c), nil
	}
	return service, access
}

func asItIs(c net.Conn) net.Conn { return c }

// slowConn is a connection with few bytes in a second.
type slowConn struct{ net.Conn }

const slowRate = 1 << 10 // bytes in a second

func (c slowConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p[:min(len(p), 32*slowRate)])
	time.Sleep(time.Duration(n) * time.Second / slowRate)
	return n, err
}

func (c slowConn) Write(p []byte) (int, error) {
	time.Sleep(time.Duration(len(p)) * time.Second / slowRate)
	return c.Conn.Write(p)
}

// TestSlowService: an upload and a download may take hours, as long as bytes move.
func TestSlowService(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, access := inMemory(t, func(c net.Conn) net.Conn { return slowConn{c} })
		s := must.Get(offsite.Open("s3://"+offsitetest.Bucket, access))(t)
		const size = 17 << 20 // two parts
		slowly := func(what string, begun time.Time) {
			t.Helper()
			if took := time.Since(begun); took < time.Hour {
				t.Errorf("the %s took %v: the service is not slow", what, took)
			}
		}
		begun := time.Now()
		must.Do(t, s.Put(t.Context(), "large", io.LimitReader(zeros{}, size)))
		slowly("upload", begun)
		begun = time.Now()
		r := must.Get(s.Get(t.Context(), "large"))(t)
		check.Equal(t, must.Get(io.Copy(io.Discard, r))(t), size, "bytes of the object")
		must.Do(t, r.Close())
		slowly("download", begun)
	})
}

// stuckConn is a connection that takes no more bytes after the first ones.
type stuckConn struct {
	net.Conn
	taken    *atomic.Int64 // by all connections
	deadline time.Time
}

func (c *stuckConn) SetDeadline(t time.Time) error {
	c.deadline = t
	return c.Conn.SetDeadline(t)
}

func (c *stuckConn) Write(p []byte) (int, error) {
	if c.taken.Add(int64(len(p))) < 4<<10 {
		return c.Conn.Write(p)
	}
	time.Sleep(time.Until(c.deadline))
	return 0, os.ErrDeadlineExceeded
}

// TestServiceWithoutProgress: a backup is given up some minutes after the last byte moved, with the
// reason, and does not count.
func TestServiceWithoutProgress(t *testing.T) {
	t.Parallel()
	object := func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, ".commons") }
	for _, tc := range []struct {
		name  string
		hangs func(w http.ResponseWriter, r *http.Request) bool
		stuck bool
		says  string
	}{
		{"no answer at all", func(http.ResponseWriter, *http.Request) bool { return true }, false, "write in the bucket: no progress"},
		{"no answer to a part", func(_ http.ResponseWriter, r *http.Request) bool { return r.Method == http.MethodPut && object(r) }, false, "write in the bucket: no progress"},
		{"no answer to the end", func(_ http.ResponseWriter, r *http.Request) bool {
			return r.Method == http.MethodPost && r.URL.Query().Has("uploadId")
		}, false, "write in the bucket: no progress"},
		{"no more bytes are taken", nil, true, "write in the bucket: no progress"},
		{"no more bytes are sent", func(w http.ResponseWriter, r *http.Request) bool {
			hangs := r.Method == http.MethodGet && object(r)
			if hangs {
				offsitetest.Describe(w)
				w.Header().Set("Content-Length", "1000")
				_, _ = w.Write([]byte("C"))
				_ = http.NewResponseController(w).Flush()
			}
			return hangs
		}, false, "i/o timeout"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			backup := offsitetest.Backup(t, own, day, 2) // made outside: a state machine has goroutines
			synctest.Test(t, func(t *testing.T) {
				var taken atomic.Int64
				service, access := inMemory(t, func(c net.Conn) net.Conn {
					if tc.stuck {
						return &stuckConn{Conn: c, taken: &taken}
					}
					return c
				})
				s := must.Get(offsite.Open("s3://"+offsitetest.Bucket, access))(t)
				if tc.hangs != nil {
					service.Break(func(w http.ResponseWriter, r *http.Request) bool {
						hangs := tc.hangs(w, r)
						if hangs {
							offsitetest.Hang(w, r)
						}
						return hangs
					})
				}
				begun := time.Now()
				_, err := offsite.Save(t.Context(), s, own, true, day, io.MultiReader(strings.NewReader(string(backup))))
				check.ErrText(t, err, tc.says, "save")
				if took := time.Since(begun); took > 10*time.Minute {
					t.Errorf("the backup was given up after %v", took)
				}
				service.Break(nil)
				if !tc.stuck {
					check.Equal(t, whole(t, s), "", "backups that count")
				}
			})
		})
	}
}

// inService is inPlace with a bucket as the store.
func inService(t *testing.T, test func(p *place, service *offsitetest.Service)) {
	t.Helper()
	inPlace(t, func(p *place) {
		service, access := inMemory(p.T, asItIs)
		p.leader.Access, p.plan.Settings.BackupURL = access, "s3://"+offsitetest.Bucket
		p.store = must.Get(offsite.Open(p.plan.Settings.BackupURL, access))(p.T)
		test(p, service)
	})
}

// TestLeaderLeavesServiceThatHangs: a leader ends at once in the middle of an upload. The
// next one makes the backup, and deletes the parts.
func TestLeaderLeavesServiceThatHangs(t *testing.T) {
	inService(t, func(p *place, service *offsitetest.Service) {
		service.Break(func(w http.ResponseWriter, r *http.Request) bool {
			hangs := r.URL.Query().Has("uploadId") && r.Method != http.MethodPut // only parts arrive
			if hangs {
				offsitetest.Hang(w, r)
			}
			return hangs
		})
		p.elect()
		p.after(someTime, 0, 0, 0)
		begun := time.Now()
		p.stopLead()
		if took := time.Since(begun); took > time.Second {
			t.Errorf("the leader led %v longer", took)
		}
		p.stopLead = func() {}
		time.Sleep(2 * time.Minute) // until the client has given up
		check.Equal(p, len(service.Unfinished(p)), 1, "interrupted uploads")
		service.Break(nil)
		p.elect()
		p.after(someTime, 1, 0, 1)
		check.Diff(p, service.Unfinished(p), []string(nil), "interrupted uploads that are left")
		check.Equal(p, len(service.Names(p)), 3, "objects: the backup, its manifest and the list of purges, %v", service.Names(p))
		p.after(aDay-pause, 1, 0, 1)
		p.after(pause, 2, 0, 2)
	})
}

// trickle is a connection that brings a few bytes at a time.
type trickle struct{ net.Conn }

func (c trickle) Read(p []byte) (int, error) {
	time.Sleep(time.Second)
	return c.Conn.Read(p[:min(len(p), 256)])
}

// TestReadingBackRests: the reading of an uploaded backup yields to writes.
func TestReadingBackRests(t *testing.T) {
	inPlace(t, func(p *place) {
		slow := true // a connection that is made
		_, access := inMemory(p.T, func(c net.Conn) net.Conn {
			if slow {
				return trickle{c}
			}
			return c
		})
		p.leader.Access, p.plan.Settings.BackupURL = access, "s3://"+offsitetest.Bucket
		p.store = must.Get(offsite.Open(p.plan.Settings.BackupURL, access))(p.T)
		var rests atomic.Int64
		p.leader.Pacer = &pace.Pacer{Sleep: func(time.Duration) { rests.Add(1) }}
		p.elect()
		time.Sleep(time.Hour)
		synctest.Wait()
		slow = false
		p.after(someTime, 1, 0, 1)
		if rests.Load() == 0 {
			p.Error("it did not rest")
		}
	})
}

// TestRunsAtServiceWithoutProgress: a run is recorded as failed, with the reason, and repeated.
func TestRunsAtServiceWithoutProgress(t *testing.T) {
	inService(t, func(p *place, service *offsitetest.Service) {
		service.Break(func(w http.ResponseWriter, r *http.Request) bool { offsitetest.Hang(w, r); return true })
		p.elect()
		time.Sleep(8 * time.Minute)
		service.Break(nil)
		p.after(someTime, 1, 1, 0)
		check.ErrText(p, errors.New(p.records[0].Problem), "list in the bucket: no progress", "the recorded problem")
		p.after(10*time.Minute, 2, 1, 1)
	})
}

// TestRunsAtServiceThatRefuses: with locked objects a backup counts, and the record says that old ones
// stay; in another region it fails, with the remedy.
func TestRunsAtServiceThatRefuses(t *testing.T) {
	inService(t, func(p *place, service *offsitetest.Service) {
		refuse := func(method, code string) {
			service.Break(func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method == method {
					offsitetest.Fail(w, http.StatusForbidden, code)
				}
				return r.Method == method
			})
		}
		p.elect()
		p.after(2*aDay+someTime, 3, 0, 2)
		refuse(http.MethodDelete, "AccessDenied") // as with object lock
		p.after(aDay, 4, 0, 3)
		check.ErrText(p, errors.New(p.records[3].Problem), "delete in the bucket", "the problem of a run that saved a backup")
		check.Equal(p, p.records[3].Oldest, p.records[1].At, "creation of the oldest backup")
		refuse(http.MethodPut, "AuthorizationHeaderMalformed")
		p.after(aDay, 5, 1, 3) // deletions are allowed again, and wait for the next backup
		check.ErrText(p, errors.New(p.records[4].Problem), "--backup-region", "the problem of a run in another region")
		service.Break(nil)
		p.after(10*time.Minute, 6, 1, 2)
		check.Equal(p, p.records[5].Problem, "", "the problem of the next run")
	})
}
