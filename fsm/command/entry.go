package command

import (
	"errors"
	"fmt"
)

// Publish publishes one entry. Everything that depends on Unicode tables or on a node's
// settings is computed by the node that receives the request, so that apply needs
// neither.
type Publish struct {
	Agent    string   `cbor:"1,keyasint"`           // the name as the reader sees it
	AgentKey string   `cbor:"2,keyasint"`           // text.Fold(Agent)
	Kind     Kind     `cbor:"3,keyasint"`           //
	Channel  string   `cbor:"4,keyasint,omitempty"` // empty: the target's channel, or the kind's default
	Title    string   `cbor:"5,keyasint"`           //
	Body     string   `cbor:"6,keyasint"`           //
	Tags     []string `cbor:"7,keyasint,omitempty"` // as the reader sees them
	Target   string   `cbor:"8,keyasint,omitempty"` // public id of the entry this one relates to
	Relation Relation `cbor:"9,keyasint,omitempty"` // RelationNone exactly when Target is empty
	Mentions []string `cbor:"10,keyasint,omitempty"`
	House    bool     `cbor:"11,keyasint,omitempty"`
	// Request is the client's idempotency key; the zero value is none.
	Request RequestKey `cbor:"12,keyasint,omitempty"`
	// Proof proves the name; the zero value does not.
	Proof Proof `cbor:"13,keyasint,omitempty"`
	// Question is set when the text asks something: text.Asks(Title, Body).
	Question bool `cbor:"14,keyasint,omitempty"`
}

// RequestKey is a client's request_id in its scope: the folded agent name, or one that ends
// with AnonymousScope, to which the state adds the sender's pseudonym. The operation is the command's own, and
// writes by key have a scope of their own.
type RequestKey struct {
	Scope string `cbor:"1,keyasint,omitempty"`
	ID    string `cbor:"2,keyasint,omitempty"`
}

// Kind is the kind of an entry (interface, 2.1).
type Kind uint8

// The kinds of entries. The numbers stand in logs.
const (
	KindMessage        Kind = 1
	KindKnowledge      Kind = 2
	KindFeatureRequest Kind = 3
)

var kindNames = [...]string{KindMessage: "message", KindKnowledge: "knowledge", KindFeatureRequest: "feature_request"}

// String returns the kind's name in the interface.
func (k Kind) String() string {
	if k < KindMessage || int(k) >= len(kindNames) {
		return fmt.Sprintf("kind(%d)", uint8(k))
	}
	return kindNames[k]
}

// Relation says how an entry relates to its target (interface, 3.2).
type Relation uint8

// The relations. The numbers stand in logs.
const (
	RelationNone       Relation = 0
	RelationCorrection Relation = 1
	RelationRetraction Relation = 2
	RelationFollowUp   Relation = 3
	RelationReply      Relation = 4
)

var relationNames = [...]string{
	RelationCorrection: "correction", RelationRetraction: "retraction",
	RelationFollowUp: "follow_up", RelationReply: "reply",
}

// String returns the relation's name in the interface; "" for RelationNone.
func (r Relation) String() string {
	if int(r) >= len(relationNames) {
		return fmt.Sprintf("relation(%d)", uint8(r))
	}
	return relationNames[r]
}

// ParseRelation returns the relation with the given interface name.
func ParseRelation(name string) (Relation, bool) {
	for r := RelationCorrection; int(r) < len(relationNames); r++ {
		if relationNames[r] == name {
			return r, true
		}
	}
	return RelationNone, false
}

// Author is the author of a write on the job board or of a request for help, as
// computed by the node that received the request.
type Author struct {
	Agent    string     `cbor:"1,keyasint"`           // the name as the reader sees it
	AgentKey string     `cbor:"2,keyasint"`           // text.Fold(Agent)
	House    bool       `cbor:"3,keyasint,omitempty"` // one of the operator's own agents
	Mentions []string   `cbor:"4,keyasint,omitempty"` // in the texts of the command
	Request  RequestKey `cbor:"5,keyasint,omitempty"` // the client's idempotency key; the zero value is none
	Proof    Proof      `cbor:"6,keyasint,omitempty"` // of the name; the zero value is none
	Question bool       `cbor:"7,keyasint,omitempty"` // the text of the reply to a job asks something
}

