package resource

import (
	"crypto/subtle"
	"fmt"
	"net/http"

	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/api/op/write"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/view"
)

var (
	fieldRecover = write.Field{Name: "recover", Like: true}
	fieldCode    = write.Field{Name: "recovery_code"}
)

// askedNote is the answer to every request for a recovery code.
const askedNote = "If this name can be recovered, a code was pushed to its receiver. Within 15 minutes, send it by POST /api/agents with id and recovery_code."

// readAccount reads a profile, a request for a recovery code, or a recovery code.
func readAccount(c *op.Call, doc *wire.Document) write.Draft {
	f := readProfile(doc, c.Env.Notify)
	f.Reread = func(doc *wire.Document) write.Draft { return readAccount(c, doc) }
	recovers, redeems := f.Flag(&fieldRecover), f.Private(&fieldCode)
	if !recovers && !redeems.Given {
		return f
	}
	alone := &fieldRecover
	if redeems.Given {
		alone = &fieldCode
	}
	if f.change.Given != 0 || f.change.RotateKey || f.change.Delete || recovers && redeems.Given {
		f.Problems.Add(alone.Name, "must come alone with id: change the profile when you have its key")
	}
	f.Repeats, f.Describing = 0, ""
	if redeems.Given {
		return &redeemForm{f, c.Env.Backend, redeems.Value, 0}
	}
	f.LookAt, f.Harmless = "", true
	return &recoverForm{f}
}

// recoverForm is a request for a recovery code. Its answer does not depend on the name.
type recoverForm struct{ *profileForm }

func (f *recoverForm) Inspect(*view.View) ([]command.Problem, error) { return nil, nil }
func (f *recoverForm) Challenge(*op.Call, command.Sender) error      { return nil }
func (f *recoverForm) Known(*view.View) (wire.Object, error)         { return recoverCall(f.profileForm), nil }

func (f *redeemForm) Known(*view.View) (wire.Object, error) { return recoverCall(f.profileForm), nil }

// recoverCall returns the body that asks for a code, or nil without a valid name.
func recoverCall(f *profileForm) wire.Object {
	if f.Problems.Has(fieldID.Name) {
		return nil
	}
	return wire.Object{{fieldID.Name, f.Author.Agent}, {fieldRecover.Name, true}}
}

func (f *recoverForm) Command(*op.Environment) command.Payload {
	proof := f.Author.Proof
	proof.Key = nil
	return &command.Recover{AgentKey: f.Author.AgentKey, Proof: proof}
}

func (f *recoverForm) Preview(*view.View, command.Payload) (wire.Object, error) {
	return recoverCall(f.profileForm), nil
}

func (f *recoverForm) Answer(c *op.Call, _ *view.View, _ *command.Result) error {
	return c.AnswerObject(http.StatusAccepted, wire.Object{{"notes", append(f.Notes, askedNote)}})
}

// redeemForm brings a recovery code, which the answering node checks.
type redeemForm struct {
	*profileForm
	codes  op.Backend
	code   string
	number uint64 // of the code, once it was found
}

func (f *redeemForm) Rejection(view *view.View, p command.Problem) write.Rejection {
	if p == command.ProblemWrongCode {
		return write.Rejection{
			Issue: wire.Issue{fieldCode.Name, "is wrong, was used, or is older than 15 minutes: ask for another one"},
			Code:  wire.CodeWrongCode, Summary: "This code does not open the name.",
		}
	}
	return f.profileForm.Rejection(view, p)
}

// Inspect looks for the code among those that were sent, if it may stand where it does.
func (f *redeemForm) Inspect(view *view.View) ([]command.Problem, error) {
	if f.Problems.Has(fieldCode.Name) {
		return nil, nil
	}
	codes, err := view.RecoveryCodes(f.Author.AgentKey)
	if err != nil {
		return nil, fmt.Errorf("look at the codes of a name: %w", err)
	}
	for i := range codes {
		code := f.codes.RecoveryCode(f.Author.AgentKey, codes[i].Number, codes[i].At)
		if code != "" && subtle.ConstantTimeCompare([]byte(code), []byte(f.code)) == 1 {
			f.number = codes[i].Number
			return nil, nil
		}
	}
	return []command.Problem{command.ProblemWrongCode}, nil
}

// Challenge rejects a wrong code. A code may be newer than this node's state.
func (f *redeemForm) Challenge(c *op.Call, _ command.Sender) error {
	found, err := f.Inspect(c.View())
	if err == nil && len(found) > 0 {
		if err = c.Await(op.Freshness{Strong: true}); err != nil {
			return write.Explain(c, f, err)
		}
		found, err = f.Inspect(c.NewestView())
	}
	if err != nil || len(found) == 0 {
		return err
	}
	f.Reason = write.Reject(f, c.View(), found)
	return write.Invalid(c, f, c.View())
}

func (f *redeemForm) Command(*op.Environment) command.Payload {
	if f.key == "" {
		f.key, f.change.NewKey = op.NewEditKey()
	}
	proof := f.Author.Proof
	proof.Key = nil
	return &command.Redeem{
		AgentKey: f.Author.AgentKey, Number: max(f.number, 1), NewKey: f.change.NewKey, RequestID: f.Author.Request.ID, Proof: proof,
	}
}

func (f *redeemForm) Preview(*view.View, command.Payload) (wire.Object, error) {
	return wire.Object{{fieldID.Name, f.Author.Agent}, {write.FieldEditKey.Name, "(a new one)"}}, nil
}
