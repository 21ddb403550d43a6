package apply_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/fsmtest"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// TestLongestHelp holds that the longest texts make an entry within its bounds.
func TestLongestHelp(t *testing.T) {
	r := newRig(t)
	long := fsmtest.Help("ada")
	long.Goal, long.Action = strings.Repeat("世", command.MaxHelpGoal), strings.Repeat("世", command.MaxHelpAction)
	long.Context, long.Bounds = strings.Repeat("世", command.MaxHelpContext), strings.Repeat("世", command.MaxHelpBounds)
	long.Tags = strings.Split("1234567", "")
	r.Run(long)
	doc, _ := r.Read(1)
	if n := utf8.RuneCountInString(doc.Body); n > command.MaxBody {
		t.Errorf("a body of %d code points", n)
	}
	if utf8.RuneCountInString(doc.Title) > command.MaxTitle || !strings.HasSuffix(doc.Title, "世") {
		t.Errorf("title %q", doc.Title)
	}
	check.Equal(t, len(doc.Tags), command.MaxTags, "tags %q", doc.Tags)
}

// TestHelpStatus follows a request from open to closed.
func TestHelpStatus(t *testing.T) {
	rel := func(agent string, relation command.Relation) *command.Publish {
		return fsmtest.Post(agent, func(p *command.Publish) { p.Relation, p.Target = relation, "h1" })
	}
	for name, tt := range map[string]struct {
		after []command.Payload
		want  state.HelpStatus
	}{
		"new":                      {nil, state.HelpOpen},
		"reply by the author":      {[]command.Payload{rel("ada", command.RelationReply)}, state.HelpOpen},
		"correction by another":    {[]command.Payload{rel("bob", command.RelationCorrection), rel("bob", command.RelationFollowUp)}, state.HelpOpen},
		"rejected retraction":      {[]command.Payload{rel("bob", command.RelationRetraction)}, state.HelpOpen},
		"reply by another":         {[]command.Payload{rel("bob", command.RelationReply)}, state.HelpAnswered},
		"replies by both":          {[]command.Payload{rel("bob", command.RelationReply), rel("ada", command.RelationReply)}, state.HelpAnswered},
		"retraction":               {[]command.Payload{rel("ada", command.RelationRetraction)}, state.HelpClosed},
		"answered, then retracted": {[]command.Payload{rel("bob", command.RelationReply), rel("ada", command.RelationRetraction)}, state.HelpClosed},
		"retracted, then answered": {[]command.Payload{rel("ada", command.RelationRetraction), rel("bob", command.RelationReply)}, state.HelpClosed},
		"hidden answer":            {[]command.Payload{rel("bob", command.RelationReply), fsmtest.Hide("e2")}, state.HelpOpen},
		"one of two hidden":        {[]command.Payload{rel("bob", command.RelationReply), rel("eve", command.RelationReply), fsmtest.Hide("e2")}, state.HelpAnswered},
		"answer shown again":       {[]command.Payload{rel("bob", command.RelationReply), fsmtest.Hide("e2"), fsmtest.Unhide("e2")}, state.HelpAnswered},
		"hidden behind the hidden": {[]command.Payload{rel("bob", command.RelationReply), fsmtest.Hide("h1", "e2"), fsmtest.Unhide("h1")}, state.HelpOpen},
		"hidden, then purged":      {[]command.Payload{rel("bob", command.RelationReply), fsmtest.Hide("e2"), fsmtest.Purge("e2")}, state.HelpOpen},
		"retracted, answer hidden": {[]command.Payload{rel("bob", command.RelationReply), rel("ada", command.RelationRetraction), fsmtest.Hide("e2")}, state.HelpClosed},
		"reply to a reply":         {[]command.Payload{rel("ada", command.RelationReply), fsmtest.Post("bob", fsmtest.Relate(command.RelationReply, 2))}, state.HelpOpen},
	} {
		for _, once := range []bool{false, true} {
			r := newRig(t)
			bodies := append([]command.Payload{fsmtest.Help("ada")}, tt.after...)
			if once {
				r.Run(bodies...)
			}
			for i := range bodies {
				if !once {
					r.Run(bodies[i])
				}
			}
			v := r.View()
			check.Contains(t, string(must.Get(v.AppendHelp(nil, 1))(t)), `"status":"`+tt.want.String()+`"`, "%s", name)
			v.Release()
			check.Equal(t, len(r.Home("ada", 0).OwedToYou) == 1, tt.want == state.HelpOpen, "%s: ada is owed an answer", name)
		}
	}
}