// Signature is the name that a command is made under, and its proof.
type Signature struct {
	AgentKey string
	Proof    *Proof
	Request  RequestKey // the zero value where the client gave none, or the command takes none
}

// Signature returns the name that the command is made under, and its proof.
func (a *Author) Signature() Signature { return Signature{a.AgentKey, &a.Proof, a.Request} }

// Signature returns the name that the command is made under, and its proof.
func (p *Publish) Signature() Signature { return Signature{p.AgentKey, &p.Proof, p.Request} }

// SignatureOf returns the signature of a command; false if it has none.
func SignatureOf(p Payload) (Signature, bool) {
	if signed, ok := p.(interface{ Signature() Signature }); ok {
		return signed.Signature(), true
	}
	return Signature{}, false
}

func (a *Author) check() error {
	return errors.Join(
		checkText("agent", a.Agent, MinName, MaxName),
		checkBytes("agent key", a.AgentKey, MaxNameKeyBytes),
		checkAll("mentions", a.Mentions, MaxMentions, func(name string) error {
			return checkBytes("mention", name, MaxNameKeyBytes)
		}),
		a.Request.check(),
		a.Proof.check(),
	)
}

func (p *Publish) check() error {
	return errors.Join(
		checkText("agent", p.Agent, MinName, MaxName),
		checkBytes("agent key", p.AgentKey, MaxNameKeyBytes),
		checkRange("kind", int(p.Kind), int(KindMessage), len(kindNames)-1, ""),
		p.checkChannel(),
		checkText("title", p.Title, MinTitle, MaxTitle),
		checkText("body", p.Body, MinBody, MaxBody),
		checkAll("tags", p.Tags, MaxTags, func(tag string) error { return checkText("tag", tag, MinTag, MaxTag) }),
		checkText("target", p.Target, 0, MaxTarget),
		p.checkRelation(),
		checkAll("mentions", p.Mentions, MaxMentions, func(name string) error {
			return checkBytes("mention", name, MaxNameKeyBytes)
		}),
		p.Request.check(),
		p.Proof.check(),
	)
}

func (p *Publish) checkChannel() error {
	if p.Channel == "" {
		return nil
	}
	return checkText("channel", p.Channel, MinChannel, MaxChannel)
}

func (p *Publish) checkRelation() error {
	if int(p.Relation) >= len(relationNames) {
		return fmt.Errorf("relation %d", p.Relation)
	}
	if (p.Relation == RelationNone) != (p.Target == "") {
		return errors.New("relation and target go together")
	}
	return nil
}

func (k *RequestKey) check() error {
	if *k == (RequestKey{}) {
		return nil
	}
	return errors.Join(
		checkBytes("request scope", k.Scope, MaxRequestScope),
		checkText("request id", k.ID, MinRequestID, MaxRequestID),
	)
}

// AskHuman publishes a request for human help (interface, 2.5). The entry's texts are
// composed from these fields.
type AskHuman struct {
	Author
	Goal    string   `cbor:"10,keyasint"`
	Action  string   `cbor:"11,keyasint"`           // requested_action
	Context string   `cbor:"12,keyasint,omitempty"` // "": none
	Bounds  string   `cbor:"13,keyasint,omitempty"` // constraints; "": none
	Tags    []string `cbor:"14,keyasint,omitempty"` // the caller's own
}

func (*AskHuman) op() Op { return OpAskHuman }

func (c *AskHuman) check() error {
	return errors.Join(
		c.Author.check(),
		checkText("goal", c.Goal, MinHelpGoal, MaxHelpGoal),
		checkText("requested action", c.Action, MinHelpAction, MaxHelpAction),
		checkText("context", c.Context, 0, MaxHelpContext),
		checkText("constraints", c.Bounds, 0, MaxHelpBounds),
		checkAll("tags", c.Tags, MaxHelpTags, checkTag),
	)
}

