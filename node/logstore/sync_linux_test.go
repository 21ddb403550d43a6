package logstore

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"unsafe"

	"github.com/hashicorp/raft"
	"golang.org/x/sys/unix"
)

// unsyncedEnv names the log of a process whose kernel syncs no file.
const unsyncedEnv = "LOGSTORE_UNSYNCED"

// TestNothingIsStoredUnsynced holds that an entry, and a vote, counts as stored
// only when the kernel has said that it is on disk. It runs a process of its own in
// which every sync of a file fails.
func TestNothingIsStoredUnsynced(t *testing.T) {
	if path := os.Getenv(unsyncedEnv); path != "" {
		storeUnsynced(t, path)
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), unsyncedEnv+"="+filepath.Join(t.TempDir(), "raft.db"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}

func storeUnsynced(t *testing.T, path string) {
	t.Helper()
	s, err := Open(Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	store := func(index uint64) error {
		return s.StoreLogs([]*raft.Log{{Index: index, Term: 1, Type: raft.LogCommand, Data: []byte("entry")}})
	}
	if err := errors.Join(store(1), s.SetUint64([]byte("vote"), 1)); err != nil {
		t.Fatal(err)
	}
	if err := failSyncs(); err != nil {
		t.Skipf("this kernel lets no process filter its calls: %v", err)
	}
	if err := store(2); !errors.Is(err, syscall.EIO) {
		t.Errorf("stored an entry without a sync: %v", err)
	}
	if err := s.SetUint64([]byte("vote"), 2); !errors.Is(err, syscall.EIO) {
		t.Errorf("stored a vote without a sync: %v", err)
	}
}

// failSyncs makes every fsync and fdatasync of this process fail with EIO.
func failSyncs() error {
	const fails = unix.SECCOMP_RET_ERRNO | uint32(unix.EIO)
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}, // the number of the call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 1, K: unix.SYS_FSYNC},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: unix.SYS_FDATASYNC},
		{Code: unix.BPF_RET | unix.BPF_K, K: fails},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&filter)))
	if errno != 0 {
		return errno
	}
	return nil
}
