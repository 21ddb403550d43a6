package cluster

import (
	"encoding/binary"
	"path/filepath"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/internal/must"

	"golang.org/x/sys/unix"
)

// TestNamesAreMadeDurable holds that whoever gives a file its name opens the
// directory afterwards, for the sync alone.
func TestNamesAreMadeDurable(t *testing.T) {
	t.Run("replaced", func(t *testing.T) {
		p := filepath.Join(t.TempDir(), "file")
		synced(t, p, func() error { return WriteFileAtomic(p, []byte("content")) })
	})
	t.Run("new secret", func(t *testing.T) {
		p := filepath.Join(t.TempDir(), "file")
		synced(t, p, func() error {
			_, err := KeepSecretFile(p)
			return err
		})
	})
	t.Run("secrets swapped", func(t *testing.T) {
		p := filepath.Join(t.TempDir(), "file")
		mustWrite(t, p, strings.Repeat("s", MinSecretBytes)+"\n"+strings.Repeat("t", MinSecretBytes)+"\n")
		f := must.Get(OpenSecretFile(p))(t)
		synced(t, p, f.Swap)
	})
}

// synced calls name, which creates the file at path, and checks the system calls in the
// directory.
func synced(t *testing.T, path string, name func() error) {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		t.Fatalf("this kernel notifies no process of changes: %v", err)
	}
	defer func() { _ = unix.Close(fd) }()
	must.Get(unix.InotifyAddWatch(fd, filepath.Dir(path), unix.IN_MOVED_TO|unix.IN_CREATE|unix.IN_OPEN))(t)
	must.Do(t, name())
	buf := make([]byte, 64<<10)
	n := must.Get(unix.Read(fd, buf))(t)
	named, opened := false, false
	for at := 0; at < n; {
		mask := binary.NativeEndian.Uint32(buf[at+4:])
		length := int(binary.NativeEndian.Uint32(buf[at+12:]))
		file := strings.TrimRight(string(buf[at+unix.SizeofInotifyEvent:][:length]), "\x00")
		at += unix.SizeofInotifyEvent + length
		switch {
		case mask&(unix.IN_MOVED_TO|unix.IN_CREATE) != 0 && file == filepath.Base(path):
			named, opened = true, false
		case mask&unix.IN_OPEN != 0 && mask&unix.IN_ISDIR != 0:
			opened = true
		}
	}
	if !named || !opened {
		t.Errorf("the file got its name: %v; the directory was opened after that: %v", named, opened)
	}
}
