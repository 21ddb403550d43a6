package resource

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/commons-cluster/commons/api/op/write"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/check"
)

// testNow is the clock of tests.
var testNow = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// checkReading holds what is true of every checked entry: without problems the
// log takes the command; with problems the example passes, and is never empty.
func checkReading(t interface {
	Helper()
	Errorf(string, ...any)
}, doc *wire.Document, rules *entryRules,
) {
	t.Helper()
	e := readEntry(doc, rules)
	if !e.Problems.Any() {
		if e.Author.Request.ID != "" {
			e.Author.Request.Scope = e.Author.AgentKey
		}
		_, err := command.EncodeBatch(command.Batch{Stamp: 1, Groups: []command.Group{{
			Boot: command.BootID{1}, Commands: []command.Command{{Seq: 1, Payload: e.Command()}},
		}}})
		if err != nil {
			t.Errorf("the log rejects what the rules let pass: %v\n%+v", err, e.publish)
		}
	}
	fields, _, err := write.ExampleOf(e, nil, testNow, true)
	if err != nil || len(fields) == 0 {
		t.Errorf("the example %v: %v", fields, err)
	}
	example, err := wire.DecodeBody("application/json", fields.AppendJSON(nil))
	check.Err(t, err, nil, "the example %v", fields)
	again := readEntry(&example, rules)
	check.Equal(t, again.Problems.Any(), false, "the example %v has problems %v", fields, again.Problems.List)
	if again.DryRun {
		return // some of it is a placeholder
	}
	if again.publish.Target != e.publish.Target || again.publish.Relation != e.publish.Relation {
		t.Errorf("the example %v relates to %s as %v, the request to %s as %v", fields, again.publish.Target, again.publish.Relation, e.publish.Target, e.publish.Relation)
	}
	if again.publish.Body != e.publish.Body || again.Author.Agent != e.Author.Agent || again.publish.Channel != e.publish.Channel || again.publish.Kind != e.publish.Kind {
		t.Errorf("the example says %+v, the request %+v", again.publish, e.publish)
	}
}

// TestRepairKeepsTheCallersInput holds, over random requests, that examples pass
// the rules and are made of the caller's own good fields.
func TestRepairKeepsTheCallersInput(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(
			rapid.Just("ada"), rapid.Just("Hello, commons."), rapid.Just("e1"), rapid.Just("reply"), rapid.Just("retraction"),
			rapid.StringN(0, 20, -1), rapid.Just("x\x00y"), rapid.Just("--"),
			rapid.Map(rapid.IntRange(0, 6000), func(n int) string { return strings.Repeat("é", n) }),
			rapid.Map(rapid.IntRange(0, 200), func(n int) string { return "a" + strings.Repeat(" ", n) + "b" }),
		)
		value := rapid.OneOf(
			rapid.Map(text, func(s string) any { return s }),
			rapid.Just[any](nil), rapid.Just[any](true),
			rapid.Map(rapid.SliceOfN(text, 0, 10), func(list []string) any {
				out := make([]any, len(list))
				for i, s := range list {
					out[i] = s
				}
				return out
			}),
		)
		var fields []wire.Field
		for _, name := range []string{"body", "content", "kind", "agent", "channel", "title", "request_id", "tags", "supersedes", "reply_to", "relation", "odd"} {
			if rapid.Bool().Draw(t, "has "+name) {
				fields = append(fields, wire.Field{name, value.Draw(t, name)})
			}
		}
		checkReading(t, &wire.Document{Fields: slices.Clone(fields)}, &postRules)
		checkReading(t, &wire.Document{Fields: slices.Clone(fields)}, &queryRules)
	})
}

// entryOf reads a NewEntry of the given fields.
func entryOf(rules *entryRules, fields ...wire.Field) *entryForm {
	return readEntry(&wire.Document{Fields: fields}, rules)
}

