package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/commons-cluster/commons/scripts/harness"
)

// The botnet: many addresses write variations of few texts, each under a name of its own
// and now and then to a new channel, and few honest agents write beside it.
const (
	bots         = 1000
	botTexts     = 40
	botWords     = 70
	botRounds    = 2  // writes of each bot
	botRoundLong = 20 // the same with -long
	botWriters   = 64 // that send for the bots at once
	agents       = 50
	honestWrites = 3 // of each agent
	// alikeHourly is the operator's setting against the botnet.
	alikeHourly = 20
	// honestPace is the time between two writes of an agent, below the limit of writes.
	honestPace = 2100 * time.Millisecond
)

// vocabulary is the words of the texts.
var vocabulary = func() (words []string) {
	for _, begin := range []string{"ba", "ce", "di", "fo", "gu", "ha", "je", "ki", "lo", "mu"} {
		for _, middle := range []string{"ran", "sel", "tin", "vor", "wun"} {
			for _, end := range []string{"da", "fe", "gi", "ho", "ku", "la", "me", "ni"} {
				words = append(words, begin+middle+end)
			}
		}
	}
	return words
}()

// words returns some of them, at random.
func words(random *rand.Rand, n int) []string {
	text := make([]string, n)
	for i := range text {
		text[i] = vocabulary[random.IntN(len(vocabulary))]
	}
	return text
}

// tally counts answers by what they say.
type tally struct {
	mu     sync.Mutex
	counts map[string]int
}

func (t *tally) add(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counts == nil {
		t.counts = map[string]int{}
	}
	t.counts[what]++
}

func (t *tally) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	parts := make([]string, 0, len(t.counts))
	for _, what := range slices.Sorted(maps.Keys(t.counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", what, t.counts[what]))
	}
	return strings.Join(parts, ", ")
}

// taken is the result under which writes that were carried out are counted.
const taken = "taken"

// send publishes an entry from an address and returns the result: taken, or the limit or
// the code of the rejection.
func send(ctx context.Context, n *harness.Node, address string, entry map[string]any) (string, error) {
	client := from(address)
	defer client.CloseIdleConnections()
	payload, err := json.Marshal(entry)
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, n.URL+"/api/entries", strings.NewReader(string(payload)))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	var answer struct{ Code, Error string }
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		return "", err
	}
	switch {
	case res.StatusCode == http.StatusCreated:
		return taken, nil
	case res.StatusCode == http.StatusTooManyRequests && res.Header.Get("Retry-After") == "":
		return "", errors.New("a refusal does not say when to try again: " + answer.Error)
	case res.StatusCode == http.StatusTooManyRequests:
		limit, _, _ := strings.Cut(res.Header.Get("RateLimit"), ";")
		return "limit " + limit, nil
	}
	return fmt.Sprintf("%d %s", res.StatusCode, answer.Code), nil
}

// botnet replays the botnet beside the agents, prints what came through, and fails when an
// honest write was refused or too much of the botnet's was not.
func (b *bench) botnet() error {
	code, _, stderr := b.Run.Command(nil, "settings", "set", fmt.Sprint("alike-hourly=", alikeHourly), "--cluster-addr", b.target.Private, "--secret-file", b.Secret)
	if code != 0 {
		return fmt.Errorf("settings: exit code %d: %s", code, stderr)
	}
	var through, honest tally
	ctx, cancel := context.WithCancelCause(b.Run.Ctx)
	defer cancel(nil)
	var group sync.WaitGroup
	for i := range agents {
		group.Go(func() {
			if err := b.agent(ctx, i, &honest); err != nil {
				cancel(fmt.Errorf("an honest agent: %w", err))
			}
		})
	}
	begun := time.Now()
	sent := b.replay(ctx, cancel, &through)
	took := time.Since(begun)
	group.Wait()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	fmt.Printf("   %d addresses sent %d variations of %d texts in %v: %s\n", bots, sent, botTexts, took.Round(time.Second/10), &through)
	fmt.Printf("   %d honest agents beside them: %s\n", agents, &honest)
	if n := honest.counts[taken]; n != agents*honestWrites {
		return fmt.Errorf("of %d honest writes %d were taken", agents*honestWrites, n)
	}
	// A variation may share too little with the others of its text.
	if n, most := through.counts[taken], 2*botTexts*alikeHourly; n > most || n == 0 {
		return fmt.Errorf("%d of the botnet's writes came through, 1 to %d were expected", n, most)
	}
	_, err := b.healthy()
	return err
}

// replay sends what the botnet sends, and returns how much that was.
func (b *bench) replay(ctx context.Context, failed context.CancelCauseFunc, through *tally) (sent int) {
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // no secret
	texts := make([][]string, botTexts)
	for i := range texts {
		texts[i] = words(random, botWords)
	}
	rounds := botRounds
	if b.long {
		rounds = botRoundLong
	}
	type shot struct {
		bot   int
		entry map[string]any
	}
	shots := make(chan shot)
	var group sync.WaitGroup
	for range botWriters {
		group.Go(func() {
			for s := range shots {
				address := fmt.Sprintf("127.%d.%d.%d", 100+s.bot/250, s.bot%250, 1+s.bot%7)
				what, err := send(ctx, b.Nodes[s.bot%len(b.Nodes)], address, s.entry)
				if err != nil && ctx.Err() == nil {
					failed(fmt.Errorf("a bot: %w", err))
				}
				through.add(what)
			}
		})
	}
	for ; sent < rounds*bots && ctx.Err() == nil; sent++ {
		bot := sent % bots
		text := slices.Clone(texts[random.IntN(botTexts)])
		for range 3 { // varied
			text[random.IntN(len(text))] = vocabulary[random.IntN(len(vocabulary))]
		}
		entry := map[string]any{"agent": fmt.Sprintf("bot-%d-%d", bot, sent/bots), "title": fmt.Sprint("News ", sent), "body": strings.Join(text, " ")}
		if bot%2 == 0 {
			entry["channel"] = fmt.Sprintf("bots-%d", sent)
		}
		select {
		case shots <- shot{bot, entry}:
		case <-ctx.Done():
		}
	}
	close(shots)
	group.Wait()
	return sent
}

// agent writes what an honest agent does: long and short texts of its own.
func (b *bench) agent(ctx context.Context, i int, answers *tally) error {
	random := rand.New(rand.NewPCG(uint64(i), 3)) //nolint:gosec // no secret
	for n := range honestWrites {
		text := "Good morning. I agree."
		if n != 1 {
			text = strings.Join(words(random, 60+random.IntN(60)), " ")
		}
		entry := map[string]any{"agent": fmt.Sprint("agent-", i), "body": text, "channel": fmt.Sprint("work-", (i+n)%20)}
		what, err := send(ctx, b.Nodes[(i+n)%len(b.Nodes)], fmt.Sprintf("127.99.0.%d", 1+i), entry)
		if err != nil {
			return err
		}
		answers.add(what)
		select {
		case <-time.After(honestPace):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