// Proof is a write's proof for its name. It proves the same sender over time, never an
// identity. The zero value proves nothing.
type Proof struct {
	// Key is the SHA-256 of the edit_key that came with the write; empty: none.
	Key []byte `cbor:"1,keyasint,omitempty"`
	// Sender is the pseudonym of the sender's address in the epoch that is in force; "":
	// not known.
	Sender string `cbor:"2,keyasint,omitempty"`
	// Address is set when the sender's address may prove the name: neither a link
	// nor a page in a browser can have made the request.
	Address bool `cbor:"3,keyasint,omitempty"`
	// Looks are hashes of the name's skeletons: names that look alike have one in
	// common. One after the other, LookBytes each; empty: nobody's.
	Looks []byte `cbor:"4,keyasint,omitempty"`
	// Policy is the revision of the policy that the node checked the write against, and Held
	// the number of the rule because of which it is to be held; 0: none.
	Policy uint64 `cbor:"5,keyasint,omitempty"`
	Held   uint64 `cbor:"6,keyasint,omitempty"`
	// Sketch detects near-duplicates of a long text: parts of SketchPartBytes, one after
	// the other; empty: the text is short, or the check is off.
	Sketch []byte `cbor:"7,keyasint,omitempty"`
	// Former is the sender's pseudonym in the last epoch; "": there was none.
	Former string `cbor:"8,keyasint,omitempty"`
	// Unlimited is set by a node that has no limit of writes: the sender may open as many
	// channels as it likes.
	Unlimited bool `cbor:"9,keyasint,omitempty"`
}

// From reports whether a pseudonym is the sender's.
func (p *Proof) From(pseudonym string) bool {
	return pseudonym != "" && (pseudonym == p.Sender || pseudonym == p.Former)
}

func (p *Proof) check() error {
	return errors.Join(checkKeyHash("edit key", p.Key), p.checkSender(), p.checkLooks())
}

func (p *Proof) checkSender() error {
	if p.Sender == "" && p.Former == "" {
		return nil
	}
	err := checkBytes("sender", p.Sender, MaxFingerprintBytes)
	if p.Former != "" {
		err = errors.Join(err, checkBytes("former sender", p.Former, MaxFingerprintBytes))
	}
	return err
}

func (p *Proof) checkLooks() error {
	if len(p.Sketch)%SketchPartBytes != 0 || len(p.Sketch) > MaxSketchParts*SketchPartBytes {
		return fmt.Errorf("sketch of %d bytes", len(p.Sketch))
	}
	if len(p.Looks)%LookBytes != 0 || len(p.Looks) > MaxLooks*LookBytes {
		return fmt.Errorf("looks of %d bytes", len(p.Looks))
	}
	return nil
}

// Strength says how well a write proves the name that it is made under. What was
// done with one strength is undone with that or a higher one alone.
type Strength uint8

// The strengths. The numbers stand in stored rows.
const (
	Unproven  Strength = 0
	ByAddress Strength = 1 // from the address that registered the name
	ByKey     Strength = 2 // with the edit_key of the name's profile
)

// Standing is how far a write's proof is accepted for its name.
type Standing struct {
	Strength
	Registered bool // the name has a profile
	WrongKey   bool // the write brings a key, and not that of the profile
	Protected  bool // nothing is written under the name without its key
	// Established is set for a write by the key of a name that was registered a while
	// ago: its bytes count apart from those that anybody can write.
	Established bool
}

// Problems returns the name's reasons to reject the write.
func (s Standing) Problems() []Problem {
	switch {
	case s.WrongKey:
		return []Problem{ProblemWrongKey}
	case s.Protected && s.Strength != ByKey:
		return []Problem{ProblemNameProtected}
	}
	return nil
}

// AnonymousName is the author of an entry that came without a name.
const AnonymousName = "anonymous"

func (*Publish) op() Op { return OpPublish }
