package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/commons-cluster/commons/api/client"
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

// word returns one of the 400 words of the texts, at random.
func word(random *rand.Rand) string {
	pick := func(parts ...string) string { return parts[random.IntN(len(parts))] }
	return pick("ba", "ce", "di", "fo", "gu", "ha", "je", "ki", "lo", "mu") + pick("ran", "sel", "tin", "vor", "wun") +
		pick("da", "fe", "gi", "ho", "ku", "la", "me", "ni")
}

func words(random *rand.Rand, n int) []string {
	text := make([]string, n)
	for i := range text {
		text[i] = word(random)
	}
	return text
}

// tally counts answers by their result.
type tally struct {
	mu     sync.Mutex
	counts map[string]int
}

func (t *tally) add(result string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counts == nil {
		t.counts = map[string]int{}
	}
	t.counts[result]++
}

// taken is the result under which writes that were carried out are counted.
const taken = "taken"

// send publishes an entry from an address and returns the result: taken, or the limit or
// the code of the rejection.
func send(ctx context.Context, n *harness.Node, address string, entry client.NewEntry) (string, error) {
	_, err := clientFrom(address, "", n).Publish(ctx, entry)
	rejection, rejected := errors.AsType[*client.Error](err)
	switch {
	case err == nil:
		return taken, nil
	case !rejected:
		return "", err
	case rejection.Status == http.StatusTooManyRequests && rejection.RetryAfter == 0:
		return "", fmt.Errorf("a refusal does not say when to try again: %w", err)
	case rejection.Status == http.StatusTooManyRequests:
		limit, _, _ := strings.Cut(rejection.Header.Get("RateLimit"), ";")
		return "limit " + limit, nil
	}
	return fmt.Sprintf("%d %s", rejection.Status, rejection.Code), nil
}

// botnet replays the botnet beside the agents, prints what came through, and fails when an
// honest write was refused or too much of the botnet's was not.
func (b *bench) botnet() {
	code, _, stderr := b.Run.Command(nil, "settings", "set", fmt.Sprint("alike-hourly=", alikeHourly), "--cluster-addr", b.target.Private, "--secret-file", b.Secret)
	if code != 0 {
		harness.Failf("settings: exit code %d: %s", code, stderr)
	}
	var through, honest tally
	group, ctx := errgroup.WithContext(b.Run.Ctx)
	for i := range agents {
		group.Go(func() error { return b.agent(ctx, i, &honest) })
	}
	begun, sent := time.Now(), 0
	var took time.Duration
	group.Go(func() (err error) {
		sent, err = b.replay(ctx, &through)
		took = time.Since(begun)
		return err
	})
	harness.Must(group.Wait())
	fmt.Printf("   %d addresses sent %d variations of %d texts in %v: %v\n", bots, sent, botTexts, took.Round(time.Second/10), through.counts)
	fmt.Printf("   %d honest agents beside them: %v\n", agents, honest.counts)
	if n := honest.counts[taken]; n != agents*honestWrites {
		harness.Failf("of %d honest writes %d were taken", agents*honestWrites, n)
	}
	// A variation may share too little with the others of its text.
	if n, most := through.counts[taken], 2*botTexts*alikeHourly; n > most || n == 0 {
		harness.Failf("%d of the botnet's writes came through, 1 to %d were expected", n, most)
	}
	b.healthy()
}

// replay sends the writes of the botnet, and returns their number.
func (b *bench) replay(ctx context.Context, through *tally) (sent int, err error) {
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // no secret
	texts := make([][]string, botTexts)
	for i := range texts {
		texts[i] = words(random, botWords)
	}
	rounds := botRounds
	if b.Run.Long {
		rounds = botRoundLong
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(botWriters)
	for ; sent < rounds*bots && ctx.Err() == nil; sent++ {
		bot := sent % bots
		text := slices.Clone(texts[random.IntN(botTexts)])
		for range 3 { // varied
			text[random.IntN(len(text))] = word(random)
		}
		entry := client.NewEntry{Agent: fmt.Sprintf("bot-%d-%d", bot, sent/bots), Title: fmt.Sprint("News ", sent), Body: strings.Join(text, " ")}
		if bot%2 == 0 {
			entry.Channel = fmt.Sprintf("bots-%d", sent)
		}
		group.Go(func() error {
			address := fmt.Sprintf("127.%d.%d.%d", 100+bot/250, bot%250, 1+bot%7)
			result, err := send(ctx, b.Nodes[bot%len(b.Nodes)], address, entry)
			through.add(result)
			if err != nil {
				return fmt.Errorf("a bot: %w", err)
			}
			return nil
		})
	}
	return sent, group.Wait()
}

// agent writes what an honest agent does: long and short texts of its own.
func (b *bench) agent(ctx context.Context, i int, answers *tally) error {
	random := rand.New(rand.NewPCG(uint64(i), 3)) //nolint:gosec // no secret
	for n := range honestWrites {
		text := "Good morning. I agree."
		if n != 1 {
			text = strings.Join(words(random, 60+random.IntN(60)), " ")
		}
		entry := client.NewEntry{Agent: fmt.Sprint("agent-", i), Body: text, Channel: fmt.Sprint("work-", (i+n)%20)}
		what, err := send(ctx, b.Nodes[(i+n)%len(b.Nodes)], fmt.Sprintf("127.99.0.%d", 1+i), entry)
		if err != nil {
			return fmt.Errorf("an honest agent: %w", err)
		}
		answers.add(what)
		harness.Pause(ctx, honestPace)
	}
	return nil
}
