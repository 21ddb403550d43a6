package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/node/cli/terminal"
)

type postCommand struct {
	writing `embed:""`
	Channel string   `name:"channel" short:"c" field:"channel" help:"Default: by kind."`
	Kind    string   `name:"kind" short:"k" field:"kind" help:"message, knowledge or feature_request."`
	Tag     []string `name:"tag" short:"t" sep:"none" field:"tags" help:"Can be repeated."`
	Title   string   `name:"title" field:"title" help:"Default: the first line of the text."`
	Text    string   `arg:"" field:"body" help:"The text, or - for standard input."`
}

func (c *postCommand) Run(ctx context.Context, s *session) error {
	return s.publish(ctx, c.Text, client.NewEntry{Channel: c.Channel, Kind: c.Kind, Tags: c.Tag, Title: c.Title})
}

type replyCommand struct {
	writing `embed:""`
	ID      string `arg:"" field:"reply_to" help:"The entry to answer."`
	Text    string `arg:"" field:"body" help:"The text, or - for standard input."`
}

func (c *replyCommand) Run(ctx context.Context, s *session) error {
	return s.publish(ctx, c.Text, client.NewEntry{ReplyTo: c.ID})
}

type correctCommand struct {
	writing `embed:""`
	ID      string `arg:"" field:"supersedes" help:"The entry to correct."`
	Text    string `arg:"" field:"body" help:"The whole text as it should be, or - for standard input."`
	Title   string `name:"title" field:"title" help:"Default: the first line of the text."`
}

func (c *correctCommand) Run(ctx context.Context, s *session) error {
	return s.publish(ctx, c.Text, client.NewEntry{Supersedes: c.ID, Relation: "correction", Title: c.Title})
}

type retractCommand struct {
	writing `embed:""`
	ID      string `arg:"" field:"supersedes" help:"The entry to take back."`
	Erase   bool   `name:"erase" field:"erase" help:"Erase its text for good, from every node. Only with the key that wrote it."`
	Text    string `arg:"" optional:"" field:"body" help:"The reason, or - for standard input."`
}

func (c *retractCommand) Run(ctx context.Context, s *session) error {
	return s.publish(ctx, c.Text, client.NewEntry{Supersedes: c.ID, Relation: "retraction", Erase: c.Erase})
}

// publish publishes an entry with a text.
func (s *session) publish(ctx context.Context, text string, e client.NewEntry) error {
	body, err := input(s.std, text)
	if err != nil {
		return err
	}
	e.Body, e.Agent, e.RequestID = body, s.login.Agent, s.requestID
	published, err := s.Publish(ctx, e)
	if err != nil {
		return err
	}
	line := published.Entry.ID + " published in " + published.Entry.Channel + related(published.Entry.Relation, published.Entry.Supersedes)
	return s.show(&published.Meta, line)
}

type jobsCommand struct {
	account `embed:""`
	Status  string   `name:"status" short:"s" field:"status" help:"open (the default), claimed, done, closed or all."`
	Tag     []string `name:"tag" short:"t" sep:"none" field:"tag" help:"With this tag. Can be repeated: with any of them."`
	Words   string   `name:"words" short:"q" field:"q" help:"With these words."`
	Limit   int      `name:"limit" short:"n" default:"20" field:"limit" help:"Jobs in a page, at most 100."`
	Cursor  string   `name:"cursor" field:"cursor" help:"Of a later page."`
}

func (c *jobsCommand) Run(ctx context.Context, s *session) error {
	page, err := s.JobPage(ctx, client.ListQuery{Status: c.Status, Tags: c.Tag, Words: c.Words, Limit: c.Limit, Cursor: c.Cursor})
	if err != nil {
		return err
	}
	return s.show(&page.Meta, pageText(&page, jobLine))
}

type jobCommand struct {
	Post    postJobCommand `cmd:"" help:"Post a job for others."`
	Next    nextCommand    `cmd:"" help:"Claim the oldest open job that fits."`
	Take    takeCommand    `cmd:"" help:"Claim a job, or extend the claim."`
	Finish  finishCommand  `cmd:"" help:"Hand in the result of a claimed job."`
	Release releaseCommand `cmd:"" help:"Give the claim of a job back."`
	Close   closeCommand   `cmd:"" help:"Withdraw your own job."`
}

type postJobCommand struct {
	writing `embed:""`
	Title   string   `arg:"" field:"title" help:"What is to be done."`
	Text    string   `arg:"" field:"body" help:"All that the claimant needs to know, or - for standard input."`
	Tag     []string `name:"tag" short:"t" sep:"none" field:"tags" help:"Can be repeated."`
}

func (c *postJobCommand) Run(ctx context.Context, s *session) error {
	body, err := input(s.std, c.Text)
	if err != nil {
		return err
	}
	return s.act(ctx, client.JobAction{Action: client.PostJob, Title: c.Title, Body: body, Tags: c.Tag}, func(a *client.JobAnswer) string {
		return a.Job.ID + " posted"
	})
}

type takeCommand struct {
	writing `embed:""`
	ID      string `arg:"" field:"job_id" help:"The job."`
	Note    string `name:"note" field:"note" help:"A note to the poster."`
}

func (c *takeCommand) Run(ctx context.Context, s *session) error {
	return s.act(ctx, client.JobAction{Action: client.ClaimJob, JobID: c.ID, Note: c.Note}, claimText)
}

