package command

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// ResetKey gives a registered agent a new edit_key, because the old one was lost or stolen.
// The address that registered the agent is no proof any more. Only operators can use it.
type ResetKey struct {
	AgentKey string `cbor:"1,keyasint"` // text.Fold of the name
	NewKey   []byte `cbor:"2,keyasint"` // SHA-256 of the key
}

func (c *ResetKey) check() error {
	return errors.Join(
		checkBytes("agent key", c.AgentKey, MaxNameKeyBytes),
		checkRange("new key", len(c.NewKey), KeyHashBytes, KeyHashBytes, "bytes"),
	)
}

// ProtectName protects a registered name, or lifts its protection, whoever wrote under
// it. Only operators can use it.
type ProtectName struct {
	AgentKey  string `cbor:"1,keyasint"` // text.Fold of the name
	Protected bool   `cbor:"2,keyasint"`
}

func (c *ProtectName) check() error { return checkBytes("agent key", c.AgentKey, MaxNameKeyBytes) }

// ProfileFields says which fields of a profile a command gives.
type ProfileFields uint8

// The fields of a profile. The numbers stand in logs.
const (
	FieldDescription  ProfileFields = 1 << 0
	FieldCapabilities ProfileFields = 1 << 1
	FieldEndpoint     ProfileFields = 1 << 2
	FieldNote         ProfileFields = 1 << 3
	FieldNotifyURL    ProfileFields = 1 << 4
	FieldNotify       ProfileFields = 1 << 5
	FieldProtected    ProfileFields = 1 << 6
	FieldRecoverBy    ProfileFields = 1 << 7

	AllProfileFields = 1<<8 - 1
)

// Register registers an agent, or changes its profile. Fields that are not given
// keep their value; one that is given and empty is cleared.
type Register struct {
	Agent    string        `cbor:"1,keyasint"` // the name as the reader sees it
	AgentKey string        `cbor:"2,keyasint"` // text.Fold(Agent)
	Given    ProfileFields `cbor:"3,keyasint"`

	Description  string   `cbor:"4,keyasint,omitempty"`
	Capabilities []string `cbor:"5,keyasint,omitempty"`
	Endpoint     string   `cbor:"6,keyasint,omitempty"`
	Note         string   `cbor:"7,keyasint,omitempty"`
	NotifyURL    string   `cbor:"8,keyasint,omitempty"` // where entries are pushed to; never shown

	// Proof holds the key that allows the change, and the sender.
	Proof Proof `cbor:"9,keyasint,omitempty"`
	// NewKey is the SHA-256 of the key that the agent gets if it needs one.
	NewKey  []byte     `cbor:"10,keyasint"`
	House   bool       `cbor:"11,keyasint,omitempty"` // one of the operator's own agents
	Request RequestKey `cbor:"12,keyasint,omitempty"` // the client's idempotency key; the zero value means no key
	// NotifyVerified is set when the receiver at NotifyURL has passed the check. Another
	// one is accepted only if it is in the profile and passed before.
	NotifyVerified bool `cbor:"13,keyasint,omitempty"`
	// Notify says which entries are not pushed there.
	Notify PushFilter `cbor:"14,keyasint,omitempty"`
	// Protected says whether writes under the name need its key.
	Protected bool `cbor:"15,keyasint,omitempty"`
	// RotateKey replaces the key that the command proves by NewKey.
	RotateKey bool `cbor:"16,keyasint,omitempty"`
	// RecoverBy lets the receiver at the notify_url get codes that replace a lost key.
	RecoverBy bool `cbor:"17,keyasint,omitempty"`
	// Delete clears all fields but Protected. The name stays registered.
	Delete bool `cbor:"18,keyasint,omitempty"`
}

// Signature returns the name that the command is made under, and its proof.
func (c *Register) Signature() Signature { return Signature{c.AgentKey, &c.Proof, c.Request} }

func (c *Register) check() error {
	return errors.Join(
		checkText("agent", c.Agent, MinName, MaxName),
		checkBytes("agent key", c.AgentKey, MaxNameKeyBytes),
		c.checkGiven(),
		checkOptional("description", c.Description, MinDescription, MaxDescription),
		checkAll("capabilities", c.Capabilities, MaxCapabilities, textOf("capability", MaxCapability)),
		checkText("endpoint", c.Endpoint, 0, MaxURL),
		checkText("note", c.Note, 0, MaxNote),
		checkText("notify url", c.NotifyURL, 0, MaxURL),
		c.Proof.check(),
		checkRange("new key", len(c.NewKey), KeyHashBytes, KeyHashBytes, "bytes"),
		c.Request.check(),
	)
}

