package cli

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/commons-cluster/commons/internal/await"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/node/cli/terminal"
	"github.com/commons-cluster/commons/node/nodetest"
)

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
	var log await.Buffer
	ended := make(chan int, 1)
	go func() { ended <- Run(t.Context(), args, terminal.Streams{Out: &log, Err: &log}, "") }()
	private := ""
	c.Eventually("a vote for the fourth node", func() error {
		if found := regexp.MustCompile(`msg=listening .*cluster=(\S+)`).FindStringSubmatch(log.String()); found != nil {
			private = found[1]
		}
		_, out, _ := execute(t, "members", "--cluster-addr", c.Nodes[0].ClusterAddr())
		return nodetest.ErrorIf(private == "" || !regexp.MustCompile(`(?m)^fourth-\S+ +voter`).MatchString(out), "%s", out)
	})
	code, _, stderr := execute(t, "leave", "--cluster-addr", private)
	must.Equal(t, code, ExitOK, "exit code of leave, with %s", stderr)
	select {
	case code := <-ended:
		said := log.String()
		// Raft's requests may fail meanwhile.
		wrong := func(line string) bool {
			return strings.Contains(line, "level=ERROR") && !strings.Contains(line, "part=raft")
		}
		if code != exitLeft || !strings.Contains(said, "msg=ended") || slices.ContainsFunc(strings.Split(said, "\n"), wrong) {
			t.Errorf("exit code %d\n%s", code, said)
		}
	case <-time.After(time.Minute):
		t.Fatal("the node did not end")
	}
	if code, _, stderr := execute(t, args...); code != exitLeft || !strings.Contains(stderr, "has left its cluster; empty its data directory") {
		t.Errorf("started again: exit code %d: %s", code, stderr)
	}
}
