package main

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/scripts/chaos/check"
	"github.com/commons-cluster/commons/scripts/chaos/record"
	"github.com/commons-cluster/commons/scripts/harness"
)

// spamScenario is the scenario of a wave of spam that a moderator ends by spamPage while the recorded
// clients write. A part of the wave is anonymous, and a part is under the names of these clients.
const (
	spamScenario = "spam"
	spamPage     = "spam.md"
	waveEntries  = 10_000
	waveSenders  = 200 // half of them have an IPv4 address, the others each a /64 of IPv6
	waveWriters  = 16
	mostCommands = 8
	cleanWithin  = 10 * time.Minute
	honestFrom   = "192.0.2.9"
	honestText   = "Who else sees offers of cheap pills here?"
	waveText     = "CHEAP pills for everybody"
)

// waveSender returns an address of a sender of the wave.
func waveSender(sender, host int) string {
	if sender%2 == 0 {
		return fmt.Sprintf("198.51.100.%d", sender/2+1)
	}
	return fmt.Sprintf("2001:db8:0:%x::%x", sender, host+1)
}

// spam publishes an entry of the wave.
func (b *testbed) spam(ctx context.Context, n int) *record.Call {
	agents := []string{"", fmt.Sprintf("recorder-%d-%d", n%8, n%3), fmt.Sprintf("seller-%d", n%50)}
	text := fmt.Sprintf("Offer %d: %s, number %d", n%7, waveText, n)
	return b.caller.Subject(ctx, b.nodes[n%len(b.nodes)], agents[n%len(agents)], text, waveSender(n%waveSenders, n))
}

// endWave lets a wave come, and runs the commands of spamPage from the first report on. One of them
// hides an honest entry, and another takes that back.
func (b *testbed) endWave([]*harness.Node) {
	ctx := b.run.Ctx
	first, honest := b.spam(ctx, 0), b.caller.Subject(ctx, b.nodes[0], "", honestText, honestFrom)
	var group sync.WaitGroup
	for w := range waveWriters {
		group.Go(func() {
			for n := 1 + w; n < waveEntries && ctx.Err() == nil; n += waveWriters {
				b.spam(ctx, n)
			}
		})
	}
	group.Wait()
	harness.Must(ctx.Err())
	report := map[string]string{"entry_id": first.ID, "reason": "spam", "text": "It sells pills."}
	harness.Must(b.nodes[0].Do(http.MethodPost, "/api/reports", report, nil))

	began := time.Now()
	commands := b.moderate(first.ID)
	if took := time.Since(began); commands > mostCommands || took > cleanWithin {
		harness.Failf("the wave is over after %d commands and %v; at most %d and %v are allowed", commands, took, mostCommands, cleanWithin)
	}
	for _, n := range b.nodes {
		shown := 0
		for _, e := range harness.Got(n.List(0, client.EntryQuery{})) {
			if strings.Contains(e.Body, waveText) {
				harness.Failf("%s shows %s of the wave: %s", n.Name, e.ID, e.Body)
			}
			if e.ID == honest.ID {
				shown++
			}
		}
		if shown != 1 {
			harness.Failf("%s shows the honest entry %d times", n.Name, shown)
		}
	}
	for sender := range 2 {
		if c := b.caller.Subject(ctx, b.nodes[0], "", "Good morning", waveSender(sender, waveEntries)); c.Code != "blocked" {
			harness.Failf("a sender of the wave writes again: %+v", c)
		}
	}
	if c := b.caller.Subject(ctx, b.nodes[0], "", "Thank you", honestFrom); c.Outcome != record.Done {
		harness.Failf("an honest writer is rejected: %+v", c)
	}
}

// undoCommand takes an order back. The number of an order is in the output of its command, which
// printedNumber matches.
const undoCommand = "commons mod undo "

var printedNumber = regexp.MustCompile(`\b(?:rule|commons mod undo) (\d+)`)

// moderate runs the commands of spamPage, with the id of the entry that was reported, and the numbers
// of orders here in place of those on the page. It returns how many there are.
func (b *testbed) moderate(reported string) (commands int) {
	var numbers []string
	for line := range strings.Lines(commandsUnder(spamPage, "# A wave of spam")[0]) {
		commands++
		line = strings.TrimSpace(line)
		line = strings.ReplaceAll(line, " e1 ", " "+reported+" ")
		if order, is := strings.CutPrefix(line, undoCommand); is {
			line = undoCommand + numbers[harness.Got(strconv.Atoi(order))-1]
		}
		began := time.Now()
		out, err := b.shell("export COMMONS_CLUSTER_ADDR=" + b.voters[0].Private + " COMMONS_SECRET_FILE=" + b.cluster.Secret + "\nbin/" + line)
		if err != nil {
			harness.Failf("%s: %w\n%s", line, err, out)
		}
		fmt.Printf("            %s: %v\n", line, time.Since(began).Round(time.Millisecond))
		if found := printedNumber.FindStringSubmatch(out); found != nil {
			numbers = append(numbers, found[1])
		}
	}
	return commands
}

// spared checks that nobody else is kept from writing by what ends a wave, but for writes without
// a proven name while these are frozen.
func (r *report) spared() check.Verdict {
	v := check.Verdict{Name: "a wave's end spares all others"}
	for i := range r.calls {
		c := &r.calls[i]
		if r.name != spamScenario || c.Kind != record.Publish {
			continue
		}
		v.Looked++
		if c.Outcome == record.Rejected && c.Code != "writes_frozen" {
			v.Add(fmt.Sprintf("%s: %s", c.Client, c.Code), *c)
		}
	}
	return v
}
