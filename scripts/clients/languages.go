package main

import (
	"bufio"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/scripts/harness"
)

//go:embed adapter.py adapter.mjs
var adapters embed.FS

// language is a language with a client.
type language struct {
	name    string
	command []string // runs the adapter, which a JSON object of options follows; empty for Go
	file    string   // at /clients, of the client
	adapter string
	section string // name of its examples in /docs/clients
	dir     string // of client and adapter
	env     *environment
}

// environment is the cluster that all languages use.
type environment struct {
	run     *harness.Run
	cluster *harness.Cluster
}

// options are those of a client in all languages.
type options struct {
	URLs     []string `json:"urls"`
	Key      string   `json:"key"`
	Patience float64  `json:"patience"` // seconds
	MinIndex uint64   `json:"min_index"`
}

// call is a call of a client's method, by its name in Python.
type call struct {
	Method string         `json:"method"`
	Args   []any          `json:"args"`
	Fields map[string]any `json:"fields"`
	Take   int            `json:"take"` // items of an iterator; 0 for other methods
}

// result is a line of an adapter: an item, the end, or a failure.
type result struct {
	Item     json.RawMessage
	MinIndex uint64 `json:"min_index"`
	Failure  *failure
}

// failure is the error of a client in any language.
type failure struct {
	Kind, Text string
	Status     int
	Code       string
	Issues     []client.Issue
	Example    map[string]any
	RequestID  string `json:"request_id"`
}

func (f *failure) Error() string { return f.Kind + ": " + f.Text }

// caller is a client.
type caller interface {
	// do carries out a call and returns its items, and MinIndex of the client.
	do(c call) ([]json.RawMessage, uint64, error)
}

// install puts the client that a node serves, and the adapter, into a directory.
func (l *language) install() {
	if l.file == "" {
		return
	}
	l.dir = l.env.run.Path(l.name)
	harness.Must(os.MkdirAll(l.dir, 0o700))
	res := harness.Got(l.env.cluster.Nodes[0].Raw(http.MethodGet, "/clients/"+l.file, "", http.StatusOK))
	harness.Must(os.WriteFile(filepath.Join(l.dir, l.file), res.Body, 0o600))
	harness.Must(os.WriteFile(filepath.Join(l.dir, l.adapter), harness.Got(adapters.ReadFile(l.adapter)), 0o600))
}

// client returns a new client. Those of other languages are processes, which end with the run.
func (l *language) client(o options) caller {
	if len(l.command) == 0 {
		return &goCaller{l.env.run.Ctx, o, nil}
	}
	cmd := exec.CommandContext(l.env.run.Ctx, l.command[0], append(l.command[1:], l.adapter, string(harness.Got(json.Marshal(o))))...)
	cmd.Dir, cmd.Stderr = l.dir, os.Stderr
	p := &process{stdin: harness.Got(cmd.StdinPipe()), answers: json.NewDecoder(bufio.NewReader(harness.Got(cmd.StdoutPipe())))}
	harness.Must(cmd.Start())
	go func() { _ = cmd.Wait() }() // it is killed at the end of the run
	return p
}

// process is a client in another language.
type process struct {
	stdin   io.Writer
	answers *json.Decoder
}

func (p *process) do(c call) (items []json.RawMessage, index uint64, err error) {
	c.Args = append([]any{}, c.Args...) // an empty list, not null
	if err := json.NewEncoder(p.stdin).Encode(c); err != nil {
		return nil, 0, err
	}
	for {
		var r result
		switch err := p.answers.Decode(&r); {
		case err != nil:
			return items, 0, err
		case r.Failure != nil:
			return items, 0, r.Failure
		case r.Item == nil:
			return items, r.MinIndex, nil
		}
		items = append(items, r.Item)
	}
}

// goCaller is a client in Go.
type goCaller struct {
	ctx     context.Context //nolint:containedctx // of the run
	options options
	client  *client.Client
}

func (g *goCaller) do(c call) (items []json.RawMessage, index uint64, err error) {
	if g.client == nil {
		g.open()
	}
	items, err = g.call(c)
	unknown, isUnknown := errors.AsType[*client.UnknownError](err)
	rejected, isRejected := errors.AsType[*client.Error](err)
	switch {
	case isUnknown:
		err = &failure{Kind: "UnknownOutcome", Text: err.Error(), RequestID: unknown.RequestID}
	case isRejected:
		f := &failure{Kind: "Rejected", Text: err.Error(), Status: rejected.Status, Code: rejected.Code, Issues: rejected.Issues}
		_ = json.Unmarshal(rejected.Example, &f.Example) // another server than ours sends no example
		err = f
	case err != nil:
		err = &failure{Kind: "other", Text: err.Error()}
	}
	return items, g.client.MinIndex(), err
}

// open makes the client anew, with the present key.
func (g *goCaller) open() {
	patience := time.Duration(g.options.Patience * float64(time.Second))
	if patience == 0 {
		patience = -1
	}
	g.client = harness.Got(client.New(client.Config{URLs: g.options.URLs, Key: g.options.Key, Patience: patience, MinIndex: g.options.MinIndex}))
}

func (g *goCaller) call(c call) ([]json.RawMessage, error) {
	fields := maps.Clone(c.Fields)
	cl := g.client
	if fields["dry_run"] == true {
		cl = cl.DryRun()
	}
	one := func(raw json.RawMessage, err error) ([]json.RawMessage, error) { return []json.RawMessage{raw}, err }
	switch c.Method {
	case "publish":
		fields["body"] = c.Args[0]
		answer, err := cl.Publish(g.ctx, as[client.NewEntry](fields))
		return one(answer.Raw, err)
	case "register":
		fields["id"] = c.Args[0]
		name, _ := c.Args[0].(string)
		var answer client.Registered
		var err error
		if key, is := fields["recovery_key"].(string); is {
			answer, err = cl.Recover(g.ctx, name, key, "")
		} else {
			answer, err = cl.Register(g.ctx, as[client.NewProfile](fields))
		}
		if answer.EditKey != "" { // the others go on with it by themselves
			g.options.Key = answer.EditKey
			g.open()
		}
		return one(answer.Raw, err)
	case "home":
		answer, err := cl.Home(g.ctx, as[client.HomeQuery](fields))
		return one(answer.Raw, err)
	case "entries":
		return take(cl.Entries(g.ctx, as[client.EntryQuery](fields)), c.Take)
	case "events":
		return take(cl.Events(g.ctx, as[client.EventQuery](fields)), c.Take)
	case "watch_home": // the Go client leaves the loop to its caller
		query := as[client.HomeQuery](fields)
		for query.Wait = time.Minute; ; {
			home, err := cl.Home(g.ctx, query)
			if err != nil || len(home.ForYou) > 0 {
				return one(home.Raw, err)
			}
			query.Since = home.Now
		}
	}
	return nil, errors.New("the Go adapter has no " + c.Method)
}

// as returns fields as the type of a parameter.
func as[T any](fields map[string]any) T {
	return decode[T](harness.Got(json.Marshal(fields)))
}

// decode reads JSON of a client.
func decode[T any](raw json.RawMessage) (value T) {
	if err := json.Unmarshal(raw, &value); err != nil {
		harness.Failf("%.300q: %w", raw, err)
	}
	return value
}

// take returns the first items of an iterator.
func take[T any](list iter.Seq2[T, error], n int) (items []json.RawMessage, err error) {
	for item, err := range list {
		if err != nil {
			return items, err
		}
		items = append(items, harness.Got(json.Marshal(item)))
		if n--; n == 0 {
			break
		}
	}
	return items, nil
}