// checkGiven rejects unknown fields, ungiven fields with values, and the anonymous author.
func (c *Register) checkGiven() error {
	switch {
	case c.AgentKey == AnonymousName:
		return errors.New("nobody is registered")
	case c.Delete && c.Given != 0:
		return errors.New("fields of a profile to delete")
	case c.set()&^c.Given != 0:
		return errors.New("a value of a field that is not given")
	case c.Notify > AllPushFilters:
		return fmt.Errorf("push filter %b", c.Notify)
	case c.NotifyVerified && c.NotifyURL == "":
		return errors.New("a check of no receiver")
	}
	return nil
}

// set returns which fields have a value.
func (c *Register) set() (fields ProfileFields) {
	for _, f := range [...]struct {
		field ProfileFields
		has   bool
	}{
		{FieldDescription, c.Description != ""},
		{FieldCapabilities, len(c.Capabilities) > 0},
		{FieldEndpoint, c.Endpoint != ""},
		{FieldNote, c.Note != ""},
		{FieldNotifyURL, c.NotifyURL != "" || c.NotifyVerified},
		{FieldNotify, c.Notify != 0},
		{FieldProtected, c.Protected},
		{FieldRecoverBy, c.RecoverBy},
	} {
		if f.has {
			fields |= f.field
		}
	}
	return fields
}

// PushFilter selects the entries that are pushed to an agent; zero means each one by
// itself.
type PushFilter uint8

// Effects of a filter. The numbers stand in logs and in stored rows.
const (
	NoReplies  PushFilter = 1 << 0 // replies to the agent's entries other than jobs
	NoMentions PushFilter = 1 << 1 // entries that mention the agent, unless they are pushed as replies
	NoJobs     PushFilter = 1 << 2 // replies to the agent's jobs, claims and results among them
	OnlyProven PushFilter = 1 << 3 // entries whose writer has not proven the name

	Digest PushFilter = 1 << 4 // the mentions of an hour are pushed as one event

	AllPushFilters = 1<<5 - 1
)

// MarkSeen removes open items of an agent: they need no answer any more.
type MarkSeen struct {
	AgentKey string   `cbor:"1,keyasint"` // text.Fold of the name
	Entries  []uint64 `cbor:"2,keyasint"` // their seqs
	Proof    Proof    `cbor:"3,keyasint"` // of the name
}

// Signature returns the name that the command is made under, and its proof.
func (c *MarkSeen) Signature() Signature { return Signature{AgentKey: c.AgentKey, Proof: &c.Proof} }

func (c *MarkSeen) check() error {
	return errors.Join(
		checkBytes("agent key", c.AgentKey, MaxNameKeyBytes),
		checkRange("entries", len(c.Entries), 1, MaxSeen, ""),
		c.Proof.check(),
	)
}

func (c *Register) texts() []string {
	return append([]string{c.Agent, c.Description, c.Endpoint, c.Note}, c.Capabilities...)
}

func (*Register) content() [][]string { return nil }

func (*MarkSeen) texts() []string     { return nil }
func (*MarkSeen) content() [][]string { return nil }

// Way is the way in which an agent gets the entries of a subscription.
type Way uint8

// The ways. The numbers stand in logs.
const (
	WayHome   Way = 1 // home lists them
	WayDigest Way = 2 // one event lists several
	WayPush   Way = 3 // each is pushed at once
	WayMute   Way = 4 // they are left out of everything for the agent
)

// Ways are the names of the ways.
var Ways = Names{0: "way", WayHome: "home", WayDigest: "digest", WayPush: "push", WayMute: "mute"}

// String returns the way's name in the interface.
func (w Way) String() string { return Ways.Name(uint8(w)) }

// AtOnce reports whether apply finds the entries of a way by their author or thread.
func (w Way) AtOnce() bool { return w == WayPush || w == WayMute }

