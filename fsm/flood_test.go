package fsm

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/text"
	"github.com/commons-cluster/commons/internal/check"
)

// longText is one of many texts of 120 words, in a variant: a tenth of its words differ.
func longText(number, variant int) string {
	base, vary := rand.New(rand.NewPCG(uint64(number), 0)), rand.New(rand.NewPCG(uint64(number), uint64(variant)+1)) //nolint:gosec // small
	words := make([]string, 120)
	for i := range words {
		words[i] = fmt.Sprint("word", base.IntN(3000))
	}
	for range 4 {
		words[vary.IntN(len(words))] = fmt.Sprint("other", vary.IntN(3000))
	}
	return strings.Join(words, " ")
}

func TestSketches(t *testing.T) {
	shared := func(a, b string) (n int) {
		one, two := text.Sketch([]string{a}), text.Sketch([]string{b})
		for part := range slices.Chunk(one, command.SketchPartBytes) {
			for other := range slices.Chunk(two, command.SketchPartBytes) {
				if slices.Equal(part, other) {
					n++
				}
			}
		}
		return n
	}
	alike, unlike := 0, 0
	for i := range 100 {
		if shared(longText(i, 0), longText(i, 1)) > 0 {
			alike++
		}
		if shared(longText(i, 0), longText(i+1000, 0)) > 0 {
			unlike++
		}
	}
	if alike < 90 || unlike > 0 {
		t.Errorf("of 100 pairs each, %d near-duplicates are alike and %d others", alike, unlike)
	}
	if got := text.Sketch([]string{strings.Repeat("word ", 50)}); got != nil {
		t.Errorf("a short text has a sketch of %d bytes", len(got))
	}
	check.Equal(t, len(text.Sketch([]string{longText(1, 1)})), command.MaxSketchParts*command.SketchPartBytes, "a sketch has bytes")
}

// TestFloods replays a botnet of 1,000 senders with a name each and 40 texts with
// variations among 50 honest agents: few of the texts come through, and all that is honest.
func TestFloods(t *testing.T) {
	r := newRig(t)
	const most = 10
	alike := uint64(most)
	r.run(&command.SetSettings{AlikeHourly: &alike})
	write := func(agent, sender, body string) command.Result {
		t.Helper()
		p := post(agent, func(p *command.Publish) {
			p.Body, p.Proof.Sender = body, sender
			p.Proof.Sketch = text.Sketch([]string{body})
		})
		got := r.run(p)[0]
		if got.Outcome != command.OutcomeDone && !slices.Equal(got.Problems, []command.Problem{command.ProblemFlood}) {
			t.Fatalf("%+v", got)
		}
		return got
	}
	through := 0
	for i := range 1000 {
		if write(fmt.Sprint("bot", i), fmt.Sprint("s", i), longText(i%40, i)).Outcome == command.OutcomeDone {
			through++
		}
		if i%20 != 0 {
			continue
		}
		agent := fmt.Sprint("agent", i)
		for _, body := range []string{longText(10_000+i, 0), "Thank you, that helped me a lot."} {
			expect(t, write(agent, "h"+agent, body), command.OutcomeDone, "an honest write")
		}
	}
	t.Logf("%d of 1000 writes of the botnet came through", through)
	if through < 40*most/2 || through > 40*most*3/2 {
		t.Errorf("%d of 1000 writes of the botnet came through, of 40 texts %d times each", through, most)
	}
	if rows := rowsIn(t, r.Machine, state.SpaceFlood); rows == 0 || rows > state.FloodSlots {
		t.Errorf("%d rows", rows)
	}
	r.log.stamp += command.HourMillis
	expect(t, write("bot", "s1", longText(1, 1)), command.OutcomeDone, "in the next hour")
	if rows := rowsIn(t, r.Machine, state.SpaceFlood); rows > command.MaxSketchParts {
		t.Errorf("%d rows in the next hour", rows)
	}
}