func TestHelpList(t *testing.T) {
	r := newRig(t)
	other := fsmtest.Help("bob")
	other.Goal = "Water the plants"
	r.Run(fsmtest.Help("ada"), other, fsmtest.Help("ada"), fsmtest.Post("ada", func(p *command.Publish) { p.Title = "Sign this" }), fsmtest.Help("ada"),
		fsmtest.Post("eve", func(p *command.Publish) { p.Relation, p.Target = command.RelationReply, "h3" }),
		fsmtest.Post("ada", func(p *command.Publish) { p.Relation, p.Target = command.RelationRetraction, "h5" }))
	for name, tt := range map[string]struct {
		q    view.Query
		want []uint64
	}{
		"all":      {view.Query{}, []uint64{5, 3, 2, 1}},
		"by agent": {view.Query{AgentKey: "bob"}, []uint64{2}},
		"words":    {view.Query{Q: "sign"}, []uint64{5, 3, 2, 1}},
		"prefix":   {view.Query{Q: "plan"}, []uint64{2}},
		"both":     {view.Query{Q: "form", AgentKey: "ada"}, []uint64{5, 3, 1}},
		"no word":  {view.Query{Q: "!!"}, nil},
		"open":     {view.Query{HelpStatus: state.HelpOpen}, []uint64{2, 1}},
		"answered": {view.Query{HelpStatus: state.HelpAnswered, AgentKey: "ada"}, []uint64{3}},
		"closed":   {view.Query{HelpStatus: state.HelpClosed, Q: "form"}, []uint64{5}},
	} {
		for _, limit := range []int{0, 1, 2} {
			var got []uint64
			q := tt.q
			q.Limit = limit
			v := r.View()
			for {
				seqs, next, err := v.ListHelp(q)
				must.Do(t, err)
				got = append(got, seqs...)
				if q.Before = next; next == 0 {
					break
				}
			}
			v.Release()
			check.Diff(t, got, tt.want, "%s, %d a page", name, limit)
		}
	}
}

// TestHelpListStopsAtItsBound holds that a list of requests in one state looks at a
// bounded number of others, and is complete page by page.
func TestHelpListStopsAtItsBound(t *testing.T) {
	r := newRig(t)
	for seq := 0; seq < view.MaxFiltered+view.FilterStep; seq += 100 {
		bodies := make([]command.Payload, 100)
		for i := range bodies {
			bodies[i] = fsmtest.Help("ada")
		}
		r.Run(bodies...)
	}
	r.Run(fsmtest.Post("eve", func(p *command.Publish) { p.Relation, p.Target = command.RelationReply, "h1" }))
	v := r.View()
	defer v.Release()
	work := 0
	q := view.Query{HelpStatus: state.HelpAnswered, Work: &work}
	seqs, next, err := v.ListHelp(q)
	if err != nil || len(seqs) != 0 || next == 0 || work < view.MaxFiltered {
		t.Errorf("first page %v, next %d, work %d, %v", seqs, next, work, err)
	}
	q.Before = next
	if seqs, next, err = v.ListHelp(q); err != nil || len(seqs) != 1 || seqs[0] != 1 || next != 0 {
		t.Errorf("second page %v, next %d, %v", seqs, next, err)
	}
}
