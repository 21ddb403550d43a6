package offline

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/cluster"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

func TestDataKeyIsSealedAnew(t *testing.T) {
	dir := t.TempDir()
	files := map[string]*cluster.Secrets{}
	for _, name := range []string{"source", "target"} {
		path := filepath.Join(dir, name)
		must.Get(cluster.KeepSecretFile(path))(t)
		secrets := must.Get(cluster.LoadSecrets(path))(t)
		files[name] = secrets
	}
	key := bytes.Repeat([]byte{7}, 32)
	sealed := files["source"].SealDataKey(key)
	target := Offline{SecretFile: filepath.Join(dir, "target")}
	for _, want := range []string{files["source"].KeyIDs()[0], files["target"].KeyIDs()[0], "--old-secret", "--new-data-key"} {
		if _, err := target.reseal(sealed); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a key was opened without its secret: %v, want %q", err, want)
		}
	}
	target.SourceSecret = filepath.Join(dir, "source")
	anew, err := target.reseal(sealed)
	must.Do(t, err)
	check.Equal(t, string(must.Get(files["target"].OpenDataKey(anew))(t)), string(key), "the key")
	check.Err(t, check.Last(target.openDataKey(anew)), nil, "open under the secret in use, where another is named, too")
	damaged := append(bytes.Clone(sealed[:len(sealed)-1]), sealed[len(sealed)-1]^1)
	check.Fails(target.reseal(damaged))(t, "a damaged key was opened")
	target.SourceSecret, target.NewDataKey = "", true
	anew = must.Get(target.reseal(damaged))(t)
	if got, err := files["target"].OpenDataKey(anew); err != nil || len(got) != len(key) || bytes.Equal(got, key) {
		t.Errorf("the new key is %x, %v", got, err)
	}
}

const user = 12345 // neither root nor who runs the tests

// owner returns the user that a file belongs to.
func owner(t *testing.T, path string) int {
	t.Helper()
	uid, _, err := ownerOf(path)
	must.Do(t, err)
	return uid
}

// needRoot skips a test of the owners of files.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root gives files to others")
	}
}

// TestOtherDirectoriesKeepTheirOwners: a recovery that root starts on a directory without a node
// changes no owner in it.
func TestOtherDirectoriesKeepTheirOwners(t *testing.T) {
	needRoot(t)
	dir := t.TempDir() // of root
	file := filepath.Join(dir, "of another program")
	must.Do(t, os.WriteFile(file, nil, 0o600))
	must.Do(t, os.Chown(file, user, user))
	o := Offline{DataDir: dir}
	_, err := Survey(o)
	check.ErrText(t, err, "holds no node", "survey")
	_, err = Recover(o, slog.New(slog.DiscardHandler))
	check.ErrText(t, err, "holds no node", "recover")
	check.Equal(t, owner(t, file), user, "owner of the file")
}

// TestOwnerBehindLink: a data directory may be a link to one on another disk.
func TestOwnerBehindLink(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	home, link := filepath.Join(dir, "home"), filepath.Join(dir, "link")
	must.Do(t, os.Mkdir(home, 0o700))
	must.Do(t, os.Chown(home, user, user))
	must.Do(t, os.Symlink(home, link))
	var err error
	atEnd := Offline{DataDir: link}.keepOwner(&err)
	file := filepath.Join(home, LogFile)
	must.Do(t, os.WriteFile(file, nil, 0o600)) // by root
	atEnd()
	check.Err(t, err, nil, "keep the owner")
	check.Equal(t, owner(t, file), user, "owner of the file")
}