// TestNewEntryFields is interface 2.2 and 8, field by field: what is accepted and
// what becomes of it, and which field a rejection names.
func TestNewEntryFields(t *testing.T) {
	long := func(n int) string { return strings.Repeat("é", n) }
	body := wire.Field{"body", "Hello, commons."}
	for name, test := range map[string]struct {
		fields []wire.Field
		get    func(*command.Publish) any
		want   any
		bad    []string // the fields with problems
	}{
		"body of 4":             {[]wire.Field{{"body", "éééé"}}, getBody, "éééé", nil},
		"body of 5000":          {[]wire.Field{{"body", long(5000)}}, getBody, long(5000), nil},
		"body of 3":             {[]wire.Field{{"body", "ééé"}}, nil, nil, []string{"body"}},
		"body of 5001":          {[]wire.Field{{"body", long(5001)}}, nil, nil, []string{"body"}},
		"body missing":          {nil, nil, nil, []string{"body"}},
		"body null":             {[]wire.Field{{"body", nil}}, nil, nil, []string{"body"}},
		"body a number":         {[]wire.Field{{"body", 12345}}, nil, nil, []string{"body"}},
		"body trimmed":          {[]wire.Field{{"body", " \n four \t"}}, getBody, "four", nil},
		"body short trimmed":    {[]wire.Field{{"body", " abc "}}, nil, nil, []string{"body"}},
		"body CRLF":             {[]wire.Field{{"body", "one\r\ntwo"}}, getBody, "one\ntwo", nil},
		"body tab":              {[]wire.Field{{"body", "one\ttwo"}}, getBody, "one\ttwo", nil},
		"body lone CR":          {[]wire.Field{{"body", "one\rtwo"}}, nil, nil, []string{"body"}},
		"body NUL":              {[]wire.Field{{"body", "one\x00two"}}, nil, nil, []string{"body"}},
		"body escape":           {[]wire.Field{{"body", "one\x1btwo"}}, nil, nil, []string{"body"}},
		"body NFC":              {[]wire.Field{{"body", "cafe\u0301"}}, getBody, "café", nil},
		"body counted NFC":      {[]wire.Field{{"body", "e\u0301e\u0301e\u0301"}}, nil, nil, []string{"body"}},
		"body keeps HTML":       {[]wire.Field{{"body", "<b>&amp;</b>"}}, getBody, "<b>&amp;</b>", nil},
		"body synonym":          {[]wire.Field{{"description", "Hello"}}, getBody, "Hello", nil},
		"body before synonym":   {[]wire.Field{{"content", "other"}, {"body", "mine!"}}, getBody, "mine!", nil},
		"synonyms in order":     {[]wire.Field{{"message", "third"}, {"text", "second"}, {"content", "first"}}, getBody, "first", nil},
		"null, then synonym":    {[]wire.Field{{"body", nil}, {"text", "Hello"}}, getBody, "Hello", nil},
		"synonym of wrong type": {[]wire.Field{{"text", false}}, nil, nil, []string{"body"}},

		"kind default":         {[]wire.Field{body}, getKind, command.KindMessage, nil},
		"kind":                 {[]wire.Field{body, {"kind", "feature_request"}}, getKind, command.KindFeatureRequest, nil},
		"kind alias finding":   {[]wire.Field{body, {"type", "finding"}}, getKind, command.KindKnowledge, nil},
		"kind alias idea":      {[]wire.Field{body, {"kind", "idea"}}, getKind, command.KindFeatureRequest, nil},
		"kind alias msg":       {[]wire.Field{body, {"kind", "msg"}}, getKind, command.KindMessage, nil},
		"kind unknown":         {[]wire.Field{body, {"kind", "poem"}}, nil, nil, []string{"kind"}},
		"kind empty":           {[]wire.Field{body, {"kind", ""}}, nil, nil, []string{"kind"}},
		"agent default":        {[]wire.Field{body}, getAgent, "anonymous", nil},
		"agent":                {[]wire.Field{body, {"agent", "Ada.L_1-x"}}, getAgent, "Ada.L_1-x", nil},
		"agent folded":         {[]wire.Field{body, {"agent", "ADA"}}, getAgentKey, "ada", nil},
		"agent converted":      {[]wire.Field{body, {"sender", "@Ada  Lovelace!"}}, getAgent, "Ada-Lovelace", nil},
		"agent of any script":  {[]wire.Field{body, {"agent_id", "Ада"}}, getAgent, "Ада", nil},
		"agent of 2":           {[]wire.Field{body, {"author", "ab"}}, getAgent, "ab", nil},
		"agent of 64":          {[]wire.Field{body, {"from", long(64)}}, getAgent, long(64), nil},
		"agent of 1":           {[]wire.Field{body, {"agent", "a"}}, nil, nil, []string{"agent"}},
		"agent of 65":          {[]wire.Field{body, {"agent", long(65)}}, nil, nil, []string{"agent"}},
		"agent of dashes":      {[]wire.Field{body, {"agent", "!!!"}}, nil, nil, []string{"agent"}},
		"channel default":      {[]wire.Field{body}, getChannel, "", nil},
		"channel lower-cased":  {[]wire.Field{body, {"channel", "#General Talk"}}, getChannel, "general-talk", nil},
		"channel of 40":        {[]wire.Field{body, {"channel", long(40)}}, getChannel, long(40), nil},
		"channel of 41":        {[]wire.Field{body, {"channel", long(41)}}, nil, nil, []string{"channel"}},
		"channel of 1":         {[]wire.Field{body, {"channel", "c"}}, nil, nil, []string{"channel"}},
		"title":                {[]wire.Field{body, {"subject", " A title "}}, getTitle, "A title", nil},
		"title of 180":         {[]wire.Field{body, {"headline", long(180)}}, getTitle, long(180), nil},
		"title shortened":      {[]wire.Field{body, {"title", long(181)}}, getTitle, long(180), nil},
		"title of white space": {[]wire.Field{body, {"title", "a" + strings.Repeat(" ", 200) + "b"}}, getTitle, "message: a b", nil},
		"title of 3":           {[]wire.Field{body, {"summary", "abc"}}, nil, nil, []string{"title"}},
		"title empty":          {[]wire.Field{body, {"title", ""}}, nil, nil, []string{"title"}},
		"title with NUL":       {[]wire.Field{body, {"name", "abc\x00def"}}, nil, nil, []string{"title"}},
		"title derived":        {[]wire.Field{{"body", "First \t line\nSecond line"}}, getTitle, "First line", nil},
		"title derived, cut":   {[]wire.Field{{"body", long(300)}}, getTitle, long(180), nil},
		"title derived, short": {[]wire.Field{{"body", "ok\nand more"}, {"kind", "tip"}}, getTitle, "knowledge: ok", nil},

		"request_id of 8":      {[]wire.Field{body, {"request_id", "12345678"}}, getRequest, "12345678", nil},
		"request_id of 80":     {[]wire.Field{body, {"request_id", long(80)}}, getRequest, long(80), nil},
		"request_id of 7":      {[]wire.Field{body, {"request_id", "1234567"}}, nil, nil, []string{"request_id"}},
		"request_id of 81":     {[]wire.Field{body, {"request_id", long(81)}}, nil, nil, []string{"request_id"}},
		"request_id a number":  {[]wire.Field{body, {"request_id", 12345678}}, nil, nil, []string{"request_id"}},
		"tags":                 {[]wire.Field{body, {"labels", []any{"a", " B "}}}, getTags, []string{"a", "B"}, nil},
		"tags none":            {[]wire.Field{body, {"tags", []any{}}}, getTags, []string(nil), nil},
		"tags repeated":        {[]wire.Field{body, {"tags", []any{"a", "A", "a"}}}, getTags, []string{"a", "A"}, nil},
		"tags 8":               {[]wire.Field{body, {"tags", []any{"1", "2", "3", "4", "5", "6", "7", "8"}}}, getTags, strings.Split("12345678", ""), nil},
		"tags 9":               {[]wire.Field{body, {"tags", []any{"1", "2", "3", "4", "5", "6", "7", "8", "9"}}}, nil, nil, []string{"tags"}},
		"tags 9 times the one": {[]wire.Field{body, {"tags", []any{"1", "1", "1", "1", "1", "1", "1", "1", "1"}}}, nil, nil, []string{"tags"}},
		"tag of 40":            {[]wire.Field{body, {"tags", []any{long(40)}}}, getTags, []string{long(40)}, nil},
		"tag of 41":            {[]wire.Field{body, {"tags", []any{long(41)}}}, nil, nil, []string{"tags"}},
		"tag empty":            {[]wire.Field{body, {"tags", []any{" "}}}, nil, nil, []string{"tags"}},
		"tag a number":         {[]wire.Field{body, {"tags", []any{"a", 1}}}, nil, nil, []string{"tags"}},
		"tags a string":        {[]wire.Field{body, {"tags", "a, b"}}, getTags, []string{"a", "b"}, nil},
		"tags with commas":     {[]wire.Field{body, {"tags", []any{"a, b", "c"}}}, getTags, []string{"a, b", "c"}, nil},
		"tag with its #":       {[]wire.Field{body, {"tags", []any{"#Sea"}}}, getTags, []string{"sea"}, nil},
		"tags with many #":     {[]wire.Field{body, {"tags", []any{"##Sea"}}}, getTags, []string{"sea"}, nil},
		"tag of # alone":       {[]wire.Field{body, {"tags", []any{"##"}}}, nil, nil, []string{"tags"}},
		"tag with NUL":         {[]wire.Field{body, {"tags", []any{"a\x00"}}}, nil, nil, []string{"tags"}},

		"supersedes":                    {[]wire.Field{body, {"supersedes", " e1 "}}, getTarget, "e1 correction", nil},
		"supersedes and relation":       {[]wire.Field{body, {"supersedes", "e1"}, {"relation", "follow_up"}}, getTarget, "e1 follow_up", nil},
		"reply_to":                      {[]wire.Field{body, {"reply_to", "e1"}}, getTarget, "e1 reply", nil},
		"reply_to and reply":            {[]wire.Field{body, {"reply_to", "e1"}, {"relation", "reply"}}, getTarget, "e1 reply", nil},
		"reply_to and the same":         {[]wire.Field{body, {"reply_to", "e1"}, {"supersedes", "e1"}}, getTarget, "e1 reply", nil},
		"reply_to and another":          {[]wire.Field{body, {"reply_to", "e1"}, {"supersedes", "e2"}}, nil, nil, []string{"reply_to"}},
		"reply_to and other relation":   {[]wire.Field{body, {"reply_to", "e1"}, {"relation", "correction"}}, nil, nil, []string{"relation"}},
		"relation alone":                {[]wire.Field{body, {"relation", "reply"}}, nil, nil, []string{"relation"}},
		"relation unknown":              {[]wire.Field{body, {"supersedes", "e1"}, {"relation", "reaction"}}, nil, nil, []string{"relation"}},
		"relation unknown, alone":       {[]wire.Field{body, {"relation", "reaction"}}, nil, nil, []string{"relation"}},
		"relation null":                 {[]wire.Field{body, {"supersedes", "e1"}, {"relation", nil}}, getTarget, "e1 correction", nil},
		"supersedes of 120":             {[]wire.Field{body, {"supersedes", long(120)}}, getTarget, long(120) + " correction", nil},
		"supersedes of 121":             {[]wire.Field{body, {"supersedes", long(121)}}, nil, nil, []string{"supersedes"}},
		"reply_to of 121":               {[]wire.Field{body, {"reply_to", long(121)}}, nil, nil, []string{"reply_to"}},
		"supersedes empty":              {[]wire.Field{body, {"supersedes", ""}}, nil, nil, []string{"supersedes"}},
		"supersedes a number":           {[]wire.Field{body, {"supersedes", 7}}, nil, nil, []string{"supersedes"}},
		"everything wrong, all at once": {[]wire.Field{{"body", "x"}, {"kind", "x"}, {"agent", "x"}, {"channel", "x"}, {"title", "x"}, {"request_id", "x"}, {"tags", 1}, {"relation", "x"}}, nil, nil, []string{"body", "kind", "agent", "channel", "title", "request_id", "tags", "relation"}},
		"mentions in a cut title":       {[]wire.Field{{"body", "Four"}, {"title", "For @bob " + strings.Repeat("x", 166) + " @adam"}}, func(p *command.Publish) any { return p.Mentions }, []string{"bob"}, nil},
		"mentions in a derived title":   {[]wire.Field{{"body", strings.Repeat("x", 175) + " @adam"}}, func(p *command.Publish) any { return p.Mentions }, []string{"adam"}, nil},
		"code in a derived title":       {[]wire.Field{{"body", "Use `@ada\nbar` now"}}, func(p *command.Publish) any { return len(p.Mentions) }, 0, nil},
		"mentions":                      {[]wire.Field{{"body", "Dear @Bob and @ADA"}, {"title", "For @Çelik"}, {"agent", "ada"}}, func(p *command.Publish) any { return p.Mentions }, []string{"çelik", "bob"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			e := entryOf(&postRules, test.fields...)
			var bad []string
			for _, issue := range e.Problems.List {
				bad = append(bad, issue.Field)
			}
			check.Diff(t, bad, test.bad, "problems")
			if test.get != nil {
				check.Diff(t, test.get(e.Command().(*command.Publish)), test.want, "field")
			}
		})
	}
}

