package fsm

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/fsm/fsmtest"

	"github.com/hashicorp/raft"
	"pgregory.net/rapid"

	"github.com/commons-cluster/commons/fsm/apply"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/golden"
	"github.com/commons-cluster/commons/internal/must"
)

// goldenAdvice explains a failure of TestGoldenLog.
const goldenAdvice = `Apply has another effect on a log of format 1 than before: nodes of two versions would compute different states.
Until the first release, -update draws a new log. After it, the change belongs to a later format: apply must check
tx.format. See "A new format" in CONTRIBUTING.md.`

const (
	goldenEntries = 75       // log entries that are drawn
	maxGoldenSize = 60 << 10 // bytes of the file
	logLine       = "log "   // begins the line of a log entry
	rowsLine      = "rows "  // begins the line of a key space
)

// TestGoldenLog applies the log in testdata/log1.golden. The results, the rolling digest
// after each log entry and the rows at the end are those in the file.
func TestGoldenLog(t *testing.T) {
	path := filepath.Join("testdata", "log1.golden")
	want := golden.Read(t, path, func() string { return string(drawGoldenLog(t)) })
	if len(want) > maxGoldenSize {
		t.Errorf("%s has %d bytes, at most %d: draw fewer log entries", path, len(want), maxGoldenSize)
	}
	l, lines := newLog(t), strings.Split(want, "\n")
	for _, line := range lines {
		coded, is := strings.CutPrefix(line, logLine)
		if !is {
			continue
		}
		data := must.Get(base64.RawStdEncoding.DecodeString(coded))(t)
		l.add(raft.LogCommand, data)
	}
	text, done := describeLog(t, l)
	got := strings.Split(string(text), "\n")
	check.Equal(t, len(got), len(lines), "lines")
	differs := false
	for i := range min(len(got), len(lines)) {
		// The digests after the first difference say no more.
		if got[i] != lines[i] && (!differs || strings.HasPrefix(got[i], rowsLine)) {
			differs = true
			t.Errorf("line %d: %q, want %q", i+1, got[i], lines[i])
		}
	}
	if t.Failed() {
		t.Log(goldenAdvice)
	}
	for _, op := range command.Ops() {
		if command.FormatOf(command.New(op)) == command.InitialFormat && !done[op] {
			t.Errorf("the golden log has no command %s that is carried out; write it anew", op)
		}
	}
}

// drawGoldenLog returns the golden file of the first drawn log in which each command is
// carried out.
func drawGoldenLog(t *testing.T) []byte {
	t.Helper()
	drawn := rapid.Custom(func(rt *rapid.T) *raftLog {
		var got recorder
		m := tempMachine(rt, func(o *Options) { o.MaxFormat, o.Observer = command.InitialFormat, &got })
		defer dropMachine(rt, m)
		l := newLog(t)
		l.feed(m, 1, 1)
		for _, c := range jobOfPoster() {
			index := l.commands(c)
			l.feed(m, index, index)
		}
		w := newLogWriter(rt, l, m, func() {})
		missing := slices.DeleteFunc(command.Ops(), func(op command.Op) bool {
			return slices.ContainsFunc(jobOfPoster(), func(c command.Payload) bool { return command.OpOf(c) == op })
		})
		for w.log.last() <= goldenEntries {
			w.ops = slices.Concat(missing, missing, missing, missing, weighted)
			w.log.batch(w.batch())
			w.feed()
			missing = slices.DeleteFunc(missing, func(op command.Op) bool {
				return slices.ContainsFunc(got.got, func(a apply.Answered) bool {
					return a.Res.Outcome == command.OutcomeDone && slices.ContainsFunc(w.sent[a.Boot], func(c command.Command) bool {
						return c.Seq == a.Seq && command.OpOf(c.Payload) == op
					})
				})
			})
		}
		return w.log
	})
	for seed := range 1000 {
		text, done := describeLog(t, drawn.Example(seed))
		if len(done) == len(command.Ops()) && len(text) <= maxGoldenSize {
			return text
		}
	}
	t.Fatal("no drawn log has all commands: draw more log entries")
	return nil
}

// jobOfPoster returns commands that are all carried out, one after the other. Drawn logs seldom
// have them all.
func jobOfPoster() []command.Payload {
	post, end := fsmtest.PostJob("poster"), fsmtest.CloseJob("poster", 1)
	post.Proof.Key, end.Proof.Key = fsmtest.KeyHash("key of poster"), fsmtest.KeyHash("key of poster")
	return []command.Payload{
		fsmtest.Register("poster", "key of poster", nil), post, fsmtest.Claim("bob", 1), fsmtest.Claim("bob", 1), fsmtest.Release("bob", 1),
		&command.TakeJob{Author: fsmtest.Author("ann"), Note: "Mine.", TTL: 1000_000, Jobs: []string{"j9", "j1"}, Next: "{}"}, end,
	}
}

// describeLog applies a log and returns the text of its golden file, and the commands
// that were carried out.
func describeLog(t *testing.T, l *raftLog) (text []byte, done map[command.Op]bool) {
	t.Helper()
	var out bytes.Buffer
	var got recorder
	m := openAt(t, t.TempDir(), func(o *Options) { o.Observer = &got })
	defer closeMachine(t, m)
	done = map[command.Op]bool{}
	l.feed(m, 1, 1)
	for _, e := range l.entries[1:] {
		batch, err := command.DecodeBatch(e.Data)
		if err != nil {
			t.Fatalf("log entry %d cannot be read any more: %v\n%s", e.Index, err, goldenAdvice)
		}
		got.got = nil
		l.feed(m, e.Index, e.Index)
		fmt.Fprintf(&out, "%s%s\n", logLine, base64.RawStdEncoding.EncodeToString(e.Data))
		for _, g := range batch.Groups {
			for _, c := range g.Commands {
				r := got.got[0].Res
				got.got = got.got[1:]
				op := command.OpOf(c.Payload)
				if r.Outcome == command.OutcomeDone {
					done[op] = true
				}
				fmt.Fprintf(&out, "  %d %s %v\n", e.Index, op, r)
			}
		}
		_, digest := m.Digest()
		fmt.Fprintf(&out, "  %d digest %x\n", e.Index, digest[:8])
	}
	for _, space := range logicalSpaces() {
		rows, sum := 0, sha256.New()
		must.Do(t, state.ScanAll(m.store.DB, space, func(key, value []byte) error {
			rows++
			sum.Write(state.AppendBlob(state.AppendBlob(nil, key), value))
			return nil
		}))
		fmt.Fprintf(&out, "%s%q %d %x\n", rowsLine, space, rows, sum.Sum(nil)[:8])
	}
	return out.Bytes(), done
}
