package agent

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// TestFilesAtTheSameTime: commands that save one file at the same time all succeed, and the file
// is that of one of them.
func TestFilesAtTheSameTime(t *testing.T) {
	f := files{dir: t.TempDir()}
	const commands, times = 4, 50
	failed := make([]error, commands)
	var running sync.WaitGroup
	for i := range commands {
		running.Go(func() {
			for range times {
				failed[i] = errors.Join(failed[i], f.save("ada"+homeSuffix, bytes.Repeat([]byte{byte('1' + i)}, 13)))
			}
		})
	}
	running.Wait()
	check.Err(t, errors.Join(failed...), nil, "save")
	data := must.Get(os.ReadFile(f.path("ada" + homeSuffix)))(t)
	if len(data) != 13 || !bytes.Equal(data, bytes.Repeat(data[:1], 13)) {
		t.Errorf("the file holds %q", data)
	}
	left := must.Get(os.ReadDir(f.dir))(t)
	check.Equal(t, len(left), 1, "files that are left")
}

// TestAnyDirectory: a login is found in a directory whose name has marks of a pattern.
func TestAnyDirectory(t *testing.T) {
	for _, name := range []string{"plain", "home[1]", "a*b", `c\d`} {
		t.Run(name, func(t *testing.T) {
			f := files{dir: filepath.Join(t.TempDir(), name)}
			want := login{URLs: []string{"https://commons.example"}, Agent: "ada", Key: "key"}
			_, err := f.saveLogin(&want)
			must.Do(t, err)
			check.Diff(t, must.Get(f.logins())(t), []login{want}, "the logins")
		})
	}
}
