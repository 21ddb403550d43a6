package cli

import (
	"bytes"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/commons-cluster/commons/node/nodetest"
)

// logBuffer is a log that can be read while it is written to.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// TestNodeThatLeftIsNotStartedAgain: the exit code tells a service manager to leave
// the node alone, when it leaves and whenever it is started afterwards.
func TestNodeThatLeftIsNotStartedAgain(t *testing.T) {
	t.Parallel()
	c := nodetest.New(t, 3)
	c.WaitVoters()
	_, members, _ := execute(t, "members", "--cluster-addr", c.Nodes[0].ClusterAddr())
	columns := strings.Fields(members)
	args := []string{
		"serve", "--node-id", "fourth", "--data-dir", t.TempDir(), "--http-addr", "127.0.0.1:0", "--cluster-addr", "127.0.0.1:0",
		"--gossip-addr", "127.0.0.1:0", "--join", columns[len(columns)-1], "--log-format", "text",
	}
	var log logBuffer
	ended := make(chan int, 1)
	go func() { ended <- run(t.Context(), args, streams{&log, &log}) }()
	private := ""
	c.Eventually("a vote for the fourth node", func() string {
		if found := regexp.MustCompile(`msg=listening .*cluster=(\S+)`).FindStringSubmatch(log.String()); found != nil {
			private = found[1]
		}
		_, out, _ := execute(t, "members", "--cluster-addr", c.Nodes[0].ClusterAddr())
		if private == "" || !regexp.MustCompile(`(?m)^fourth-\S+ +voter`).MatchString(out) {
			return out
		}
		return ""
	})
	if code, _, stderr := execute(t, "leave", "--cluster-addr", private); code != exitOK {
		t.Fatalf("leave: exit code %d: %s", code, stderr)
	}
	select {
	case code := <-ended:
		said := log.String()
		if code != exitLeft || !strings.Contains(said, "msg=ended") || strings.Contains(said, "level=ERROR") {
			t.Errorf("exit code %d\n%s", code, said)
		}
	case <-time.After(time.Minute):
		t.Fatal("the node did not end")
	}
	if code, _, stderr := execute(t, args...); code != exitLeft || !strings.Contains(stderr, "has left its cluster; empty its data directory") {
		t.Errorf("started again: exit code %d: %s", code, stderr)
	}
}
