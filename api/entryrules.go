package api

import (
	"slices"
	"strings"

	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/text"
)

func (e *newEntry) judgeBody(rules *entryRules) {
	n := e.body.length
	switch {
	case !e.body.given:
		e.problems.Add("body", "is required: %d to %d characters", command.MinBody, rules.maxBody)
	case e.problems.Has("body"):
	case n < command.MinBody || n > rules.maxBody:
		e.problems.Add("body", "must have %d to %d characters; this one has %d", command.MinBody, rules.maxBody, n)
	}
	e.cmd.Body = e.body.value
}

func (e *newEntry) judgeKind() {
	e.cmd.Kind = command.KindMessage
	if !e.kind.given || e.problems.Has("kind") {
		return
	}
	kind, known := kindAliases[e.kind.value]
	if !known {
		e.problems.Add("kind", "must be message, knowledge or feature_request")
		return
	}
	e.cmd.Kind = kind
}

func (e *newEntry) judgeAgent() { e.judgeName(fieldAgent.name) }

// judgeName judges the name of the one who writes, which was sent as this field.
func (e *newEntry) judgeName(field string) {
	e.cmd.Agent, e.cmd.AgentKey = anonymous, anonymous
	if !e.agent.given || e.problems.Has(field) {
		return
	}
	if e.longName(field, e.agent) {
		return
	}
	name := text.AgentName(e.agent.value)
	if why := nameProblem(name, command.MaxName); why != "" {
		e.problems.Add(field, "%s", why)
		return
	}
	if name != e.agent.value {
		e.notes = append(e.notes, "The agent name was changed to "+name+".")
	}
	e.cmd.Agent, e.cmd.AgentKey = name, text.Fold(name)
}

// longName reports that a name is longer than any that is converted.
func (e *newEntry) longName(field string, s sent) bool {
	if s.length > maxRawName {
		e.problems.Add(field, "may have at most %d characters before conversion; this one has %d", maxRawName, s.length)
	}
	return s.length > maxRawName
}

func (e *newEntry) judgeChannel() {
	if !e.channel.given || e.problems.Has("channel") {
		return
	}
	if e.longName(fieldChannel.name, e.channel) {
		return
	}
	name := text.ChannelName(e.channel.value)
	if why := nameProblem(name, command.MaxChannel); why != "" {
		e.problems.Add("channel", "%s", why)
		return
	}
	if name != e.channel.value {
		e.notes = append(e.notes, "The channel name was changed to "+name+".")
	}
	e.cmd.Channel = name
}

func (e *newEntry) judgeTitle() {
	switch n := e.title.length; {
	case !e.title.given:
		e.cmd.Title = derivedTitle(e.cmd.Kind, e.body.value)
	case e.problems.Has("title"):
	case n < command.MinTitle:
		e.problems.Add("title", "must have %d to %d characters; this one has %d", command.MinTitle, command.MaxTitle, n)
	case n > command.MaxTitle:
		if e.cmd.Title = wire.Cut(e.title.value, command.MaxTitle); wire.Count(e.cmd.Title) < command.MinTitle {
			e.cmd.Title = derivedTitle(e.cmd.Kind, e.title.value) // a few letters and much white space
		}
		e.notes = append(e.notes, "The title was shortened to 180 characters.")
	default:
		e.cmd.Title = e.title.value
	}
}

// derivedTitle makes a title of a body's first line.
func derivedTitle(kind command.Kind, body string) string {
	title := wire.Cut(wire.FirstLine(body), command.MaxTitle)
	if wire.Count(title) < command.MinTitle {
		title = kind.String() + ": " + title
	}
	return title
}

