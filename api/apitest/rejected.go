package apitest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/internal/must"
)

// entriesIn is how many entries there are.
func entriesIn(s *Server) (n uint64) {
	v := s.Backend.View()
	defer v.Release()
	for _, c := range v.Channels() {
		n += c.Entries
	}
	return n
}

// Rejected sends an invalid request, and checks that it does not write, and that its example is the
// corrected request: it works when it is sent back as it is, writes once at most, and a note names
// its placeholders.
func Rejected(t *testing.T, s *Server, status int, method, target, body string, headers ...string) Problem {
	t.Helper()
	if method == http.MethodPost && len(headers) == 0 {
		headers = []string{"Content-Type", JSONType}
	}
	before := entriesIn(s)
	r := s.Do(method, target, body, headers...)
	if r.Status != status {
		t.Errorf("%s %s %.80s: %d %s, want %d", method, target, body, r.Status, r.Body, status)
		return Problem{}
	}
	p := CheckError(t, r)
	Equal(t, "entries after "+method+" "+target+" "+wire.Head(body, 80), entriesIn(s), before)
	path, query, _ := strings.Cut(target, "?")
	if string(p.Example) == "{}" {
		if strings.Contains(p.Error, "example") || exampleNeeded[status] {
			t.Errorf("%s %s %.80s: %s, and there is no example", method, target, body, p.Error)
		}
		return p
	}
	index := s.Backend.Machine.Applied()
	var again *Response
	if method == http.MethodGet {
		again = s.Get(path + "?" + ExampleQuery(t, p.Example))
		values := must.Get(url.ParseQuery(query))(t)
		checkOwn(t, s, values, p, values.Get("action") == "publish")
	} else {
		var sent any
		if json.Unmarshal([]byte(body), &sent) == nil {
			checkOwn(t, s, sent, p, true)
		}
		again = s.Do(method, path, string(p.Example), "Content-Type", JSONType)
	}
	if !Worked(path, again) {
		t.Errorf("%s %s %.80s: the example %s gives %d %s", method, target, body, p.Example, again.Status, again.Body)
	}
	if now := s.Backend.Machine.Applied(); now > index+1 || entriesIn(s) > before+1 {
		t.Errorf("%s %s %.80s: the example %s wrote %d times", method, target, body, p.Example, now-index)
	}
	return p
}

// exampleNeeded are the statuses of errors that always have an example.
var exampleNeeded = map[int]bool{
	http.StatusUnprocessableEntity: true, http.StatusPreconditionRequired: true, http.StatusTooManyRequests: true,
}

// toReplace finds the names of the fields that a note tells to replace.
var toReplace = regexp.MustCompile(`(?:replace|Replace) (\S+(?:(?:, | and )\S+)*?)(?:, then| in the example)`)

// FieldsToReplace returns the fields that the notes of a rejection tell to replace.
func FieldsToReplace(notes []string) (fields []string) {
	for _, found := range toReplace.FindAllStringSubmatch(strings.Join(notes, "\n"), -1) {
		fields = append(fields, strings.Fields(strings.NewReplacer(",", " ", " and ", " ").Replace(found[1]))...)
	}
	return fields
}

// WordsOf collects the letters and digits of every text and number in a value.
func WordsOf(value any) string {
	var b strings.Builder
	switch v := value.(type) {
	case map[string]any:
		for _, value := range v {
			b.WriteString(" " + WordsOf(value))
		}
	case url.Values:
		for _, values := range v {
			b.WriteString(" " + strings.Join(values, " "))
		}
	case []any:
		for _, value := range v {
			b.WriteString(" " + WordsOf(value))
		}
	default:
		fmt.Fprint(&b, v)
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || r == ' ' {
			return unicode.ToLower(r)
		}
		return -1
	}, b.String())
}

// ofOurOwn are the fields whose values an example may make: keys, what names an action,
// and numbers within their bounds. A job may be the only one that the caller has claimed.
var ofOurOwn = []string{"request_id", "action", "confirm", "relation", "kind", "job_id", "limit", "days", "min_index", "dry_run"}

// checkOwn holds that an example has the caller's words only, except in fields that a note
// names; and that a write loses no reference and no action. A profile that is
// known is its own example. An example with a placeholder is a dry run.
func checkOwn(t *testing.T, s *Server, sent any, p Problem, writes bool) {
	t.Helper()
	var fields map[string]any
	must.Do(t, json.Unmarshal(p.Example, &fields))
	if id, isProfile := fields["id"].(string); isProfile && s.Get("/api/agents/"+id).Status == http.StatusOK {
		return
	}
	all, open := WordsOf(sent), FieldsToReplace(p.Notes)
	if dry := fields["dry_run"] == true; len(open) > 0 && writes && !dry {
		t.Errorf("the example %.300s holds placeholders for %v, and is no dry run", p.Example, open)
	}
	for name, value := range fields {
		for word := range strings.FieldsSeq(WordsOf(value)) {
			if !slices.Contains(ofOurOwn, name) && !slices.Contains(open, name) && !strings.Contains(all, word) {
				t.Errorf("the example %.300s says %q of its own, as %s: %v", p.Example, word, name, p.Notes)
			}
		}
	}
	if slices.ContainsFunc(p.Notes, func(note string) bool { return strings.HasPrefix(note, "The example is another request") }) {
		return
	}
	names := map[string]any{}
	switch sent := sent.(type) {
	case map[string]any:
		names = sent
	case url.Values:
		for name := range sent {
			names[name] = sent.Get(name)
		}
	}
	for _, reference := range []string{"supersedes", "reply_to", "job_id", "relation", "action"} {
		if _, kept := fields[reference]; names[reference] != nil && !kept && writes && len(open) == 0 {
			t.Errorf("%v: the example %.300s has lost %s", sent, p.Example, reference)
		}
	}
}

// SeenPath needs a key, which no example holds.
const SeenPath = "/api/home/seen"

// NeedsKey reports whether an example leaves the place of a key open.
func NeedsKey(path string) bool { return path == SeenPath }

// Worked reports whether a request worked, or would with a key.
func Worked(path string, r *Response) bool {
	return r.Status == http.StatusOK || r.Status == http.StatusCreated ||
		NeedsKey(path) && r.Status == http.StatusForbidden && strings.Contains(string(r.Body), `"code":"proof_required"`)
}

// RejectedPost is rejected for a body whose fields break rules.
func RejectedPost(t *testing.T, s *Server, path string, fields any) Problem {
	t.Helper()
	return Rejected(t, s, http.StatusUnprocessableEntity, http.MethodPost, path, JSON(t, fields))
}

// ExampleQuery is an example as the query of a GET.
func ExampleQuery(t *testing.T, example json.RawMessage) string {
	t.Helper()
	var params map[string]any
	must.Do(t, json.Unmarshal(example, &params))
	return valuesOf(params).Encode()
}
