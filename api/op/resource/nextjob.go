package resource

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/api/op/write"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/text"
	"github.com/commons-cluster/commons/fsm/view"
)

// nextJob is a claim of the oldest open job that fits. The node looks for candidates, and apply
// takes the first that is still open.
type nextJob struct {
	call       *op.Call
	query      view.Query
	selection  string // as the client sent it
	wait       time.Duration
	until      time.Time // end of the wait; zero before it
	candidates []string
	repeats    bool   // the request_id was used before
	pass       func() // wakes another waiter instead of this one; nil unless this one was woken
}

// end wakes another waiter if this one was woken and has taken no job.
func (n *nextJob) end() {
	if n.pass != nil {
		n.pass()
		n.pass = nil
	}
}

// maxAgeHours bounds max_age_hours.
const maxAgeHours = 90 * 24

// The members of next.
var nextFields = []write.Field{
	write.FieldTags,
	{Name: "channel", Most: command.MaxChannel},
	{Name: "q", Most: command.MaxSearch},
	{Name: "poster", Most: wire.MaxRawName},
	{Name: "max_age_hours", Least: 1, Most: maxAgeHours, Like: maxAgeHours},
}

var nextBody = write.Body{Fields: nextFields}

// readNext reads the selection of a claim of the next job.
func (j *jobForm) readNext() {
	j.next = &nextJob{query: view.Query{Since: -1}}
	if j.Doc.Get(fieldJobID.Name) != nil {
		j.Problems.Add(fieldJobID.Name, "must be left out with next, which selects the job")
	}
	j.note = j.Text(&fieldJobNote)
	j.next.wait = time.Duration(j.Number(&fieldWait)) * time.Second //nolint:gosec // at most MaxWait
	value := j.Doc.Get(fieldNext.Name)
	members, isObject := membersOf(value)
	// The members are the body of a form of their own, whose problems are those of next.
	f := write.NewForm(&wire.Document{Fields: members}, &nextBody, nil)
	f.Dry = true // an example may hold placeholders
	q := &j.next.query
	tags := f.Labels(&nextFields[0])
	for i := range tags {
		tags[i] = text.FoldTag(tags[i])
	}
	q.TagKey = strings.Join(tags, view.Or)
	q.Channel = f.Converted(&nextFields[1], f.Read(&nextFields[1]), "channel", text.ChannelName, command.MaxChannel)
	q.Q = f.Text(&nextFields[2]).Value
	q.AgentKey = text.Fold(f.Converted(&nextFields[3], f.Read(&nextFields[3]), "poster", text.AgentName, command.MaxName))
	if hours := f.Number(&nextFields[4]); hours > 0 {
		q.Since = -int64(hours) * command.HourMillis //nolint:gosec // bounded by its field
	}
	for _, m := range members {
		if known, _ := wire.Means(m.Name, nextBody.Names()); known == "" {
			f.Problems.Add(m.Name, "is not known")
		}
	}
	switch {
	case !isObject:
		j.Problems.Add(fieldNext.Name, `must be an object, such as {"tags":["french"],"max_age_hours":48}, or {} for any job`)
	case f.Problems.Any():
		first := f.Problems.List[0]
		j.Problems.Add(fieldNext.Name, "may hold tags, channel, q, poster and max_age_hours; %s %s", wire.Shown(first.Field, wire.MaxUnknownName), first.Message)
	default:
		j.next.selection = string(wire.AppendJSON(nil, value))
		if len(j.next.selection) > command.MaxNextBytes {
			j.Problems.Add(fieldNext.Name, "may have at most %d bytes", command.MaxNextBytes)
		}
	}
	j.Settle(&fieldNext, true, value)
}

// membersOf returns the members of an object, or of a text with one, ordered by their names.
func membersOf(value any) (fields []wire.Field, ok bool) {
	switch v := value.(type) {
	case map[string]any:
		for name, value := range v {
			fields = append(fields, wire.Field{name, value})
		}
	case string:
		var err error
		if fields, err = wire.ReadObject([]byte(v)); err != nil {
			return nil, false
		}
	default:
		return nil, false
	}
	slices.SortFunc(fields, func(a, b wire.Field) int { return strings.Compare(a.Name, b.Name) })
	return fields, true
}

// find looks for candidates in the newest view.
func (j *jobForm) find() (err error) {
	v, by := j.next.call.NewestView(), j.Author.Signature()
	if _, j.next.repeats, err = v.Earlier(command.OpTakeJob, by); err != nil || j.next.repeats {
		return err
	}
	j.next.candidates, err = v.NextJobs(j.next.query, by)
	if err != nil {
		return fmt.Errorf("look for the next job: %w", err)
	}
	return nil
}

// Challenge finds the candidates before each attempt to take one, and waits for some.
func (j *jobForm) Challenge(c *op.Call, _ command.Sender) error {
	if j.next == nil {
		return nil
	}
	if j.next.until.IsZero() {
		j.next.until = c.Env.Now().Add(j.next.wait)
	}
	left := j.next.until.Sub(c.Env.Now())
	if left <= 0 {
		return j.find()
	}
	wake, pass, stop := c.Env.Backend.WatchJobs()
	defer stop()
	ctx, done := c.Wait(left)
	defer done()
	gone, unwatch := c.WatchClient()
	defer unwatch()
	for {
		if err := j.find(); err != nil || j.next.repeats || len(j.next.candidates) > 0 {
			return err
		}
		j.next.end()
		c.Release()
		select {
		case <-wake:
			j.next.pass = pass
		case <-gone:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// take returns the command that takes the first candidate, or nil without one. An earlier request
// is found by its request_id.
func (j *jobForm) take() command.Payload {
	if j.Dry && j.next.call != nil && j.next.candidates == nil && !j.Problems.Any() {
		_ = j.find()
	}
	if len(j.next.candidates) == 0 && !j.next.repeats {
		return nil
	}
	return &command.TakeJob{Author: j.Author, Note: j.note.Value, TTL: j.ttl, Jobs: j.next.candidates, Next: j.next.selection}
}