func getBody(p *command.Publish) any     { return p.Body }
func getKind(p *command.Publish) any     { return p.Kind }
func getAgent(p *command.Publish) any    { return p.Agent }
func getAgentKey(p *command.Publish) any { return p.AgentKey }
func getChannel(p *command.Publish) any  { return p.Channel }
func getTitle(p *command.Publish) any    { return p.Title }
func getRequest(p *command.Publish) any  { return p.Request.ID }
func getTags(p *command.Publish) any     { return p.Tags }
func getTarget(p *command.Publish) any   { return p.Target + " " + p.Relation.String() }

// TestGetWriteRules tests the other rules of interface 4.1: a shorter body and a
// request_id that is required and safe in a URL.
func TestGetWriteRules(t *testing.T) {
	id := wire.Field{"request_id", "a.b_c-d:1"}
	for name, test := range map[string]struct {
		fields []wire.Field
		bad    string
	}{
		"body of 1500":      {[]wire.Field{id, {"body", strings.Repeat("é", 1500)}}, ""},
		"body of 1501":      {[]wire.Field{id, {"body", strings.Repeat("é", 1501)}}, "body"},
		"without":           {[]wire.Field{{"body", "Hello"}}, "request_id"},
		"with a space":      {[]wire.Field{{"body", "Hello"}, {"request_id", "with a space"}}, "request_id"},
		"with an umlaut":    {[]wire.Field{{"body", "Hello"}, {"request_id", "grüezi-1234"}}, "request_id"},
		"control unnoticed": {[]wire.Field{id, {"body", "Hello"}, {"action", "publish"}, {"confirm", "write"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := entryOf(&queryRules, test.fields...)
			if test.bad == "" && e.Problems.Any() || test.bad != "" && (len(e.Problems.List) != 1 || !e.Problems.Has(test.bad)) {
				t.Errorf("problems %v, want one of %q", e.Problems.List, test.bad)
			}
			check.Empty(t, e.Notes, "notes")
		})
	}
}

func TestNotes(t *testing.T) {
	body := wire.Field{"body", "Hello, commons."}
	for name, test := range map[string]struct {
		fields []wire.Field
		want   []string
	}{
		"none":            {[]wire.Field{body, {"agent", "ada"}}, nil},
		"agent changed":   {[]wire.Field{body, {"agent", "Ada L"}}, []string{"The agent name was changed to Ada-L."}},
		"channel changed": {[]wire.Field{body, {"channel", "Jobs"}}, []string{"The channel name was changed to jobs."}},
		"title shortened": {[]wire.Field{body, {"title", strings.Repeat("x", 181)}}, []string{"The title was shortened to 180 characters."}},
		"unknown fields":  {[]wire.Field{body, {"foo", 1}, {"bar", "x"}}, []string{"Unknown fields were ignored: foo, bar."}},
		"near fields":     {[]wire.Field{body, {"chanel", "den"}, {"replyingTo", "nobody"}}, []string{"Unknown fields were ignored: chanel (did you mean channel?), replyingTo (did you mean reply_to?)."}},
		"unknown nulls":   {[]wire.Field{body, {"foo", nil}}, []string{"Unknown fields were ignored: foo."}},
		"unknown long":    {[]wire.Field{body, {strings.Repeat("x", 50), 1}}, []string{"Unknown fields were ignored: " + strings.Repeat("x", 39) + "…."}},
		"many unknown": {
			[]wire.Field{body, {"a", 1}, {"b", 1}, {"c", 1}, {"d", 1}, {"e", 1}, {"f", 1}, {"g", 1}, {"h", 1}, {"i", 1}, {"j", 1}, {"k", 1}, {"l", 1}},
			[]string{"Unknown fields were ignored: a, b, c, d, e, f, g, h, i, j and 2 more."},
		},
	} {
		t.Run(name, func(t *testing.T) {
			check.Diff(t, entryOf(&postRules, test.fields...).Notes, test.want, "notes")
		})
	}
}
