package propose

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/commons-cluster/commons/internal/must"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/check"
)

func TestReplyRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 50).Draw(t, "commands")
		want := result{
			Status: status(rapid.IntRange(1, 5).Draw(t, "status")),
			Index:  rapid.Uint64().Draw(t, "index"),
			Reason: rapid.StringN(0, 50, maxReasonBytes).Draw(t, "reason"),

			Charged: rapid.Bool().Draw(t, "charged"),
		}
		for i := range n {
			if rapid.Bool().Draw(t, "rejected") {
				want.Rejected = append(want.Rejected, rejection{Position: i, RetryAfter: time.Duration(rapid.Int64Range(0, int64(maxRetryAfter)).Draw(t, "after"))})
			}
		}
		got := must.Get(decodeReply(bytes.NewReader(encodeReply(want)), n))(t)
		check.Diff(t, got, want, "result")
	})
}

// TestLongestReply holds that the answer to the largest group can be read if every command
// in it is rejected.
func TestLongestReply(t *testing.T) {
	smallest := must.Get(command.Encode(&command.CloseJob{JobAction: command.JobAction{Author: command.Author{Agent: "xx", AgentKey: "x"}, Job: "j1"}}))(t)
	r := result{Status: statusUnknown, Index: 1 << 63, Reason: strings.Repeat("\x00", maxReasonBytes)}
	n := min(command.MaxGroupCommands, maxGroupBytes/len(smallest))
	for i := range n {
		r.Rejected = append(r.Rejected, rejection{Position: i, RetryAfter: maxRetryAfter})
	}
	check.Err(t, check.Last(decodeReply(bytes.NewReader(encodeReply(r)), n)), nil, "decode")
}

// TestCallsAreReadable holds that the leader and every state machine can read each command
// that newCall accepts, and that its encoding is no larger than call.size.
func TestCallsAreReadable(t *testing.T) {
	p := New(Config{ServerID: "a", Clock: WallClock(0), Logger: slog.New(slog.DiscardHandler)})
	defer p.Close()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }))
		g := command.Group{Boot: command.BootID{1}, Floor: rapid.Uint64Min(1<<40).Draw(t, "floor")}
		for range rapid.IntRange(0, command.MaxOpen).Draw(t, "open") {
			g.Open = append(g.Open, g.Floor-command.MaxOpen+uint64(len(g.Open)))
		}
		for range 4 {
			payload := entryOf(text.Draw(t, "body"))
			if rapid.Bool().Draw(t, "more") {
				payload.Title, payload.Tags, payload.Mentions = text.Draw(t, "title"), []string{text.Draw(t, "tag")}, []string{text.Draw(t, "mention")}
				payload.Request = command.RequestKey{Scope: text.Draw(t, "scope"), ID: text.Draw(t, "id")}
			}
			c, err := p.newCall(sender, payload)
			if err != nil {
				continue
			}
			c.Seq = rapid.Uint64().Draw(t, "seq")
			g.Commands = append(g.Commands, c.Command)
		}
		forward := must.Get(command.EncodeGroup(g))(t)
		at := must.Get(command.DecodeGroup(forward))(t)
		if diff := cmp.Diff(g.Commands, at.Commands); diff != "" && len(g.Commands) > 0 {
			t.Error(diff)
		}
		data := must.Get(command.EncodeBatch(command.Batch{Stamp: 1, Groups: []command.Group{at}}))(t)
		check.Err(t, check.Last(command.DecodeBatch(data)), nil, "decode")
		const around = 16 // the frame, the stamp and the number of groups
		if len(data) > g.Size()+around {
			t.Errorf("%d bytes, announced were %d", len(data), g.Size())
		}
	})
}

func TestRepliesAreChecked(t *testing.T) {
	good := `{"status":1,"index":300,"rejected":[{"position":1,"retryAfter":5}]}`
	for _, data := range []string{good, `{"status":1,"ofANewerLeader":{"more":1}}`} {
		must.Get(decodeReply(strings.NewReader(data), 2))(t)
	}
	for name, data := range map[string]string{
		"empty":                   ``,
		"cut":                     good[:len(good)-1],
		"no status":               `{}`,
		"status 0":                `{"status":0}`,
		"status 6":                `{"status":6}`,
		"a negative number":       `{"status":1,"index":-1}`,
		"more rejected than sent": `{"status":1,"rejected":[{"position":0},{"position":1},{"position":2}]}`,
		"position out of range":   `{"status":1,"rejected":[{"position":2}]}`,
		"negative position":       `{"status":1,"rejected":[{"position":-1}]}`,
		"positions out of order":  `{"status":1,"rejected":[{"position":1},{"position":0}]}`,
		"a wait without an end":   `{"status":1,"rejected":[{"position":0,"retryAfter":9000000000000000000}]}`,
		"a wait that is over":     `{"status":1,"rejected":[{"position":0,"retryAfter":-1}]}`,
		"something follows":       good + `{}`,
	} {
		check.Fails(decodeReply(strings.NewReader(data), 2))(t, "%s: decode", name)
	}
}

func FuzzDecodeReply(f *testing.F) {
	for _, r := range []result{
		{Status: statusApplied, Index: 1 << 40},
		{Status: statusUnknown, Charged: true, Reason: "disk says no"},
		{Status: statusApplied, Rejected: []rejection{{0, time.Second, false}, {3, 0, true}}},
	} {
		f.Add(encodeReply(r), uint16(4))
	}
	f.Add([]byte(`{"status":1,"rejected":[]}`), uint16(4)) // no node sends an empty list
	f.Fuzz(func(t *testing.T, data []byte, n uint16) {
		r, err := decodeReply(bytes.NewReader(data), int(n))
		if err != nil {
			return
		}
		again, err := decodeReply(bytes.NewReader(encodeReply(r)), int(n))
		if diff := cmp.Diff(r, again, cmp.AllowUnexported(result{}), cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Fatalf("%v: %s", err, diff)
		}
	})
}
