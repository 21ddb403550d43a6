package read

import (
	"slices"
	"strings"

	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/text"
	"github.com/commons-cluster/commons/fsm/view"
)

// repeated are the filters that may be repeated, because their values may contain commas.
// Other filters with several values have these in one list, separated by commas.
var repeated = []string{"agent", "tag"}

// ReadNames reads the filters by kind and by name.
func (l *Params) ReadNames() {
	l.Query.Kind = l.Several("kind", command.MaxName, func(s string) string {
		kind, note, problem := wire.ParseKind(s)
		if problem != "" {
			l.Problems.Add("kind", "%s", problem)
			return ""
		}
		if note != "" && !slices.Contains(l.notes, note) {
			l.notes = append(l.notes, note)
		}
		return kind.String()
	})
	l.ReadChannels()
	l.ReadAgents()
	l.Query.ForKey = text.Fold(l.Agent("for"))
	l.ReadTags()
}

// ReadChannels reads the filter by channel.
func (l *Params) ReadChannels() {
	l.Query.Channel = l.Several("channel", wire.MaxRawName, func(s string) string {
		return l.Name("channel", text.ChannelName(s), command.MaxChannel)
	})
}

// ReadAgents reads the filter by author.
func (l *Params) ReadAgents() {
	l.Query.AgentKey = l.Several("agent", wire.MaxRawName, func(s string) string {
		return text.Fold(l.Name("agent", text.AgentName(s), command.MaxName))
	})
}

// ReadTags reads the filter by tag.
func (l *Params) ReadTags() {
	l.Query.TagKey = l.Several("tag", command.MaxTag, func(s string) string {
		return text.FoldTag(strings.TrimPrefix(s, "#"))
	})
}

// Several reads a filter that may have several values, and joins these with view.Or, sorted.
// convert returns an empty string for a value with a problem.
func (l *Params) Several(field string, longest int, convert func(s string) string) string {
	sent, _ := l.Doc.Get(field).(string)
	all := l.all(field)
	several := all != nil
	if !several {
		all = []string{sent}
	}
	var texts []string
	for _, s := range all {
		list, isList := wire.ReadTexts(s)
		if !isList {
			list = []string{s}
		}
		texts, several = append(texts, list...), several || isList
	}
	switch {
	case len(texts) == 0:
		return ""
	case !several && !slices.Contains(repeated, field) && strings.Contains(sent, ","):
		texts = strings.Split(sent, ",")
	case !several:
		if sent = l.Text(field, longest); sent == "" {
			return ""
		}
		l.values++
		return convert(sent)
	}
	var values []string
	for _, s := range texts {
		if s = l.clean(field, s, longest); s == "" {
			continue
		}
		if s = convert(s); s != "" {
			values = append(values, s)
		}
	}
	slices.Sort(values)
	values = slices.Compact(values)
	l.values += len(values)
	l.Looks = l.Looks || len(values) > 1
	switch {
	case l.Problems.Has(field):
	case len(values) == 0:
		l.Problems.Add(field, "has no value between its commas")
	case len(values) > command.MaxValues:
		l.Problems.Add(field, "may have at most %d values; this has %d", command.MaxValues, len(values))
	case l.values > command.MaxAllValues:
		l.Problems.Add(field, "is one too many: all filters of a call may have at most %d values together", command.MaxAllValues)
	}
	return strings.Join(values, view.Or)
}

// all returns the values of a parameter that is repeated, or nil.
func (l *Params) all(field string) (values []string) {
	for _, p := range l.pairs {
		if name, _ := wire.Means(p.Name, l.Takes); name == field && p.Value != "" {
			values = append(values, p.Value)
		}
	}
	if len(values) < 2 {
		return nil
	}
	return values
}