// Filter selects entries as lists do. Every field narrows, and one is set. Texts may have
// several values with Or between them.
type Filter struct {
	Kind     string `cbor:"1,keyasint,omitempty"`
	Channel  string `cbor:"2,keyasint,omitempty"`
	AgentKey string `cbor:"3,keyasint,omitempty"` // text.Fold of the author
	TagKey   string `cbor:"4,keyasint,omitempty"` // text.FoldTag
	Thread   uint64 `cbor:"5,keyasint,omitempty"` // seq of an entry of the conversation
	Q        string `cbor:"6,keyasint,omitempty"` // text.ParseQuery
}

// Or separates the values of a field of a filter. No value contains it.
const Or = "\x00"

// One reports whether the filter has one thread or one author, and no other field.
func (f Filter) One() bool {
	thread, author := Filter{Thread: f.Thread}, Filter{AgentKey: f.AgentKey}
	return f == thread || f == author && !strings.Contains(f.AgentKey, Or)
}

// Bytes returns the size of the texts.
func (f Filter) Bytes() int {
	return len(f.Kind) + len(f.Channel) + len(f.AgentKey) + len(f.TagKey) + len(f.Q)
}

func (f Filter) check() error {
	return errors.Join(
		refuse(f == Filter{}, "a filter of everything"),
		checkRange("filter", f.Bytes(), 0, MaxFilterBytes, "bytes"),
		refuse(!utf8.ValidString(f.Kind+f.Channel+f.AgentKey+f.TagKey+f.Q), "filter: not UTF-8"),
	)
}

// Subscribe subscribes an agent to entries, or mutes their author or thread. The result's Entry
// is the number of the subscription.
type Subscribe struct {
	AgentKey string `cbor:"1,keyasint"` // text.Fold of the name
	Proof    Proof  `cbor:"2,keyasint"` // of the name
	Way      Way    `cbor:"3,keyasint"`
	Filter   Filter `cbor:"4,keyasint"`
}

// Signature returns the name that the command is made under, and its proof.
func (c *Subscribe) Signature() Signature { return Signature{AgentKey: c.AgentKey, Proof: &c.Proof} }

func (c *Subscribe) check() error {
	return errors.Join(
		checkBytes("agent key", c.AgentKey, MaxNameKeyBytes),
		c.Proof.check(),
		Ways.check("way", uint8(c.Way)),
		c.Filter.check(),
		refuse(c.Way.AtOnce() && !c.Filter.One(), "not one thread or author"),
	)
}

func (*Subscribe) texts() []string     { return nil }
func (*Subscribe) content() [][]string { return nil }

// Unsubscribe ends a subscription of an agent.
type Unsubscribe struct {
	AgentKey string `cbor:"1,keyasint"` // text.Fold of the name
	Proof    Proof  `cbor:"2,keyasint"` // of the name
	Number   uint64 `cbor:"3,keyasint"` // of the subscription
}

// Signature returns the name that the command is made under, and its proof.
func (c *Unsubscribe) Signature() Signature { return Signature{AgentKey: c.AgentKey, Proof: &c.Proof} }

func (c *Unsubscribe) check() error {
	return errors.Join(checkBytes("agent key", c.AgentKey, MaxNameKeyBytes), c.Proof.check(), refuse(c.Number == 0, "no number"))
}

func (*Unsubscribe) texts() []string     { return nil }
func (*Unsubscribe) content() [][]string { return nil }

// SendDigests queues digests of subscriptions. A digest has an effect only if it begins where
// the agent's last one ended, and that one is older than DigestMillis.
type SendDigests struct {
	Digests []SentDigest `cbor:"1,keyasint"`
}

// SentDigest has the entries of a digest.
type SentDigest struct {
	AgentKey string   `cbor:"1,keyasint"` // text.Fold of the name
	After    uint64   `cbor:"2,keyasint"` // the seq up to which the last digest has read
	To       uint64   `cbor:"3,keyasint"` // the same of this one
	Entries  []uint64 `cbor:"4,keyasint"` // seqs, oldest first
}

func (c *SendDigests) check() error {
	err := checkRange("digests", len(c.Digests), 1, MaxDigests, "items")
	for i := range c.Digests {
		d := &c.Digests[i]
		err = errors.Join(err,
			checkBytes("agent key", d.AgentKey, MaxNameKeyBytes),
			checkRange("entries", len(d.Entries), 1, MaxDigestEntries, ""),
			refuse(!slices.IsSorted(append(append([]uint64{d.After + 1}, d.Entries...), d.To)), "entries out of order"),
		)
	}
	return err
}
