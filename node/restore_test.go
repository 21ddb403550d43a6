package node

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/cluster"
)

func TestDataKeyIsSealedAnew(t *testing.T) {
	dir := t.TempDir()
	files := map[string]*cluster.Secrets{}
	for _, name := range []string{"source", "target"} {
		path := filepath.Join(dir, name)
		if _, err := cluster.KeepSecretFile(path); err != nil {
			t.Fatal(err)
		}
		secrets, err := cluster.LoadSecrets(path)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = secrets
	}
	key := bytes.Repeat([]byte{7}, dataKeyBytes)
	sealed, err := files["source"].Seal(key, dataKeyContext)
	if err != nil {
		t.Fatal(err)
	}
	target := Offline{SecretFile: filepath.Join(dir, "target")}
	if _, err := target.reseal(sealed, ""); err == nil || !strings.Contains(err.Error(), files["source"].KeyIDs()[0]) {
		t.Errorf("a key was opened without its secret: %v", err)
	}
	anew, err := target.reseal(sealed, filepath.Join(dir, "source"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := files["target"].Open(anew, dataKeyContext); err != nil || !bytes.Equal(got, key) {
		t.Errorf("the key is %x, %v", got, err)
	}
	if _, err := target.reseal(append(bytes.Clone(sealed[:len(sealed)-1]), sealed[len(sealed)-1]^1), filepath.Join(dir, "source")); err == nil {
		t.Error("a damaged key was opened")
	}
}
