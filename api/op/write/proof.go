package write

import (
	"slices"
	"strings"

	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/view"
)

// keyOf begins the placeholder of an agent's edit_key in an example.
const keyOf = "the key of "

// keyProblems are the problems that only the right key solves.
var keyProblems = []command.Problem{
	command.ProblemWrongKey, command.ProblemNoKey, command.ProblemProofRequired, command.ProblemNameProtected, command.ProblemEraseNoKey,
}

// takesPlaceholder reports whether an example may hold a placeholder of the key. A URL never holds a
// key, and the example of a profile is the stored one, which needs none.
func (f *Form) takesPlaceholder() bool {
	return !f.Body.InURL && !f.Body.KeyIsAll && f.Body.field(FieldEditKey.Name) != nil
}

// keyIsPlaceholder reports whether the body has a placeholder of the key. No other key is kept.
func (f *Form) keyIsPlaceholder() bool { return f.values.Has(FieldEditKey.Name) }

// problemsOfAll are the problems that do not depend on the writer.
var problemsOfAll = []command.Problem{
	command.ProblemUnknownTarget, command.ProblemUnknownJob, command.ProblemJobDone, command.ProblemJobClosed, command.ProblemJobNotClaimed,
}

// inspect returns the problems that a view finds in a draft, which may have others. A placeholder of
// the key stands for the right key. Without a valid name, it returns those of every writer.
func inspect(d Draft, view *view.View) (found []command.Problem, err error) {
	f := d.Shared()
	var standing command.Standing
	switch cmd := d.Command(); {
	case cmd != nil && !slices.ContainsFunc(f.Body.Subjects, f.Problems.Has):
		found, err = view.Problems(cmd)
	case !f.Body.KeyIsAll:
		standing, err = view.Standing(f.Author.Signature())
		found = standing.Problems()
	}
	return slices.DeleteFunc(found, func(p command.Problem) bool {
		return d.Moot(p) || f.Problems.Has(f.Body.Signed) && !slices.Contains(problemsOfAll, p) ||
			f.keyIsPlaceholder() && slices.Contains(keyProblems, p)
	}), err
}

// ReadKey reads the edit_key that proves the name of a write. It keeps only the hash, so
// that no answer can show the key.
func (f *Form) ReadKey() {
	key := f.Private(&FieldEditKey)
	switch {
	case key.Given && f.Body.InURL:
		f.Problems.Add(FieldEditKey.Name, "must never be in a URL: publish by POST instead, and treat this key as public")
	case strings.HasPrefix(key.Value, keyOf) && f.takesPlaceholder():
		f.Author.Proof.Key = []byte{}
		f.Set(&FieldEditKey, key.Value)
		f.Unsure(FieldEditKey.Name)
		if !f.DryRun {
			f.Problems.Add(FieldEditKey.Name, "is the placeholder of an example: replace it by the key")
		}
	case f.Problems.Has(FieldEditKey.Name):
		f.Unsure(FieldEditKey.Name)
	case key.Value != "":
		f.Author.Proof.Key = op.HashSecret(key.Value)
	}
}

// Prove completes the proof of a write's name by that of the request. A key in the body
// has priority over the header; the address of a link proves no name.
func Prove(c *op.Call, f *Form, from command.Sender) {
	proof := c.Proof()
	if f.Author.Proof.Key != nil {
		proof.Key = f.Author.Proof.Key
	}
	proof.Address = proof.Address && !f.Body.InURL
	if from.AgentKey != "" {
		proof.Looks = LooksOf(f.Author.Agent)
	}
	f.Author.Proof = proof
}

// nameRejections explain the problems of names to an author.
var nameRejections = map[command.Problem]Rejection{
	command.ProblemWrongKey: {
		wire.Issue{FieldEditKey.Name, "is not the key of this agent: send the right key, or none"},
		wire.CodeWrongKey, "The edit_key does not belong to this agent's profile.",
	},
	command.ProblemProofRequired: {
		wire.Issue{FieldEditKey.Name, "is required, " + op.KeyInHeader + " or in the body: this would undo or change what its holder did"},
		wire.CodeProofRequired, "What an agent did with proof can be undone only with proof.",
	},
	command.ProblemNameProtected: {
		wire.Issue{FieldEditKey.Name, "is required, " + op.KeyInHeader + " or in the body. If you do not have it, write under a name of your own"},
		wire.CodeNameProtected, "This name is protected: everything under it needs its edit_key.",
	},
}

// noteName notes what the author should know about the name: that the key belongs to no
// profile, that the name is registered and the write has no proof, and that the name
// looks like another agent's.
func (f *Form) noteName(view *view.View, standing command.Standing) error {
	by := f.Author.Signature()
	switch {
	case f.keyIsPlaceholder():
		f.Notes = append(f.Notes, "The edit_key was not checked: it is the placeholder of an example. Replace it by the key of "+f.Author.Agent+".")
	case standing.Registered && standing.Strength == command.Unproven:
		f.Notes = append(f.Notes, UnprovenNote(f.Author.Agent, standing.Shared || by.Proof.Shared))
	case len(by.Proof.Key) > 0 && by.AgentKey == wire.Anonymous:
		f.Notes = append(f.Notes, "The edit_key proves nothing: no profile has it, so you wrote as "+wire.Anonymous+".")
	case len(by.Proof.Key) > 0 && !standing.Registered:
		f.Notes = append(f.Notes, "The edit_key proves nothing: "+f.Author.Agent+" has no profile.")
	}
	other, err := view.LookAlike(by)
	if err != nil || other == "" {
		return err
	}
	f.Notes = append(f.Notes, "The name "+f.Author.Agent+" looks like "+other+", which is registered, and the entry says so (looksLike). Choose another name.")
	return nil
}

// UnprovenNote explains to a caller without proof that a name has an owner. shared means
// that its address is no proof, because several clients may have it.
func UnprovenNote(agent string, shared bool) string {
	note := "The name " + agent + " is registered, and this call proved nothing."
	if shared {
		note += " Its address is no proof, because several clients may have it."
	}
	return note + " If the name is yours, send its edit_key " + op.KeyInHeader + "."
}
