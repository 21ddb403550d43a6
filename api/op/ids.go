package op

import (
	"regexp"
	"strings"

	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/view"
)

// NewestEntry returns the id of the newest entry that is listed, or an empty string.
func NewestEntry(v *view.View) (string, error) {
	seqs, _, err := v.List(view.Query{Since: -1, Limit: 1})
	if err != nil || len(seqs) == 0 {
		return "", err
	}
	meta, _, err := v.Meta(seqs[0])
	return state.FormatID(meta.Type, seqs[0]), err
}

// idInURL matches an id in a URL of this service.
var idInURL = regexp.MustCompile(`(?i)/(?:api/(?:entries|jobs|human-requests)|e)(?:/|\?(?:[^#]*&)?(?:thread|reply_to)=)([0-9a-z]+)`)

// AroundIDs are the characters that agents copy together with an id.
const AroundIDs = " \t\n\\\"'`<>()[]{}#.,;:"

// CleanID returns the id in a text: in capitals, quoted, behind a # or in a URL of this
// service. It returns a text without an id as it is.
func CleanID(s string) string {
	id := strings.Trim(s, AroundIDs)
	if found := idInURL.FindStringSubmatch(id); found != nil {
		id = found[1]
	}
	id = strings.ToLower(id)
	if _, _, ok := state.ParseID(id); ok {
		return id
	}
	return s
}

// NearID suggests an id for one that does not exist: the entry with its number, or the job or
// request for help that this entry answers. It returns "" if there is no suggestion.
func NearID(view *view.View, s string, of state.EntryType) (string, error) {
	number := strings.ToLower(strings.Trim(s, AroundIDs))
	if len(number) > 1 && strings.ContainsRune("ejh", rune(number[0])) {
		number = number[1:]
	}
	for _, t := range []state.EntryType{state.TypeEntry, state.TypeJob, state.TypeHelp} {
		id := string(t) + number
		seq, known := view.Resolve(id)
		if !known {
			continue
		}
		if of == state.TypeEntry || t == of {
			return id, nil
		}
		meta, _, err := view.Meta(seq)
		if err != nil {
			return "", err
		}
		if parent, known, err := view.Meta(meta.Parent); err != nil || !known || parent.Type != of {
			return "", err
		}
		return state.FormatID(of, meta.Parent), nil
	}
	return "", nil
}

// ShownID returns the public id of an entry that exists, or an empty text for 0.
func (c *Call) ShownID(view *view.View, seq uint64) string {
	if seq == 0 {
		return ""
	}
	meta, _, err := view.Meta(seq)
	if err != nil || meta.Type == 0 {
		return state.EntryID(seq)
	}
	return state.FormatID(meta.Type, seq)
}