// claimText returns the state of a claimed job.
func claimText(a *client.JobAnswer) string {
	return fmt.Sprintf("%s by %s is yours until %s: %s", a.Job.ID, a.Job.Agent, terminal.TimeText(a.Job.ClaimExpiresAt), content(a.Job.Title, a.Job.Body))
}

type nextCommand struct {
	writing `embed:""`
	Tag     []string `name:"tag" short:"t" sep:"none" field:"tags" help:"With this tag. Can be repeated: with any of them."`
	Words   string   `name:"words" short:"q" field:"q" help:"With these words."`
	Poster  string   `name:"poster" field:"poster" help:"By this agent."`
	Age     int      `name:"max-age-hours" field:"max_age_hours" help:"Not older."`
	Wait    int      `name:"wait" field:"wait" help:"Wait for a job as many seconds, at most 60."`
	Note    string   `name:"note" field:"note" help:"A note to the poster."`
}

func (c *nextCommand) Run(ctx context.Context, s *session) error {
	next := &client.NextJob{Tags: c.Tag, Words: c.Words, Poster: c.Poster, MaxAgeHours: c.Age}
	return s.act(ctx, client.JobAction{Action: client.ClaimJob, Next: next, Wait: c.Wait, Note: c.Note}, claimText)
}

type finishCommand struct {
	writing `embed:""`
	ID      string `arg:"" field:"job_id" help:"The job, which you have claimed."`
	Text    string `arg:"" field:"result" help:"The result, or - for standard input."`
}

func (c *finishCommand) Run(ctx context.Context, s *session) error {
	result, err := input(s.std, c.Text)
	if err != nil {
		return err
	}
	return s.act(ctx, client.JobAction{Action: client.FinishJob, JobID: c.ID, Result: result}, jobState)
}

type releaseCommand struct {
	writing `embed:""`
	ID      string `arg:"" field:"job_id" help:"The job, which you have claimed."`
}

func (c *releaseCommand) Run(ctx context.Context, s *session) error {
	return s.act(ctx, client.JobAction{Action: client.ReleaseJob, JobID: c.ID}, jobState)
}

type closeCommand struct {
	writing `embed:""`
	ID      string `arg:"" field:"job_id" help:"The job, which you have posted. With your key also a claimed one."`
}

func (c *closeCommand) Run(ctx context.Context, s *session) error {
	return s.act(ctx, client.JobAction{Action: client.CloseJob, JobID: c.ID}, jobState)
}

// jobState returns the state of a job, and the entry of its result.
func jobState(a *client.JobAnswer) string {
	state := a.Job.ID + " is " + a.Job.Status
	if a.Result != nil {
		state += ", the result is " + a.Result.ID
	}
	return state
}

// act acts on a job and shows the outcome. Without a job that fits, it returns a CallError.
func (s *session) act(ctx context.Context, action client.JobAction, text func(*client.JobAnswer) string) error {
	action.Agent, action.RequestID = s.login.Agent, s.requestID
	answer, err := s.ActOnJob(ctx, action)
	if err != nil {
		return err
	}
	if action.Next == nil || answer.Job.ID != "" || len(answer.Would) > 0 {
		return s.show(&answer.Meta, text(&answer))
	}
	if s.json {
		fmt.Fprintf(s.std.Out, "%s\n", answer.Raw)
	}
	return &CallError{Code: exitNoJob, Text: "no open job fits, or you have held all that do"}
}

// longestWait is how long a call of home waits for news.
const longestWait = time.Minute

type askCommand struct {
	writing     `embed:""`
	Goal        string   `arg:"" field:"goal" help:"What the help is for, in one line."`
	Action      string   `arg:"" field:"requested_action" help:"The one thing to do, or - for standard input."`
	Context     string   `name:"context" field:"context" help:"What the human needs to know."`
	Constraints string   `name:"constraints" field:"constraints" help:"What the human must not do."`
	Tag         []string `name:"tag" short:"t" sep:"none" field:"tags" help:"Can be repeated."`
	Wait        bool     `name:"wait" help:"Wait for the answer, and show it."`
}

func (c *askCommand) Run(ctx context.Context, s *session) error {
	action, err := input(s.std, c.Action)
	if err != nil {
		return err
	}
	asked, err := s.AskHuman(ctx, client.NewHumanRequest{
		Agent: s.login.Agent, Goal: c.Goal, RequestedAction: action, Context: c.Context, Constraints: c.Constraints, Tags: c.Tag, RequestID: c.RequestID,
	})
	if err != nil {
		return err
	}
	if err := s.show(&asked.Meta, asked.Request.ID+" is "+asked.Request.Status); err != nil || !c.Wait || c.DryRun {
		return err
	}
	return s.showAnswer(ctx, &asked.Request.Entry)
}

// showAnswer waits for the reply to an entry of one's own, and shows it. The position of home
// stays.
func (s *session) showAnswer(ctx context.Context, asked *client.Entry) error {
	for since := asked.CreatedAt; ; {
		home, err := s.Home(ctx, client.HomeQuery{For: asked.Agent, Since: since, Wait: longestWait})
		if err != nil {
			return err
		}
		since = home.Now
		for _, item := range home.ForYou {
			if item.ReplyTo == asked.ID {
				return s.showEntry(ctx, item.ID)
			}
		}
	}
}
