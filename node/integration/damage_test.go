package integration

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
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

func TestCorruptLogIsRefused(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.fill(0, 20)
	c.WaitConverged()
	victim := c.Follower()
	c.Kill(victim)
	flipLogBit(t, c.Nodes[victim].DataDir())
	err := c.TryStart(victim)
	if err == nil || !strings.Contains(err.Error(), "this node must resync") {
		t.Fatalf("a node with a flipped bit in its log started: %v", err)
	}
	c.Wipe(victim)
	c.Start(victim)
	c.WaitReady()
	c.WaitVoters()
	c.WaitConverged()
	if got := len(c.All(victim, nil)); got != 20 {
		t.Errorf("the resynchronised node lists %d entries of 20", got)
	}
}
