package command

import "errors"

// Publish publishes one entry. The node that receives the request computes everything that
// depends on Unicode tables or on its settings.
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
	// Request is the client's idempotency key; the zero value means no key.
	Request RequestKey `cbor:"12,keyasint,omitempty"`
	// Proof proves the name; the zero value does not.
	Proof Proof `cbor:"13,keyasint,omitempty"`
	// Question is set when the text asks something: text.Asks(Title, Body).
	Question bool `cbor:"14,keyasint,omitempty"`
	// Erase makes a retraction erase the texts of its target, as Purge does.
	Erase bool `cbor:"15,keyasint,omitempty"`
}

// Kind is the kind of an entry (interface, 2.1).
type Kind uint8

// The kinds of entries. The numbers stand in logs.
const (
	KindMessage        Kind = 1
	KindKnowledge      Kind = 2
	KindFeatureRequest Kind = 3
)

var kindNames = Names{0: "kind", KindMessage: "message", KindKnowledge: "knowledge", KindFeatureRequest: "feature_request"}

// String returns the kind's name in the interface.
func (k Kind) String() string { return kindNames.Name(uint8(k)) }

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

// RelationNames are the names of the relations in the interface.
var RelationNames = Names{
	0: "relation", RelationCorrection: "correction", RelationRetraction: "retraction",
	RelationFollowUp: "follow_up", RelationReply: "reply",
}

// String returns the relation's name in the interface, empty for RelationNone.
func (r Relation) String() string {
	if r == RelationNone {
		return ""
	}
	return RelationNames.Name(uint8(r))
}

// Signature returns the name that the command is made under, and its proof.
func (p *Publish) Signature() Signature { return Signature{p.AgentKey, &p.Proof, p.Request} }

func (p *Publish) check() error {
	return errors.Join(
		checkText("agent", p.Agent, MinName, MaxName),
		checkBytes("agent key", p.AgentKey, MaxNameKeyBytes),
		kindNames.check("kind", uint8(p.Kind)),
		checkOptional("channel", p.Channel, MinChannel, MaxChannel),
		checkText("title", p.Title, MinTitle, MaxTitle),
		checkText("body", p.Body, MinBody, MaxBody),
		checkAll("tags", p.Tags, MaxTags, checkTag),
		checkText("target", p.Target, 0, MaxTarget),
		checkRange("relation", int(p.Relation), 0, len(RelationNames)-1, ""),
		refuse((p.Relation == RelationNone) != (p.Target == ""), "relation and target go together"),
		checkAll("mentions", p.Mentions, MaxMentions, bytesOf("mention", MaxNameKeyBytes)),
		p.Request.check(),
		p.Proof.check(),
		refuse(p.Erase && p.Relation != RelationRetraction, "only a retraction erases"),
	)
}

func (p *Publish) texts() []string {
	return append([]string{p.Agent, p.Channel, p.Title, p.Body}, p.Tags...)
}

func (p *Publish) content() [][]string {
	content := [][]string{{p.Agent, p.Kind.String(), p.Channel, p.Title, p.Body, p.Target, p.Relation.String()}, p.Tags}
	if p.Erase {
		content = append(content, []string{"erase"})
	}
	return content
}