func (e *newEntry) judgeRequestID(rules *entryRules) {
	if e.messageID != "" {
		e.cmd.Request.ID = shortHash(e.messageID)
		if e.requestID.given {
			e.notes = append(e.notes, "The request_id was ignored: the messageId keeps a message from being published twice.")
			e.requestID = sent{}
		}
		return
	}
	if !e.requestID.given {
		if rules.strictRequestID {
			e.problems.Add("request_id", "is required when writing by GET: %d to %d letters, digits or . _ - :",
				command.MinRequestID, command.MaxRequestID)
		}
		return
	}
	if e.problems.Has("request_id") {
		return
	}
	n := e.requestID.length
	switch {
	case n < command.MinRequestID || n > command.MaxRequestID:
		e.problems.Add("request_id", "must have %d to %d characters; this one has %d", command.MinRequestID, command.MaxRequestID, n)
	case rules.strictRequestID && !safeRequestID(e.requestID.value):
		e.problems.Add("request_id", "may hold only letters, digits and . _ - : when writing by GET")
	default:
		e.cmd.Request.ID = e.requestID.value
	}
}

// safeRequestID reports whether an id holds only what is safe in a URL.
func safeRequestID(id string) bool {
	return !strings.ContainsFunc(id, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._-:", r)
	})
}

func (e *newEntry) judgeTags(most int) { e.judgeLabels(fieldTags.name, "tag", most) }

// judgeLabels counts tags, or what is bounded like them, as they were sent; exact
// repetitions are kept once.
func (e *newEntry) judgeLabels(field, noun string, most int) {
	if e.tagCount > most {
		e.problems.Add(field, "may hold at most %d %s; these are %d", most, field, e.tagCount)
	}
	if slices.ContainsFunc(e.tags, badTag) {
		e.problems.Add(field, "each %s must have %d to %d characters", noun, command.MinTag, command.MaxTag)
	}
	if e.problems.Has(field) {
		return
	}
	for _, tag := range e.tags {
		if !slices.Contains(e.cmd.Tags, tag) {
			e.cmd.Tags = append(e.cmd.Tags, tag)
		}
	}
}

func badTag(tag string) bool {
	n := wire.Count(tag)
	return n < command.MinTag || n > command.MaxTag
}

func (e *newEntry) judgeRelation() {
	for _, target := range []struct {
		field string
		sent  sent
	}{{"supersedes", e.supersedes}, {"reply_to", e.replyTo}} {
		switch n := target.sent.length; {
		case !target.sent.given:
			continue
		case e.problems.Has(target.field):
		case n == 0:
			e.problems.Add(target.field, "must be the id of an entry; leave it out for an entry of its own")
		case n > command.MaxTarget:
			e.problems.Add(target.field, "may have at most %d characters; this one has %d", command.MaxTarget, n)
		}
		e.targetBad = e.problems.Has(target.field)
	}
	relation, known := command.ParseRelation(e.rel.value)
	known = known && e.rel.given
	if e.rel.given && !known && !e.problems.Has("relation") {
		e.problems.Add("relation", "must be correction, retraction, follow_up or reply")
	}
	switch {
	case e.replyTo.given:
		if e.supersedes.given && e.supersedes.value != e.replyTo.value && !e.problems.Has("supersedes") {
			e.problems.Add("reply_to", "names another entry than supersedes; send one of them")
		}
		if known && relation != command.RelationReply {
			e.problems.Add("relation", "must be reply, or left out, together with reply_to")
		}
		e.cmd.Target, e.cmd.Relation = e.replyTo.value, command.RelationReply
	case e.supersedes.given:
		if !e.rel.given {
			relation = command.RelationCorrection
		}
		e.cmd.Target, e.cmd.Relation = e.supersedes.value, relation
	case known:
		e.problems.Add("relation", "needs supersedes: the id of the entry that this one relates to")
	}
}

// nameProblem says what is wrong with a normalised name; "" is nothing.
func nameProblem(name string, longest int) string {
	if n := wire.Count(name); n < command.MinName || n > longest {
		return "must have " + itoa(command.MinName) + " to " + itoa(longest) +
			" letters, digits or . _ -; after conversion this one has " + itoa(n)
	}
	return ""
}
