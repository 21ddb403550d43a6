package operate_test

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/node/cli"
	"github.com/commons-cluster/commons/node/config"
	"github.com/commons-cluster/commons/node/nodetest"
)

// TestWaveOfSpam runs the commands of the manual, in their order, against a wave from 200 addresses.
func TestWaveOfSpam(t *testing.T) {
	t.Parallel()
	const addresses, writers, mostCommands, honestText = 200, 8, 8, "Who else sees offers of cheap pills here?"
	const wave = 600
	c := nodetest.New(t, 1, func(cfg *config.Config) { cfg.TrustedProxies = []string{"127.0.0.0/8"} })
	address := func(i int) string { return fmt.Sprintf("203.0.%d.%d", i/100, i%100+1) }
	publish := func(from, body string) int {
		entry := map[string]string{"agent": "agent-of-" + from, "body": body}
		status, err := c.Nodes[0].PostJSON("/api/entries", entry, &struct{}{}, "X-Forwarded-For", from)
		check.Equal(t, err, nil, "error of a write from %s", from)
		return status
	}
	spam := func(i int) string { return fmt.Sprintf("Offer %d: CHEAP pills for everybody, number %d", i%7, i) }
	const honest = "198.51.100.9"
	check.Equal(t, publish(address(0), spam(0)), http.StatusCreated, "status of the first spam, e1")
	check.Equal(t, publish(honest, honestText), http.StatusCreated, "status of the question, e2")
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for i := 1 + w; i < wave; i += writers {
				check.Equal(t, publish(address(i%addresses), spam(i)), http.StatusCreated, "status of spam")
			}
		})
	}
	group.Wait()
	check.Equal(t, publish(honest, "Good morning, the bakery is open"), http.StatusCreated, "status of an honest entry")
	report := map[string]string{"entry_id": "e1", "reason": "spam", "text": "It sells pills"}
	status, err := c.Nodes[0].PostJSON("/api/reports", report, &struct{}{})
	check.Equal(t, status, http.StatusCreated, "status of the report: %v", err)

	manual := string(must.Get(os.ReadFile("../../../docs/operating/spam.md"))(t))
	outputs, commands := map[string]string{}, 0
	for line := range strings.Lines(manual) {
		args, isCommand := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "    commons ")
		if !isCommand {
			continue
		}
		commands++
		began := time.Now()
		code, out, stderr := execute(t, append(words(args), "--timeout", "1m", "--cluster-addr", c.Nodes[0].ClusterAddr())...)
		t.Logf("%s: %s", args, time.Since(began).Round(time.Millisecond))
		check.Equal(t, code, cli.ExitOK, "exit code of %s: %.500s%s", args, out, stderr)
		outputs[strings.Join(strings.Fields(args)[:2], " ")] += out
	}
	check.Equal(t, commands, mostCommands, "commands")
	for command, want := range map[string]string{
		"mod reports": "It sells pills",
		"mod list":    honestText,
		"mod undo":    fmt.Sprintf("order 2: %d of %d changed (undo)", wave+1, wave+1),
		"mod hide":    fmt.Sprintf("%d of %d changed (hide)\n%d senders blocked", wave, wave, addresses),
		"mod resolve": "1 of 1 reports are resolved",
	} {
		check.Equal(t, strings.Contains(outputs[command], want), true, "%s prints %q: %.700s", command, want, outputs[command])
	}
	check.Equal(t, len(c.All(0, client.EntryQuery{})), 2, "entries that are shown after the wave")
	check.Equal(t, publish(honest, "Thank you"), http.StatusCreated, "status of the honest writer after the wave")
	check.Equal(t, publish(address(7), "Good morning"), http.StatusForbidden, "status of a blocked address")
	check.Equal(t, publish("198.51.100.77", "Good morning"), http.StatusCreated, "status of a new address after the freeze")
}

// words splits a line into words as a shell does, with single and double quotation marks.
func words(line string) (list []string) {
	var quote rune
	word := ""
	for _, r := range line + " " {
		switch {
		case quote == 0 && (r == '\'' || r == '"'):
			quote = r
		case r == quote:
			quote = 0
		case r == ' ' && quote == 0:
			if word != "" {
				list, word = append(list, word), ""
			}
		default:
			word += string(r)
		}
	}
	return list
}
