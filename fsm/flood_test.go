package fsm

import (
	"compress/gzip"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/text"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/longtest"
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
	similar := func(a, b string) bool { return text.Similar(text.Sketch([]string{a}), text.Sketch([]string{b})) }
	alike, unlike := 0, 0
	for i := range 100 {
		if similar(longText(i, 0), longText(i, 1)) {
			alike++
		}
		if similar(longText(i, 0), longText(i+1000, 0)) {
			unlike++
		}
	}
	if alike < 98 || unlike > 0 {
		t.Errorf("of 100 pairs each, %d near-duplicates are similar and %d others", alike, unlike)
	}
	if got := text.Sketch([]string{"Thank you, that helped me", "a lot"}); got != nil {
		t.Errorf("a text of seven words has a sketch of %d bytes", len(got))
	}
	check.Equal(t, len(text.Sketch([]string{longText(1, 1)})), command.MaxSketchParts*command.SketchPartBytes, "a sketch has bytes")
}

// refusals writes texts by a new sender each within an hour, and returns the refused ones.
func refusals(t *testing.T, most uint64, texts []string) (refused []string) {
	t.Helper()
	r := newRig(t)
	r.run(&command.SetSettings{AlikeHourly: &most})
	for i, body := range texts {
		p := post(fmt.Sprint("bot", i), func(p *command.Publish) {
			p.Body, p.Proof.Sender, p.Proof.Sketch = body, fmt.Sprint("s", i), text.Sketch([]string{body})
		})
		if r.run(p)[0].Outcome != command.OutcomeDone {
			refused = append(refused, body)
		}
	}
	return refused
}

// TestFloodsOfVariants floods with one text in variants, of which a part of the words differ.
func TestFloodsOfVariants(t *testing.T) {
	longtest.SkipRaced(t, longtest.OneGoroutine)
	for _, test := range []struct{ words, differ, least int }{
		{80, 4, 570},
		{80, 8, 500},
		{30, 3, 500},
		{12, 1, 500},
		{8, 0, 580},
	} {
		t.Run(fmt.Sprint(test.differ, " of ", test.words), func(t *testing.T) {
			vary := rand.New(rand.NewPCG(1, 2))
			texts := make([]string, 600)
			for i := range texts {
				words := strings.Fields(longText(1, 0))[:test.words]
				for _, at := range vary.Perm(test.words)[:test.differ] {
					words[at] = fmt.Sprint("other", vary.IntN(3000))
				}
				texts[i] = strings.Join(words, " ")
			}
			refused := len(refusals(t, 20, texts))
			t.Logf("%d of %d refused", refused, len(texts))
			if refused < test.least {
				t.Errorf("%d of %d refused, want %d", refused, len(texts), test.least)
			}
		})
	}
}

// passages is a directory of texts, to look for honest ones that are refused.
var passages = flag.String("passages", "..", "a directory of texts for TestHonestPassages")

// passageWords is how many words a passage has at least.
const passageWords = 50

// passagesOf returns the paragraphs of a directory's texts, each once.
func passagesOf(t *testing.T, dir string) (found []string) {
	t.Helper()
	seen := map[string]bool{}
	take := func(content []byte) {
		for paragraph := range strings.SplitSeq(string(content), "\n\n") {
			for part := range strings.SplitSeq(paragraph, "\n%\n") { // of a collection of fortunes
				body := strings.Join(strings.Fields(part), " ")
				if n := len(strings.Fields(body)); n > passageWords && len(body) < command.MaxBody && utf8.ValidString(body) && !seen[body] {
					seen[body] = true
					found = append(found, body)
				}
			}
		}
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		switch ext := filepath.Ext(path); {
		case d.Name() == "copyright":
		case ext == ".gz":
			if f, err := os.Open(path); err == nil {
				defer f.Close()
				if z, err := gzip.NewReader(f); err == nil {
					content, _ := io.ReadAll(z)
					take(content)
				}
			}
		case dir != ".." || ext == ".md":
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			take(content)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// runsOf returns the runs of two words of a text.
func runsOf(body string) map[string]bool {
	words, runs := text.Words(nil, body), map[string]bool{}
	for i := range len(words) - 1 {
		runs[words[i]+" "+words[i+1]] = true
	}
	return runs
}

// withoutCopies removes the texts that have a quarter of their runs in common with another one.
func withoutCopies(refused, texts []string) []string {
	using := map[string][]int{} // the texts that have a run
	sizes := make([]int, len(texts))
	for i, body := range texts {
		runs := runsOf(body)
		sizes[i] = len(runs)
		for run := range runs {
			using[run] = append(using[run], i)
		}
	}
	return slices.DeleteFunc(slices.Clone(refused), func(body string) bool {
		runs, common := runsOf(body), map[int]int{}
		for run := range runs {
			for _, i := range using[run] {
				common[i]++
			}
		}
		for i, n := range common {
			if texts[i] != body && 4*n >= len(runs)+sizes[i]-n {
				return true
			}
		}
		return false
	})
}

// TestHonestPassages takes every passage of documents that is not nearly a copy of another one,
// though they are all written within an hour.
func TestHonestPassages(t *testing.T) {
	texts := passagesOf(t, *passages)
	refused := refusals(t, 20, texts)
	honest := withoutCopies(refused, texts)
	t.Logf("%d passages, %d refused, of them %d that are no copies", len(texts), len(refused), len(honest))
	if len(texts) < 100 || len(honest) > 0 {
		t.Errorf("%d of %d passages are refused: %.20q", len(honest), len(texts), honest)
	}
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
	if rows := rowsIn(t, r.Machine, state.SpaceFlood); rows == 0 || rows > 1000*(1+command.MaxSketchParts) {
		t.Errorf("%d rows", rows)
	}
	r.log.stamp += command.HourMillis
	expect(t, write("bot", "s1", longText(1, 1)), command.OutcomeDone, "in the next hour")
	if rows := rowsIn(t, r.Machine, state.SpaceFlood); rows != 1+command.MaxSketchParts {
		t.Errorf("%d rows in the next hour", rows)
	}
}
