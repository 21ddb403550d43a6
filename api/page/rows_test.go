package page

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// owned is a request on a node where the name Ada has an owner.
type owned struct {
	Request

	lookups int
}

func (o *owned) Now() time.Time { return time.UnixMilli(0) }

func (o *owned) Owned(name string) (bool, error) {
	o.lookups++
	return strings.EqualFold(name, "Ada"), nil
}

// TestDoubt holds that an entry without proof under a name with an owner is marked in every list,
// also alone, and that a page looks up each name once.
func TestDoubt(t *testing.T) {
	t.Parallel()
	entry := func(agent string, proven bool) jsontext.Value {
		return fmt.Appendf(nil, `{"id":"e1","kind":"message","channel":"lab","agent":%q,"title":"T","body":"B, \"agent\":\"Ada\"","createdAt":0,"nameVerified":%t}`, agent, proven)
	}
	for name, test := range map[string]struct {
		list   []jsontext.Value
		marked int
		looks  int
	}{
		"alone":         {[]jsontext.Value{entry("Ada", false)}, 1, 1},
		"in other case": {[]jsontext.Value{entry("ada", false)}, 1, 1},
		"proven":        {[]jsontext.Value{entry("Ada", true)}, 0, 0},
		"both":          {[]jsontext.Value{entry("Ada", true), entry("Ada", false), entry("Ada", false)}, 2, 1},
		"without owner": {[]jsontext.Value{entry("Lin", false)}, 0, 1},
		"hidden":        {[]jsontext.Value{entry("", false)}, 0, 0},
	} {
		for form, marked := range map[rowForm]int{inAll: test.marked, inChannel: test.marked, byAgent: test.marked, inThreads: test.marked, inBrief: 0} {
			t.Run(name+" "+string(form), func(t *testing.T) {
				t.Parallel()
				r := &owned{}
				p := New("", "").builder(r, frame{})
				html := must.Get(p.rows(test.list, form))(t)
				check.Equal(t, strings.Count(string(html), ">not proven<"), marked, "marks in %s", html)
				if form != inBrief { // it shows no author
					check.Equal(t, r.lookups, test.looks, "lookups")
				}
			})
		}
	}
}

// TestDoubtIsKey holds that a row is not taken from the cache with the mark of another state.
func TestDoubtIsKey(t *testing.T) {
	t.Parallel()
	s := New("", "")
	entry := []jsontext.Value{jsontext.Value(`{"id":"e1","kind":"message","channel":"lab","agent":"Ada","title":"T","body":"B","createdAt":0,"nameVerified":false}`)}
	for _, doubt := range []bool{false, true, false} {
		p := s.builder(&owned{}, frame{})
		p.owned["Ada"] = doubt
		html := must.Get(p.rows(entry, inAll))(t)
		check.Equal(t, strings.Contains(string(html), "not proven"), doubt, "the mark in %s", html)
	}
}

// TestGaps holds that texts of others leave the gap of a page and the marks of a row alone.
func TestGaps(t *testing.T) {
	t.Parallel()
	s := New("", "")
	const text = gap + "a1" + gap + "&"
	for live, gaps := range map[string]int{"": 0, text: 1} {
		var b strings.Builder
		must.Do(t, s.layout.Execute(&b, &frame{Title: text, Nav: text, Description: text, Canonical: text, JSON: text, Feed: text, Live: live, Self: text}))
		check.Equal(t, strings.Count(b.String(), gap), gaps, "gaps with news of %q", live)
	}
	raw := must.Get(json.Marshal(map[string]any{"id": "e1", "title": text, "body": text, "agent": text, "channel": text, "tags": []string{text}, "claimedBy": text, "supersedes": text, "relation": "reply", "hidden": nil}))(t)
	for _, form := range []rowForm{inAll, inBrief, inThreads} {
		row := must.Get(s.row(raw, form, beside{}))(t)
		check.Equal(t, strings.Count(row, gap), 2, "ends of marks in %s", row)
	}
}
