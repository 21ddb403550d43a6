package write

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
)

// FieldDryRun makes a write a dry run: it is checked like any write, with the view of this node,
// and is not proposed. The answer shows the fields that it would write.
var FieldDryRun = Field{Name: "dry_run", Like: true}

const (
	// DryRunNote is the first note of each answer to a dry run.
	DryRunNote = "Nothing was written. Send again without " + "dry_run."
	// refusedNote stands for every rule that must not be found out by trying: watch words,
	// and blocks.
	refusedNote = "It would be refused."
)

// readDryRun reads whether a write is a dry run. A form holds the flag as a word.
func (f *Form) readDryRun() {
	value := f.Doc.Get(FieldDryRun.Name)
	if s, isText := value.(string); isText && f.Doc.Flat {
		value = flagOf(s)
	}
	dry, isBool := value.(bool)
	if value != nil && !isBool {
		f.Problems.Add(FieldDryRun.Name, "must be true or false")
	}
	f.DryRun = dry
}

// flagOf returns the flag that a word stands for, or the word.
func flagOf(s string) any {
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "1", "true":
		return true
	case "0", "false":
		return false
	}
	return s
}

// TakeDryRun takes the flag from the parameters of a URL into the document of a write, in
// any spelling that a field may have. The request is a write only if neither the document
// nor any parameter says otherwise.
func TakeDryRun(doc *wire.Document, pairs []wire.Pair) {
	isDryRun := func(name string) bool {
		means, _ := wire.Means(name, []string{FieldDryRun.Name})
		return means != ""
	}
	at := slices.IndexFunc(pairs, func(p wire.Pair) bool { return isDryRun(p.Name) && flagOf(p.Value) != any(false) })
	if at < 0 {
		return
	}
	doc.Fields = slices.DeleteFunc(doc.Fields, func(m wire.Field) bool { return isDryRun(m.Name) })
	doc.Fields = append(doc.Fields, wire.Field{FieldDryRun.Name, flagOf(pairs[at].Value)})
}

// answerDryRun is the second half of a dry run without problems.
func answerDryRun(c *op.Call, d Draft) error {
	f, cmd := d.Shared(), d.Command()
	if cmd == nil {
		if err := Judge(c, d); err != nil {
			return err
		}
		notes := append([]string{DryRunNote, "Without dry_run it would write nothing either."}, f.Notes...)
		return c.AnswerObject(http.StatusOK, wire.Object{{FieldDryRun.Name, true}, {"would", wire.Object{}}, {"notes", notes}})
	}
	if err := Examine(c, cmd); err != nil {
		return err
	}
	notes := []string{DryRunNote}
	refused, err := false, error(nil)
	switch a := &c.Admission; {
	case a.Earlier.KeyIssued:
		notes = append(notes, "Without dry_run it would replace the keys, which were never used, and write nothing else: it repeats what was written before.")
		refused, err = checkPolicy(c)
	case a.Repeats, a.Earlier.Outcome == command.OutcomeDuplicate:
		notes = append(notes, "Without dry_run it would write nothing either: it repeats what was written before.")
	default:
		refused, err = checkDryRun(c, d)
	}
	switch {
	case err != nil:
		return err
	case refused:
		notes = append(notes, refusedNote)
	}
	if err := f.noteName(c.View(), c.Admission.Standing); err != nil {
		return err
	}
	would, err := d.Preview(c.View(), cmd)
	if err != nil {
		return fmt.Errorf("show a dry run: %w", err)
	}
	return c.AnswerObject(http.StatusOK, wire.Object{{FieldDryRun.Name, true}, {"would", would}, {"notes", append(notes, f.Notes...)}})
}

// Judge rejects a draft with problems that the state finds: with a command all of them, without one
// those of the name.
func Judge(c *op.Call, d Draft) error {
	view := c.View()
	found, err := inspect(d, view)
	if err != nil {
		return fmt.Errorf("look for problems: %w", err)
	}
	if len(found) == 0 {
		return nil
	}
	d.Shared().Reason = Reject(d, view, found)
	return Invalid(c, d, view)
}

// JudgeNewest is Judge by the newest state, which is waited for if that of this node would reject.
func JudgeNewest(c *op.Call, d Draft) error {
	found, err := inspect(d, c.View())
	if err != nil || len(found) == 0 {
		return err
	}
	if c.Await(op.Freshness{Strong: true}) == nil {
		c.Release()
	}
	return Judge(c, d)
}

// checkDryRun checks the rules that apply checks for a write. A public rule is an error. refused is
// set if another one rejects the write.
func checkDryRun(c *op.Call, d Draft) (refused bool, err error) {
	if err := Judge(c, d); err != nil {
		return false, err
	}
	if err := limitError(c, c.Admission.Limit); err != nil {
		return false, Explain(c, d, err)
	}
	return checkPolicy(c)
}

// checkPolicy is the part of checkDryRun that depends on the policy.
func checkPolicy(c *op.Call) (refused bool, err error) {
	policy := &c.Admission.Policy
	if policy.Rule == nil || policy.Rule.Kind.Freezes() {
		return false, policyError(c)
	}
	return true, nil
}

// Preview returns the author, the values that were read, and the mentions in them.
func (f *Form) Preview() wire.Object {
	o := wire.Object{{FieldAuthor.Name, f.Author.Agent}}
	for _, m := range f.values {
		if m.Value != "" && m.Name != f.Body.Signed && m.Name != FieldRequestID.Name && m.Name != FieldEditKey.Name {
			o = append(o, m)
		}
	}
	return o.With("mentions", wire.NonNil(f.Author.Mentions))
}
