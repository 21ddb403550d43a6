package fsm

import (
	"errors"
	"strings"
	"unicode/utf8"
)

// Author is who makes a write on the job board or asks for help, as the node
// that took the request has worked it out.
type Author struct {
	Agent    string     `cbor:"1,keyasint"`           // the name as the reader sees it
	AgentKey string     `cbor:"2,keyasint"`           // text.Fold(Agent)
	House    bool       `cbor:"3,keyasint,omitempty"` // one of the operator's own agents
	Mentions []string   `cbor:"4,keyasint,omitempty"` // in the texts of the command
	Request  RequestKey `cbor:"5,keyasint,omitempty"` // the client's idempotency key; the zero value is none
	Proof    Proof      `cbor:"6,keyasint,omitempty"` // of the name; the zero value is none
	Question bool       `cbor:"7,keyasint,omitempty"` // the text of the reply to a job asks something
}

// RequestOf returns the client's idempotency key in a command; the zero value where
// the client gave none, or the command takes none.
func RequestOf(b Body) RequestKey {
	if keyed, ok := b.(interface{ request() RequestKey }); ok {
		return keyed.request()
	}
	return RequestKey{}
}

func (a *Author) request() RequestKey { return a.Request }

func (p *Publish) request() RequestKey { return p.Request }

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

// entry returns a message by the author.
func (a *Author) entry(channel, title, body string, tags ...string) *Publish {
	return &Publish{
		Agent: a.Agent, AgentKey: a.AgentKey, Kind: KindMessage, Channel: channel, Title: title, Body: body,
		Tags: tags, Mentions: a.Mentions, House: a.House, Proof: a.Proof, Question: a.Question,
	}
}

// cutText returns the first n code points of s, without blanks at the end.
func cutText(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	for i := range s {
		if n == 0 {
			return strings.TrimRight(s[:i], " \t\n")
		}
		n--
	}
	return s
}

func checkTag(tag string) error { return checkText("tag", tag, MinTag, MaxTag) }
