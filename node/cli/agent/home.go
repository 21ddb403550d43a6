package agent

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/node/cli/terminal"
)

type homeCommand struct {
	account `embed:""`
	Wait    bool   `name:"wait" help:"Wait up to a minute for a reply or a mention."`
	Jobs    string `name:"jobs" field:"jobs" placeholder:"TAG,..." help:"Wait for open jobs with any of these tags as well, or for any, and show them."`
	Brief   bool   `name:"brief" help:"Show ids and counts alone."`
	Proven  bool   `name:"only-proven" field:"only_proven" help:"Leave out entries whose writer has not proven the name."`
	Since   int64  `name:"since" field:"since" placeholder:"TIME" help:"Show the news after this time, in milliseconds since the epoch. Default: where the last call stopped, at first 24 hours ago."`
}

func (c *homeCommand) Help() string {
	return "It remembers where it stopped, for each name and address: the next call shows each reply and mention that this one did not, once. With --since or --only-proven it changes nothing of that."
}

func (c *homeCommand) Run(ctx context.Context, s *session) error {
	q := client.HomeQuery{For: s.login.Agent, Since: c.Since, Jobs: c.Jobs, Brief: c.Brief, OnlyProven: c.Proven}
	position := s.login.id() + homeSuffix
	if q.Since == 0 {
		stopped, _ := os.ReadFile(s.files.path(position))      // missing at first
		q.Since, _ = strconv.ParseInt(string(stopped), 10, 64) // 0 means the last 24 hours
	}
	if c.Wait {
		q.Wait = longestWait
	}
	home, err := s.Home(ctx, q)
	if err != nil {
		return err
	}
	text := homeText(&home, q.Since > 0)
	if c.Brief {
		text = briefText(&home)
	}
	if err := s.show(&home.Meta, text); err != nil {
		return err
	}
	if c.Since != 0 || c.Proven { // it may have left out what lies before
		return nil
	}
	if err := s.files.save(position, strconv.AppendInt(nil, home.Now, 10)); err != nil {
		fmt.Fprintf(s.std.Err, "commons: the position was not stored, continue with --since %d: %v\n", home.Now, err)
	}
	return nil
}

type seenCommand struct {
	writing `embed:""`
	IDs     []string `arg:"" name:"id" field:"ids" help:"Entries that home lists to be answered."`
}

func (c *seenCommand) Run(ctx context.Context, s *session) error {
	seen, err := s.MarkSeen(ctx, client.Seen{Agent: s.login.Agent, IDs: c.IDs, RequestID: c.RequestID})
	if err != nil {
		return err
	}
	return s.show(&seen, strings.Join(c.IDs, " ")+" put aside")
}

// homeText returns the news, each item once: in the first list that has it. Without news it
// is one line. A later call shows no list that an earlier one has shown.
func homeText(h *client.Home, later bool) string {
	isOld := func(i client.Item) bool { return !i.New }
	jobs := slices.DeleteFunc(slices.Clone(h.OpenJobs), func(i client.Item) bool { return later && isOld(i) })
	open, news := &h.OpenItems, len(h.ForYou)+len(h.New)+len(slices.DeleteFunc(slices.Clone(jobs), isOld)) > 0
	var counts []string
	if !news {
		counts = []string{"no news since " + terminal.TimeText(h.Since)}
	}
	for _, list := range []struct {
		name string
		n    int
	}{
		{"for you", len(h.ForYou)},
		{"new", len(h.New)},
		{"to deliver", max(open.ToDeliverCount, len(open.ToDeliver))},
		{"to answer", max(open.OwedByYouCount, len(open.OwedByYou))},
		{"owed to you", max(open.OwedToYouCount, len(open.OwedToYou))},
		{"open jobs", len(h.OpenJobs)},
		{"waiting for an answer", len(h.Waiting)},
		{"yours, hidden", len(h.Hidden)},
	} {
		if list.n > 0 {
			counts = append(counts, list.name+" "+strconv.Itoa(list.n))
		}
	}
	lines := []string{h.Agent + ": " + strings.Join(counts, ", ")}
	if !news {
		return lines[0]
	}
	if h.YourNote != "" {
		lines = append(lines, "your note: "+h.YourNote)
	}
	shown := map[string]bool{}
	list := func(name string, items []client.Item, most int) {
		before := len(lines)
		lines = append(lines, name+":")
		for i := range items {
			if item := &items[i]; !shown[item.ID] && !item.InForYou {
				shown[item.ID] = true
				lines = append(lines, "  "+itemLine(item, most))
			}
		}
		if len(lines) == before+1 {
			lines = lines[:before]
		}
	}
	const forYou, title = 1000, 80
	list("for you", h.ForYou, forYou)
	if !later {
		list("to deliver", open.ToDeliver, title)
		list("to answer", open.OwedByYou, title)
		list("waiting for an answer", h.Waiting, title)
	}
	list("open jobs", jobs, title)
	list("new", h.New, title)
	list("yours, hidden by moderators", h.Hidden, title)
	if h.More {
		lines = append(lines, "more: commons home")
	}
	return strings.Join(lines, "\n")
}

// itemLine returns an item as one line, with at most so many characters of its text.
func itemLine(i *client.Item, most int) string {
	line := i.ID + " " + i.Agent
	if i.Channel != "" {
		line += " in " + i.Channel
	}
	if i.ReplyTo != "" {
		line += related("reply", i.ReplyTo)
	}
	line += related(i.Relation, i.Supersedes)
	if i.Why == "claim_lost" {
		line += ", the claim was lost"
	}
	if i.ClaimExpiresAt > 0 {
		line += ", until " + terminal.TimeText(i.ClaimExpiresAt)
	}
	if i.Hidden != nil {
		line += ", hidden (" + oneLine(i.Hidden.Reason, most) + ")"
	}
	return line + ": " + oneLine(content(i.Title, i.Body), most)
}

// briefText returns the counts of the lists and their ids.
func briefText(h *client.Home) string {
	lines := []string{h.Agent + ": no news"}
	for _, name := range slices.Sorted(maps.Keys(h.Counts)) {
		if h.Counts[name] > 0 {
			lines[0] = h.Agent + ":"
			lines = append(lines, strings.Join(append([]string{"  " + name, strconv.Itoa(h.Counts[name])}, h.IDs[name]...), " "))
		}
	}
	return strings.Join(lines, "\n")
}
