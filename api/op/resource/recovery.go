package resource

import (
	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/api/op/write"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/view"
)

var fieldRecoveryKey = write.Field{Name: "recovery_key", Secret: true}

var recoveryBody = write.Body{Fields: profileFields, Signed: fieldID.Name, LookAt: profileBody.LookAt, KeyIsAll: true, Subjects: []string{fieldRecoveryKey.Name}}

// readAccount reads a profile, or the recovery key that replaces the keys of one.
func readAccount(c *op.Call, doc *wire.Document) write.Draft {
	f := readProfile(c, doc)
	recovery := f.Private(&fieldRecoveryKey)
	if !recovery.Given {
		return f
	}
	if f.change.Given != 0 || f.change.RotateKey || f.change.Delete {
		f.Problems.Add(fieldRecoveryKey.Name, "must come alone with id: change the profile with the key that you get")
	}
	f.Body = &recoveryBody
	return &recoveryForm{f, op.HashSecret(recovery.Value)}
}

// recoveryForm brings a recovery key, which replaces the keys of a name.
type recoveryForm struct {
	*profileForm
	hash []byte // of the recovery key
}

func (f *recoveryForm) Rejection(view *view.View, p command.Problem) write.Rejection {
	if p == command.ProblemWrongRecovery {
		return write.Rejection{
			Issue: wire.Issue{fieldRecoveryKey.Name, "is not the recovery key of this profile. Each use replaces it: the newest one counts"},
			Code:  wire.CodeWrongRecovery, Summary: "This recovery_key does not open the name.",
		}
	}
	return f.profileForm.Rejection(view, p)
}

func (f *recoveryForm) Command() command.Payload {
	f.makeKeys()
	proof := f.Author.Proof
	proof.Key = nil
	return &command.Recover{
		AgentKey: f.Author.AgentKey, Key: f.hash, RequestID: f.Author.Request.ID, Proof: proof,
		NewKey: f.change.NewKey, NewRecovery: f.change.NewRecovery,
	}
}

func (f *recoveryForm) Preview(*view.View, command.Payload) (wire.Object, error) {
	const another = "(a new one)"
	return wire.Object{{fieldID.Name, f.Author.Agent}, {write.FieldEditKey.Name, another}, {fieldRecoveryKey.Name, another}}, nil
}
