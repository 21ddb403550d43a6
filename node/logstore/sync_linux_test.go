package logstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"unsafe"

	"github.com/hashicorp/raft"
	"golang.org/x/sys/unix"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// childEnv names the log of a process in which syncs fail.
const childEnv = "LOGSTORE_FAILING_SYNCS"

// inChild runs the rest of a test in a process of its own. It reports whether this is that
// process, and returns the path of the test's log.
func inChild(t *testing.T) (path string, is bool) {
	t.Helper()
	if path := os.Getenv(childEnv); path != "" {
		return path, true
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), childEnv+"="+filepath.Join(t.TempDir(), "raft.db"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
	return "", false
}

// TestNothingIsStoredUnsynced holds that an entry, and a vote, counts as stored
// only when the kernel has said that it is on disk.
func TestNothingIsStoredUnsynced(t *testing.T) {
	path, is := inChild(t)
	if !is {
		return
	}
	var failing atomic.Bool
	failSyncs(t, failing.Load)
	s := open(t, Options{Path: path})
	store := func(index uint64) error {
		return s.StoreLogs([]*raft.Log{{Index: index, Term: 1, Type: raft.LogCommand, Data: []byte("entry")}})
	}
	must.Do(t, errors.Join(store(1), s.SetUint64([]byte("vote"), 1)))
	failing.Store(true)
	check.Err(t, s.SetUint64([]byte("vote"), 2), syscall.EIO, "stored a vote without a sync")
	check.Err(t, s.fileUpTo(1), syscall.EIO, "filed an entry without a sync")
	check.Err(t, store(2), syscall.EIO, "stored an entry without a sync")
	// Queued entries are not written before the kernel has said so.
	path += "queue"
	failing.Store(false)
	q := open(t, Options{Path: path})
	mustStore(t, q, entries(1, 1, 1, 20))
	failing.Store(true)
	mustQueue(t, q, entries(2, 2, 1, 20))
	if err := q.WaitWritten(2); !errors.Is(err, syscall.EIO) || q.Unwritten() != 2 {
		t.Errorf("without a sync, unwritten from %d on: %v", q.Unwritten(), err)
	}
	check.Err(t, q.SetUint64([]byte("term"), 2), syscall.EIO, "stored a term behind it")
	path = s.path
	// The file's content may be in the kernel's memory alone.
	must.Do(t, s.Close())
	check.Err(t, check.Last(Open(Options{Path: path, Existing: true})), syscall.EIO, "opened")
}

// TestOneSyncFails lets one sync fail, and the later ones succeed. After the one of the
// journal nobody knows what it holds. When entries are filed, after the first sync, of the
// pages, the transaction is not made, and after the second, of the meta page, it is in the file.
func TestOneSyncFails(t *testing.T) {
	path, is := inChild(t)
	if !is {
		return
	}
	var syncs, fails atomic.Int64
	failSyncs(t, func() bool { return syncs.Add(1) == fails.Load() })
	store := func(s *Store) error { return s.StoreLogs(entries(3, 6, 2, 20)) }
	file := func(s *Store) error { return s.fileUpTo(2) }
	for i, tt := range []struct {
		do     func(s *Store) error
		failed int64
		ends   bool
	}{{store, 1, true}, {file, 1, false}, {file, 2, true}, {file, 3, false}, {file, 4, true}} {
		var fatal error
		s := open(t, Options{Path: path + fmt.Sprint(i), Fatal: func(err error) { fatal = err }})
		mustStore(t, s, entries(1, 2, 1, 20))
		syncs.Store(0)
		fails.Store(tt.failed)
		check.Err(t, tt.do(s), syscall.EIO, "%d: sync %d failed", i, tt.failed)
		// Raft's next writes, unless the node has ended.
		err := s.StoreLogs(entries(3, 4, 3, 20))
		if (fatal != nil) != tt.ends || (err != nil) != tt.ends {
			t.Errorf("%d: sync %d failed: the next entries: %v; fatal: %v", i, tt.failed, err, fatal)
		}
		must.Do(t, s.Close())
		s = open(t, Options{Path: s.path, Existing: true})
		var terms []uint64
		for i, last := s.Bounds(); i <= last; i++ {
			var l raft.Log
			must.Do(t, s.GetLog(i, &l))
			terms = append(terms, l.Term)
		}
		if !slices.IsSorted(terms) || len(terms) < 2 || !tt.ends && len(terms) != 4 {
			t.Errorf("%d: sync %d failed, and the log has the terms %v", i, tt.failed, terms)
		}
	}
}

// The kernel's constants for user notification that package unix does not have.
const (
	notifRecv = 0xc0502100 // SECCOMP_IOCTL_NOTIF_RECV
	notifSend = 0xc0182101 // SECCOMP_IOCTL_NOTIF_SEND
)

// failSyncs has fails decide about every fsync and fdatasync of this process, which is
// a child. Those that it lets pass are made.
func failSyncs(t *testing.T, fails func() bool) {
	t.Helper()
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}, // the number of the call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 1, K: unix.SYS_FSYNC},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: unix.SYS_FDATASYNC},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_USER_NOTIF},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	must.Do(t, unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	const flags = unix.SECCOMP_FILTER_FLAG_TSYNC | unix.SECCOMP_FILTER_FLAG_TSYNC_ESRCH | unix.SECCOMP_FILTER_FLAG_NEW_LISTENER
	listener, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&filter)))
	must.Equal(t, errno, 0, "this kernel lets no process filter its calls")
	go func() {
		for {
			var call [80]byte // struct seccomp_notif, which begins with an id
			if _, _, errno := unix.Syscall(unix.SYS_IOCTL, listener, notifRecv, uintptr(unsafe.Pointer(&call))); errno != 0 {
				continue // the one who called was interrupted
			}
			var answer [24]byte // struct seccomp_notif_resp: id, value, error, flags
			copy(answer[:8], call[:8])
			if eio := int32(unix.EIO); fails() {
				binary.NativeEndian.PutUint32(answer[16:], uint32(-eio))
			} else {
				binary.NativeEndian.PutUint32(answer[20:], unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE)
			}
			_, _, _ = unix.Syscall(unix.SYS_IOCTL, listener, notifSend, uintptr(unsafe.Pointer(&answer)))
		}
	}()
}
