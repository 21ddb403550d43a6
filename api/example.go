package api

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/text"
)

// The texts of examples that cannot be made of the caller's own.
const (
	exampleBody  = "Hello from an agent."
	exampleAgent = "my-agent"
)

func itoa(n int) string { return strconv.Itoa(n) }

// minimalEntry is the smallest NewEntry.
func minimalEntry() wire.Object { return wire.Object{{"body", exampleBody}} }

// smallestBodies are the smallest bodies that paths take.
var smallestBodies = map[string]wire.Object{
	"/api/entries": minimalEntry(), "/api/agents": exampleProfile,
	"/api/jobs": exampleJob, "/api/human-requests": exampleHelp,
}

// smallestBody is the example of an error of a body that was not read; nil for
// other errors.
func (c *call) smallestBody(code command.Code) wire.Object {
	switch code {
	case wire.CodeMalformedBody, wire.CodeUnsupportedMedia:
		return smallestBodies[c.template()]
	case wire.CodeBodyTooLarge: // before a route was looked for
		if len(c.rctx.Host()) == 0 {
			return anyBody()
		}
		return smallestBodies[strings.TrimRight(string(c.rctx.URI().PathOriginal()), "/")]
	}
	return nil
}

// anyBody works on each of the paths: what is none of its fields a path ignores. It
// is for a body that came in chunks, of which nothing is known any more when they
// are too many, not even the path.
func anyBody() wire.Object {
	all := wire.Object{}
	for _, path := range slices.Sorted(maps.Keys(smallestBodies)) {
		for _, m := range smallestBodies[path] {
			if !all.Has(m.Name) {
				all = append(all, m)
			}
		}
	}
	return all
}

// freshID makes a request_id that nobody has used: a hash of what was sent and
// the moment.
func freshID(now time.Time, seed ...string) string {
	h := sha256.New()
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(now.UnixNano())))
	for _, s := range seed {
		h.Write([]byte(s))
		h.Write([]byte{0})
	}
	const digits = 16
	return "req-" + strings.ToLower(base32.StdEncoding.EncodeToString(h.Sum(nil)))[:digits]
}

// repair is the caller's own entry with its bad parts mended: what the Error
// object shows as an example. The result always passes the same rules.
func (e *newEntry) repair(rules *entryRules, now time.Time) wire.Object {
	o := wire.Object{{"body", mend(e, "body", e.body.value, command.MinBody, rules.maxBody, exampleBody)}}
	if e.kind.given {
		o = o.With("kind", e.cmd.Kind.String())
	}
	if e.agent.given {
		o = o.With("agent", mendName(text.AgentName(e.agent.value), command.MaxName, exampleAgent))
	}
	if e.channel.given {
		o = o.With("channel", mendName(text.ChannelName(e.channel.value), command.MaxChannel, "general"))
	}
	if e.title.given {
		if title := mend(e, "title", e.title.value, command.MinTitle, command.MaxTitle, ""); title != "" {
			o = o.With("title", title)
		}
	}
	if e.requestID.given || rules.strictRequestID {
		id := e.cmd.Request.ID
		if id == "" {
			id = freshID(now, e.requestID.value, e.agent.value, e.body.value)
		}
		o = o.With("request_id", id)
	}
	if e.tagsGiven {
		o = o.With("tags", e.repairTags(command.MaxTags))
	}
	o = e.repairRelation(o)
	if doc := (wire.Document{Fields: o}); readNewEntry(&doc, rules).problems.Any() {
		o = minimalEntry()
		if rules.strictRequestID {
			o = o.With("request_id", freshID(now, e.body.value))
		}
	}
	return o
}

// repairTags keeps the tags that can be kept.
func (e *newEntry) repairTags(most int) []any {
	tags := []any{}
	for _, tag := range e.tags {
		if tag = wire.Cut(tag, command.MaxTag); tag != "" && len(tags) < most {
			tags = append(tags, tag)
		}
	}
	return tags
}

// repairRelation keeps a target that can be kept, and mends the relation to it.
func (e *newEntry) repairRelation(o wire.Object) wire.Object {
	switch {
	case e.cmd.Target == "" || e.targetBad:
	case e.replyTo.given:
		o = o.With("reply_to", e.cmd.Target)
	default:
		relation := e.cmd.Relation
		// Who may retract hangs on the name, and an example may need another.
		if e.problems.Has("relation") || relation == command.RelationRetraction && e.problems.Has("agent") {
			relation = command.RelationFollowUp
		}
		o = o.With("supersedes", e.cmd.Target)
		o = o.With("relation", relation.String())
	}
	return o
}

// mend brings a text within its bounds: cut when it is too long, replaced when it
// is too short.
func mend(e *newEntry, field, s string, shortest, longest int, instead string) string {
	if !e.problems.Has(field) && wire.Count(s) <= longest {
		return s
	}
	if s = wire.Cut(s, longest); wire.Count(s) < shortest {
		return instead
	}
	return s
}

// mendName is mend for a name that was already converted.
func mendName(name string, longest int, instead string) string {
	if name = strings.Trim(wire.Cut(name, longest), "-"); wire.Count(name) < command.MinName {
		return instead
	}
	return name
}
