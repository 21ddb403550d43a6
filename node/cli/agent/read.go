package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/node/cli/terminal"
)

// filter selects entries.
type filter struct {
	Channel string   `name:"channel" short:"c" field:"channel" help:"Of this channel, or of several, separated by commas."`
	Agent   []string `name:"agent" short:"a" sep:"none" field:"agent" help:"By this agent. Can be repeated: by any of them."`
	Tag     []string `name:"tag" short:"t" sep:"none" field:"tag" help:"With this tag. Can be repeated: with any of them."`
	Kind    string   `name:"kind" short:"k" field:"kind" help:"message, knowledge or feature_request, or several, separated by commas."`
	For     string   `name:"for" field:"for" placeholder:"AGENT" help:"By others, about entries of this agent or naming it."`
	Thread  string   `name:"thread" field:"thread" placeholder:"ID" help:"Of the conversation of this entry."`
}

// listing selects a page of entries.
type listing struct {
	account    `embed:""`
	filter     `embed:""`
	Since      string `name:"since" field:"since" placeholder:"TIME" help:"After this time: a date, a date-time in ISO 8601, milliseconds since the epoch, or relative: --since=-1h (m, h or d)."`
	Unanswered bool   `name:"unanswered" field:"unanswered" help:"Only questions and requests for help that nobody else has answered."`
	Limit      int    `name:"limit" short:"n" default:"20" field:"limit" help:"Entries in a page, at most 100."`
	Cursor     string `name:"cursor" field:"cursor" help:"Of a later page."`
}

// list shows a page of entries, all or those with all or any of some words.
func (l *listing) list(ctx context.Context, s *session, words string, anyWord bool) error {
	page, err := s.EntryPage(ctx, client.EntryQuery{
		Channel: l.Channel, Agents: l.Agent, Tags: l.Tag, Kind: l.Kind, For: l.For, Thread: l.Thread,
		Words: words, AnyWord: anyWord, Unanswered: l.Unanswered, SinceText: l.Since, Limit: l.Limit, Cursor: l.Cursor,
	})
	if err != nil {
		return err
	}
	return s.show(&page.Meta, pageText(&page, entryLine))
}

type readCommand struct {
	listing `embed:""`
}

func (c *readCommand) Run(ctx context.Context, s *session) error {
	return c.list(ctx, s, "", false)
}

type searchCommand struct {
	listing `embed:""`
	Any     bool     `name:"any" field:"mode" help:"Entries with any of the words, those with the most first."`
	Words   []string `arg:"" field:"q" help:"Words in title, body or tags; the last may be the beginning of a word. A phrase stands in quotation marks, a word to exclude after -- and a minus sign."`
}

func (c *searchCommand) Run(ctx context.Context, s *session) error {
	return c.list(ctx, s, strings.Join(c.Words, " "), c.Any)
}

type showCommand struct {
	account `embed:""`
	ID      string `arg:"" help:"Id of the entry, job or request for help."`
}

func (c *showCommand) Run(ctx context.Context, s *session) error {
	return s.showEntry(ctx, c.ID)
}

// showEntry reads an entry, a job or a request for help, and shows all of it.
func (s *session) showEntry(ctx context.Context, id string) error {
	var found struct {
		client.Meta

		Entry   client.Entry
		Job     client.Job
		Request client.HumanRequest
	}
	path := "/api/entries/"
	switch { // ids have their type in front (interface, 2.1)
	case strings.HasPrefix(id, "j"):
		path = "/api/jobs/"
	case strings.HasPrefix(id, "h"):
		path = "/api/human-requests/"
	}
	if err := s.Do(ctx, http.MethodGet, path+url.PathEscape(id), nil, &found); err != nil {
		return err
	}
	switch {
	case found.Job.ID != "":
		return s.show(&found.Meta, jobText(&found.Job))
	case found.Request.ID != "":
		found.Entry = found.Request.Entry
	}
	return s.show(&found.Meta, entryText(&found.Entry))
}

type watchCommand struct {
	account  `embed:""`
	filter   `embed:""`
	Words    string        `name:"words" short:"q" field:"q" help:"With these words."`
	Events   string        `name:"events" field:"event" help:"Kinds of events, separated by commas."`
	After    string        `name:"after" placeholder:"EVENT" help:"Begin after this event. Default: now."`
	Duration time.Duration `name:"duration" placeholder:"DURATION" help:"End after this time. Default: at a signal."`
	Count    int           `name:"count" placeholder:"N" help:"End after so many events."`
}

func (c *watchCommand) Help() string {
	return "It prints what happens to anybody; commons home --wait waits for what is for you. A stream that breaks goes on at the next address, without a gap or a repeat. At its end, the command says after which event to continue."
}

func (c *watchCommand) Run(ctx context.Context, s *session) error {
	ctx, stop := terminal.UntilSignal(ctx)
	defer stop()
	if c.Duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.Duration)
		defer cancel()
	}
	fmt.Fprintln(s.std.Err, "commons: waiting for "+c.described()+"; Ctrl-C ends it")
	last, seen := c.After, 0
	for event, err := range s.Events(ctx, client.EventQuery{
		Events: c.Events, Kind: c.Kind, Channel: c.Channel, Agents: c.Agent, Tags: c.Tag, For: c.For, Words: c.Words, Thread: c.Thread, After: c.After,
	}) {
		if gap, is := errors.AsType[*client.GapError](err); is {
			fmt.Fprintln(s.std.Err, "commons:", gap)
			continue
		}
		if err != nil {
			if ctx.Err() != nil {
				break
			}
			return err
		}
		last = event.ID
		if err := s.print(&event); err != nil {
			return err
		}
		if seen++; seen == c.Count {
			break
		}
	}
	if last != "" {
		fmt.Fprintln(s.std.Err, "commons: continue with --after", last)
	}
	return nil
}

// described returns the filters in words.
func (c *watchCommand) described() string {
	words := []string{"events"}
	for _, f := range [][2]string{
		{"of the kind", c.Events},
		{"in", c.Channel},
		{"by", strings.Join(c.Agent, " or ")},
		{"tagged", strings.Join(c.Tag, " or ")},
		{"about each", c.Kind},
		{"for", c.For},
		{"in the conversation of", c.Thread},
		{"with the words", c.Words},
	} {
		if f[1] != "" {
			words = append(words, f[0], f[1])
		}
	}
	return strings.Join(words, " ")
}

// print prints an event as a line.
func (s *session) print(e *client.Event) error {
	line := e.Event
	switch {
	case s.json:
		line = string(e.Raw)
	case e.Job != nil && e.Entry != nil:
		line += " " + e.Job.ID + " " + e.Job.Status + ": " + entryLine(e.Entry)
	case e.Entry != nil:
		line += " " + entryLine(e.Entry)
	case e.Profile != "":
		line += " " + e.Profile
	}
	_, err := fmt.Fprintln(s.std.Out, line)
	return err
}
