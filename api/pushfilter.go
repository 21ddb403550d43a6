package api

import (
	"slices"
	"strings"

	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
)

var fieldNotify = entryField{"notify", nil, 0}

// notifyChoice is a member of notify.
type notifyChoice struct {
	name   string
	filter command.PushFilter // what it stands for
	leaves bool               // whether it leaves entries out when it is true
}

var notifyChoices = [...]notifyChoice{
	{"replies", command.NoReplies, false},
	{"mentions", command.NoMentions, false},
	{"jobs", command.NoJobs, false},
	{"only_proven", command.OnlyProven, true},
}

// notifyObject says what is pushed through a filter.
func notifyObject(f command.PushFilter) wire.Object {
	o := make(wire.Object, len(notifyChoices))
	for i, c := range notifyChoices {
		o[i] = wire.Field{c.name, (f&c.filter != 0) == c.leaves}
	}
	return o
}

// readNotify reads what is to be pushed: an object, or its JSON where the source is
// flat. What it leaves out is as in a new profile.
func (f *agentForm) readNotify(doc *wire.Document) {
	value := fieldNotify.pick(doc)
	if value == nil {
		return
	}
	fields, ok := membersOf(value, doc.Flat)
	if !ok {
		f.problems.Add(fieldNotify.name, "must be an object, such as {\"mentions\":false,\"only_proven\":true}")
		return
	}
	for _, member := range fields {
		i := slices.IndexFunc(notifyChoices[:], func(c notifyChoice) bool { return c.name == member.Name })
		on, isBool := member.Value.(bool)
		switch {
		case i < 0:
			f.problems.Add(fieldNotify.name, "must hold replies, mentions, jobs and only_proven alone")
			return
		case !isBool:
			f.problems.Add(fieldNotify.name, "must say true or false for each, %s is neither", member.Name)
			return
		case on == notifyChoices[i].leaves:
			f.notify |= notifyChoices[i].filter
		}
	}
}

// membersOf returns the members of an object, ordered by their names.
func membersOf(value any, flat bool) (fields []wire.Field, ok bool) {
	switch v := value.(type) {
	case map[string]any:
		for name, value := range v {
			fields = append(fields, wire.Field{name, value})
		}
	case string:
		if !flat {
			return nil, false
		}
		var err error
		if fields, err = wire.ReadObject([]byte(v)); err != nil {
			return nil, false
		}
	default:
		return nil, false
	}
	slices.SortFunc(fields, func(a, b wire.Field) int { return strings.Compare(a.Name, b.Name) })
	return fields, true
}
