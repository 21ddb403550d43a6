package main

import (
	"bufio"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/scripts/harness"
)

//go:embed adapter.py adapter.mjs
var adapters embed.FS

// language is a language with a client.
type language struct {
	name    string
	command []string // runs the adapter, which a JSON object of options follows
	file    string   // at /clients, of the client
	adapter string
	dir     string   // of client and adapter
	stderr  *os.File // of the adapters
	env     *environment
}

// environment is the cluster that all languages use.
type environment struct {
	run      *harness.Run
	cluster  *harness.Cluster
	receiver int // port of the receiver of /docs/push
}

// options are those of a client in all languages.
type options struct {
	URLs     []string `json:"urls"`
	Key      string   `json:"key"`
	Patience float64  `json:"patience"` // seconds
	Timeout  float64  `json:"timeout,omitempty"`
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

// install puts the client that a node serves, and the adapter, into a directory.
func (l *language) install() {
	l.dir = l.env.run.Path(l.name)
	harness.Must(os.MkdirAll(l.dir, 0o700))
	l.stderr = harness.Got(os.Create(filepath.Join(l.dir, "stderr.log")))
	res := harness.Got(l.env.cluster.Nodes[0].Raw(http.MethodGet, "/clients/"+l.file, "", http.StatusOK))
	harness.Must(os.WriteFile(filepath.Join(l.dir, l.file), res.Body, 0o600))
	harness.Must(os.WriteFile(filepath.Join(l.dir, l.adapter), harness.Got(adapters.ReadFile(l.adapter)), 0o600))
}

// client returns a new client. It is a process that ends with the run.
func (l *language) client(o options) *process {
	cmd := exec.CommandContext(l.env.run.Ctx, l.command[0], append(l.command[1:], l.adapter, string(harness.Got(json.Marshal(o))))...)
	cmd.Dir, cmd.Stderr = l.dir, l.stderr
	p := &process{stdin: harness.Got(cmd.StdinPipe()), answers: json.NewDecoder(bufio.NewReader(harness.Got(cmd.StdoutPipe()))), log: l.stderr.Name()}
	harness.Must(cmd.Start())
	go func() { _ = cmd.Wait() }() // it is killed at the end of the run
	return p
}

const shownOfLog = 2000 // bytes

// process is a client.
type process struct {
	stdin   io.Writer
	answers *json.Decoder
	log     string // the file of its stderr
}

// do carries out a call and returns its items, and MinIndex of the client.
func (p *process) do(c call) (items []json.RawMessage, index uint64, err error) {
	if err := json.NewEncoder(p.stdin).Encode(c); err != nil {
		return nil, 0, err
	}
	for {
		var r result
		switch err := p.answers.Decode(&r); {
		case err != nil:
			said, _ := os.ReadFile(p.log) // empty if it is missing
			return items, 0, fmt.Errorf("the client ended: %w\n%s", err, said[max(0, len(said)-shownOfLog):])
		case r.Failure != nil:
			return items, 0, r.Failure
		case r.Item == nil:
			return items, r.MinIndex, nil
		}
		items = append(items, r.Item)
	}
}

// decode reads JSON of a client.
func decode[T any](raw json.RawMessage) (value T) {
	if err := json.Unmarshal(raw, &value); err != nil {
		harness.Failf("%.300q: %w", raw, err)
	}
	return value
}
