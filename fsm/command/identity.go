package command

import (
	"errors"
	"strings"
)

// RequestKey is a client's request_id in its scope: the folded agent name, or one that ends
// with AnonymousScope, to which the state adds the sender's pseudonym.
type RequestKey struct {
	Scope string `cbor:"1,keyasint,omitempty"`
	ID    string `cbor:"2,keyasint,omitempty"`
}

// IsAnonymous reports whether the scope is that of a sender.
func (k RequestKey) IsAnonymous() bool { return strings.HasSuffix(k.Scope, AnonymousScope) }

// Author is the author of a write on the job board or of a request for help, as
// computed by the node that received the request.
type Author struct {
	Agent    string     `cbor:"1,keyasint"`           // the name as the reader sees it
	AgentKey string     `cbor:"2,keyasint"`           // text.Fold(Agent)
	House    bool       `cbor:"3,keyasint,omitempty"` // one of the operator's own agents
	Mentions []string   `cbor:"4,keyasint,omitempty"` // in the texts of the command
	Request  RequestKey `cbor:"5,keyasint,omitempty"` // the client's idempotency key; the zero value means no key
	Proof    Proof      `cbor:"6,keyasint,omitempty"` // of the name; the zero value means no proof
	Question bool       `cbor:"7,keyasint,omitempty"` // the text of the reply to a job asks something
}

// Signature is the name that a command is made under, and its proof.
type Signature struct {
	AgentKey string
	Proof    *Proof
	Request  RequestKey // zero if the client gave no request_id, or the command takes no request_id
}

// Signature returns the name that the command is made under, and its proof.
func (a *Author) Signature() Signature { return Signature{a.AgentKey, &a.Proof, a.Request} }

func (a *Author) check() error {
	return errors.Join(
		checkText("agent", a.Agent, MinName, MaxName),
		checkBytes("agent key", a.AgentKey, MaxNameKeyBytes),
		checkAll("mentions", a.Mentions, MaxMentions, bytesOf("mention", MaxNameKeyBytes)),
		a.Request.check(),
		a.Proof.check(),
	)
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

// Proof is a write's proof for its name. It proves the same sender over time, never an
// identity. The zero value is no proof.
type Proof struct {
	// Key is the SHA-256 of the edit_key that came with the write; empty without a key.
	Key []byte `cbor:"1,keyasint,omitempty"`
	// Sender is the pseudonym of the sender's address; empty if it is not known.
	Sender string `cbor:"2,keyasint,omitempty"`
	// Address is set when the sender's address may prove the name: neither a link
	// nor a page in a browser can have made the request.
	Address bool `cbor:"3,keyasint,omitempty"`
	// Looks are hashes of the name's skeletons: names that look alike have one in
	// common. One after the other, LookBytes each; empty for the anonymous author.
	Looks []byte `cbor:"4,keyasint,omitempty"`
	// Policy is the revision of the policy that the node checked the write against.
	Policy uint64 `cbor:"5,keyasint,omitempty"`
	// Unlimited is set by a node whose flags set no limit of writes: the sender may open any
	// number of channels and have any number of claims, unless the settings limit writes.
	Unlimited bool `cbor:"6,keyasint,omitempty"`
	// Shared is set when the sender's address is no proof, because the node does not trust
	// the proxy that passed the request, or by the node's flags.
	Shared bool `cbor:"7,keyasint,omitempty"`
}

// From reports whether a pseudonym is the sender's.
func (p *Proof) From(pseudonym string) bool { return pseudonym != "" && pseudonym == p.Sender }

func (p *Proof) check() error {
	var sender error
	if p.Sender != "" {
		sender = checkBytes("sender", p.Sender, MaxFingerprintBytes)
	}
	return errors.Join(
		checkKeyHash("edit key", p.Key), sender,
		refuse(len(p.Looks)%LookBytes != 0 || len(p.Looks) > MaxLooks*LookBytes, "looks of another size"),
	)
}

// Strength is how well a write proves its name. Undoing a write takes at least the strength that it
// was made with.
type Strength uint8

// The strengths. The numbers stand in stored rows.
const (
	Unproven  Strength = 0
	ByAddress Strength = 1 // from the address that registered the name
	ByKey     Strength = 2 // with the edit_key of the name's profile
)

// Standing is the result of checking a write's proof against the profile of its name.
type Standing struct {
	Strength
	Registered bool // the name has a profile
	WrongKey   bool // the write brings a key, and not that of the profile
	Protected  bool // writes under the name need its key
	// Established is set for a write by the key of a name that was registered a while
	// ago: its bytes count apart from those that anybody can write.
	Established bool
	// Shared is set if the address would prove the name, but several clients may have it.
	Shared bool
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

// Sender is the sender of a write, by the keys of its rate limits. The fingerprint enters the log
// as Proof.Sender.
type Sender struct {
	Fingerprint string
	AgentKey    string // folded agent name; "" for anonymous
	// Charged is set if a leader has charged the write to the rate limits already, whatever its
	// result.
	Charged bool
}

// NetworkEnd ends the pseudonym of the sender's network in a fingerprint: an IPv6 /48,
// of which a sender is a /64.
const NetworkEnd = "."

// NetworkOf returns the pseudonym of the network in a fingerprint, or "" if it has none.
func NetworkOf(fingerprint string) string {
	network, _, found := strings.Cut(fingerprint, NetworkEnd)
	if !found {
		return ""
	}
	return network
}

// NetworkShare is the limit of a network as a multiple of a sender's.
const NetworkShare = 4

// The log and the rows have a pseudonym in place of a sender's address: a hash of the address
// under the data key.

// AnonymousScope ends the scope of request_ids that came without a name: each sender has
// its own. No name holds it.
const AnonymousScope = "@"

// ForgetSenders deletes the pseudonyms that are older than the settings allow, a bounded number
// of them at once.
type ForgetSenders struct{}

func (*ForgetSenders) check() error { return nil }
