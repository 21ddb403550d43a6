package offline

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/cluster"
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
	sealed := must.Get(files["source"].SealDataKey(key))(t)
	target := Offline{SecretFile: filepath.Join(dir, "target")}
	for _, want := range []string{files["source"].KeyIDs()[0], files["target"].KeyIDs()[0], "--source-secret-file", "--new-data-key"} {
		if _, err := target.reseal(sealed); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a key was opened without its secret: %v, want %q", err, want)
		}
	}
	target.SourceSecret = filepath.Join(dir, "source")
	anew, err := target.reseal(sealed)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := files["target"].OpenDataKey(anew); err != nil || !bytes.Equal(got, key) {
		t.Errorf("the key is %x, %v", got, err)
	}
	if _, err := target.openDataKey(anew); err != nil {
		t.Errorf("what is sealed under the secret in use is opened where another is named, too: %v", err)
	}
	damaged := append(bytes.Clone(sealed[:len(sealed)-1]), sealed[len(sealed)-1]^1)
	if _, err := target.reseal(damaged); err == nil {
		t.Error("a damaged key was opened")
	}
	target.SourceSecret, target.NewDataKey = "", true
	if anew, err = target.reseal(damaged); err != nil {
		t.Fatal(err)
	}
	if got, err := files["target"].OpenDataKey(anew); err != nil || len(got) != len(key) || bytes.Equal(got, key) {
		t.Errorf("the new key is %x, %v", got, err)
	}
}
