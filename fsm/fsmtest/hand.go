package fsmtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/internal/must"
)

// State is what a Hand works on: a Rig, or a machine.
type State interface {
	Viewer
	// Run applies commands in one log entry and returns their results.
	Run(bodies ...command.Payload) []command.Result
	// Clock is the instant of the newest log entry. A test may move it on.
	Clock() *int64
}

// Hand has short ways to change and to read a state.
type Hand struct {
	State
	T testing.TB
}

// Publish applies one entry and returns its seq.
func (r *Hand) Publish(change func(*command.Publish)) uint64 {
	r.T.Helper()
	res := r.Run(Post("ada", change))[0]
	must.Equal(r.T, res.Outcome, command.OutcomeDone, "publish: %+v", res)
	return res.Entry
}

// Read returns an entry as a client reads it, and its JSON.
func (r *Hand) Read(seq uint64) (EntryDoc, string) {
	r.T.Helper()
	v := r.View()
	defer v.Release()
	return ReadEntry(r.T, v, seq)
}

// List returns the entries of the first page of a list.
func (r *Hand) List(q view.Query) []uint64 {
	r.T.Helper()
	v := r.View()
	defer v.Release()
	seqs, _, err := v.List(q)
	must.Do(r.T, err)
	return seqs
}

// InView returns what a function reads in the newest view.
func InView[T any](t Tester, m Viewer, read func(*view.View) (T, error)) T {
	t.Helper()
	v := m.View()
	defer v.Release()
	return must.Get(read(v))(t)
}

// Tester has the methods that testing and rapid share.
type Tester interface {
	Helper()
	Error(args ...any)
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// CheckHotRows holds that the rows that are kept in memory are those on disk.
func CheckHotRows(t Tester, rows *state.Rows) {
	t.Helper()
	for i := range rows.Hot.Slots {
		r := rows.Hot.Slots[i].Load()
		if r == nil {
			continue
		}
		row, ok, err := state.GetRow(rows.DB, []byte(r.Key))
		if err != nil || ok != (r.Row != nil) || !bytes.Equal(row, r.Row) {
			t.Errorf("row %x is kept as %x, and is %x %v %v", r.Key, r.Row, row, ok, err)
		}
	}
}

// Viewer shows a state.
type Viewer interface{ View() *view.View }

// StampStep is the time between two log entries, in milliseconds.
const StampStep = 1000

// Boot1 is the boot that sends the commands of most tests.
var Boot1 = command.BootID{1}

// Expect ends the test if a result has another outcome than want. The format describes the
// command.
func Expect(t Tester, got command.Result, want command.Outcome, format string, args ...any) {
	t.Helper()
	must.Equal(t, got.Outcome, want, "%s: outcome of %+v", fmt.Sprintf(format, args...), got)
}

// Post is a plain entry by an agent.
func Post(agent string, change func(*command.Publish)) *command.Publish {
	p := &command.Publish{Agent: agent, AgentKey: agent, Kind: command.KindMessage, Title: "A title", Body: "Some body text."}
	if change != nil {
		change(p)
	}
	return p
}

// Relate makes an entry relate to another one.
func Relate(r command.Relation, target uint64) func(*command.Publish) {
	return func(p *command.Publish) { p.Relation, p.Target = r, state.EntryID(target) }
}

// EntryDoc is an entry's JSON as a client reads it.
type EntryDoc struct {
	ID           string `json:"id"`
	Kind         string `json:"kind"`
	Channel      string `json:"channel"`
	Agent        string `json:"agent"`
	Title        string `json:"title"`
	Body         string `json:"body"`
	Tags         []string
	CreatedAt    int64   `json:"createdAt"`
	Supersedes   *string `json:"supersedes"`
	Relation     *string `json:"relation"`
	NameVerified bool    `json:"nameVerified"`
	House        bool    `json:"house"`
	SupersededBy []struct {
		ID, Agent, Relation string
		CreatedAt           int64
		NameVerified        bool
	} `json:"supersededBy"`
	SupersededByCount int    `json:"supersededByCount"`
	Status            string `json:"status"`
	LooksLike         string `json:"looksLike"`
	Hidden            *struct {
		At              int64
		Reason          string
		Purged, Expired bool
	} `json:"hidden"`
}

// ReadEntry returns an entry of a view as a client reads it, and its JSON.
func ReadEntry(t Tester, v *view.View, seq uint64) (EntryDoc, string) {
	t.Helper()
	raw, err := v.AppendEntry(nil, seq)
	if err != nil {
		t.Fatalf("entry %d: %v", seq, err)
	}
	var doc EntryDoc
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&doc); err != nil {
		t.Fatalf("entry %d: %v: %s", seq, err, raw)
	}
	return doc, string(raw)
}
