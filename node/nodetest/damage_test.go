package nodetest

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// flipLogBit flips one bit in the text of every log entry that fill has written,
// so that it does not matter which of them Raft reads.
func flipLogBit(t *testing.T, dataDir string) {
	t.Helper()
	path := filepath.Join(dataDir, "raft.db")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := []byte("lorem ipsum lorem")
	flipped := 0
	for at := 0; ; flipped++ {
		next := bytes.Index(data[at:], text)
		if next < 0 {
			break
		}
		data[at+next] ^= 1
		at += next + len(text)
	}
	if flipped == 0 {
		t.Fatal("the log holds none of the texts")
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
