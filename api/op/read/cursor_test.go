package read

import (
	"strconv"
	"testing"

	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/view"
)

// FuzzListQuery holds that every query is checked without a panic, that what has
// problems gets an example without, and that a cursor comes back as it went.
func FuzzListQuery(f *testing.F) {
	for _, seed := range []string{
		"kind=note&channel=%23lab&limit=7&since=2026-01-01T00:00:00+01:00", "cursor=AQ&for=x&tag=%ff", "q=a&q=b&min_index=-1",
		"action=publish&confirm=write&body=Hello&request_id=12345678", "limit=%00&since=-1&thread=" + "aaaa", "&&==&%&%4", "agent=" + "%E1%BA%9E%E1%BA%9E",
		"channel=a1,b2,,&agent=x1&agent=y2&tag=a&tag=b,c&kind=note,guide,none", "q=a+-b+%22c+d%22&mode=any&since=-1h&unanswered=1&brief=1&format=atom",
		"channel=a1,b2,c3,d4,e5,f6,g7,h8&tag=a&tag=b&tag=c&tag=d&tag=e&tag=f&tag=g&tag=h&agent=aa", "channel=,",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, query string) {
		pairs, err := wire.ParsePairs(query)
		if err != nil {
			return
		}
		doc, twice := wire.FoldPairs(pairs)
		l := New((&op.Call{}), &doc, EntryListParams, pairs, twice)
		l.ReadEntries()
		l.ReadPage()
		l.readFormat()
		l.readBrief()
		if !l.Problems.Any() {
			checkCursor(t, l, 12345)
			return
		}
		var example []wire.Pair
		for _, m := range l.Repair() {
			switch value := m.Value.(type) {
			case string:
				example = append(example, wire.Pair{Name: m.Name, Value: value})
			case int:
				example = append(example, wire.Pair{Name: m.Name, Value: strconv.Itoa(value)})
			case []string:
				for _, one := range value {
					example = append(example, wire.Pair{Name: m.Name, Value: one})
				}
			default:
				t.Fatalf("example %v", m)
			}
		}
		doc, twice = wire.FoldPairs(example)
		again := New((&op.Call{}), &doc, EntryListParams, example, twice)
		again.ReadEntries()
		again.ReadPage()
		if again.Problems.Any() {
			t.Errorf("the example %v has problems %v", example, again.Problems.List)
		}
	})
}

// FuzzCursor holds that only what cursor made is taken for a cursor.
func FuzzCursor(f *testing.F) {
	l := &Params{Query: view.Query{Since: -1, Channel: "lab"}}
	f.Add(l.NextCursor(1))
	f.Add(l.NextCursor(1 << 63))
	f.Add("")
	f.Add("AQAAAAAAAAAAAQ")
	f.Fuzz(func(t *testing.T, s string) {
		before, ok := l.parseCursor(s)
		if ok && l.NextCursor(before) != s {
			t.Errorf("%q was taken for the cursor of %d", s, before)
		}
		if other := (&Params{Query: view.Query{Since: -1, Channel: "hall"}}); ok {
			if _, also := other.parseCursor(s); also {
				t.Errorf("%q fits two lists", s)
			}
		}
	})
}

func checkCursor(t *testing.T, l *Params, before uint64) {
	t.Helper()
	if got, ok := l.parseCursor(l.NextCursor(before)); !ok || got != before {
		t.Errorf("cursor of %d came back as %d, %v", before, got, ok)
	}
}

// TestCursorIsBound holds that every filter is part of a cursor.
func TestCursorIsBound(t *testing.T) {
	base := Params{Query: view.Query{Since: -1}}
	cursor := base.NextCursor(7)
	for name, change := range map[string]func(*Params){
		"kind":     func(l *Params) { l.Query.Kind = "knowledge" },
		"channel":  func(l *Params) { l.Query.Channel = "lab" },
		"agent":    func(l *Params) { l.Query.AgentKey = "lab" },
		"for":      func(l *Params) { l.Query.ForKey = "lab" },
		"tag":      func(l *Params) { l.Query.TagKey = "lab" },
		"thread":   func(l *Params) { l.Thread = "e1" },
		"reply_to": func(l *Params) { l.ReplyTo = "e1" },
		"q":        func(l *Params) { l.Query.Q = "lab" },
		"since":    func(l *Params) { l.Query.Since = 0 },
		"ago":      func(l *Params) { l.Query.Since = -60_000 },
		"waiting":  func(l *Params) { l.Query.Unanswered = true },
	} {
		changed := base
		change(&changed)
		if _, ok := changed.parseCursor(cursor); ok {
			t.Errorf("the cursor does not know %s", name)
		}
		checkCursor(t, &changed, 1<<40)
	}
	limited := base
	limited.Query.Limit = 3
	if _, ok := limited.parseCursor(cursor); !ok {
		t.Error("the cursor is bound to the limit")
	}
}

// TestParseSince holds the rule for since (interface, 4.1).
func TestParseSince(t *testing.T) {
	const day = 1767225600000 // 2026-01-01T00:00:00Z
	for in, want := range map[string]int64{
		"0": 0, "1767225600000": day, "007": 7,
		"2026-01-01": day, "2026-01-01T00:00": day, "2026-01-01T00:00:00": day, "2026-01-01 00:00:00": day,
		"2026-01-01T00:00:00Z": day, "2026-01-01t00:00:00z": day, "2026-01-01T00:00Z": day,
		"2026-01-01T01:00:00+01:00": day, "2026-01-01T01:00:00 01:00": day, "2026-01-01T01:00:00+0100": day, "2026-01-01T01:00+01": day,
		"2025-12-31T19:00:00-05:00": day, "2026-01-01T00:00:00.5Z": day + 500, "2026-01-01T00:00:00.0009Z": day, "2026-01-01T00:00:00,25": day + 250,
		"2024-02-29": 1709164800000, "1969-12-31": 0,
	} {
		if got, ok := parseSince(in); !ok || got != want {
			t.Errorf("%s: %d %v, want %d", in, got, ok, want)
		}
	}
	for _, in := range []string{
		"-1", "1.5", "yesterday", "2026-02-30", "2026-13-01", "2026-1-1", "20260101T000000", "2026-01-01T25:00:00", "2026-01-01T", "99999999999999999999", "2026-01-01T00:00:00+1:00", "٣",
	} {
		if got, ok := parseSince(in); ok {
			t.Errorf("%s: %d", in, got)
		}
	}
}
