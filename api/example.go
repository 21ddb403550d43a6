package api

import (
	"regexp"
	"strings"
	"time"

	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm"
)

// doubt is a reference that names nothing as it was sent.
type doubt struct {
	field, value string
	of           fsm.EntryType // what it is to name
}

// keep puts a value into the example.
func (f *form) keep(name string, value any) {
	for i := range f.kept {
		if f.kept[i].Name == name {
			f.kept[i].Value = value
			return
		}
	}
	f.kept = append(f.kept, wire.Field{name, value})
}

// settle keeps a field that was sent and has no problem. One that has a problem is for
// the caller to correct.
func (f *form) settle(field *formField, given bool, value any) {
	switch {
	case f.problems.Has(field.name):
		f.lost = true
	case given:
		f.keep(field.name, value)
	}
}

// example is the caller's own request, corrected. It is empty where only the caller can
// correct it. It never holds an edit_key.
func (f *form) example(view *fsm.View, now time.Time) (wire.Object, error) {
	for _, d := range f.doubts {
		id, err := nearID(view, d.value, d.of)
		if err != nil {
			return nil, err
		}
		if id == "" {
			f.lost = true
		}
		f.keep(d.field, id)
	}
	if f.lost {
		return wire.Object{}, nil
	}
	if f.stale {
		f.keep(fieldRequestID.name, freshID(now, f.requestID.value, f.name.value, f.author.Agent))
	}
	return f.kept, nil
}

// idInURL finds the id in an address of ours.
var idInURL = regexp.MustCompile(`(?i)/api/(?:entries|jobs|human-requests)(?:/|\?(?:[^#]*&)?(?:thread|reply_to)=)([0-9a-z]+)`)

// aroundIDs is what stands around an id where agents copy it from.
const aroundIDs = " \t\n\\\"'`<>()[]{}#.,;:"

// idOf is the id in a text: in capitals, quoted, behind a # or in an address of ours.
// What holds none stays as it is.
func idOf(s string) string {
	id := strings.Trim(s, aroundIDs)
	if found := idInURL.FindStringSubmatch(id); found != nil {
		id = found[1]
	}
	id = strings.ToLower(id)
	if _, _, ok := fsm.ParseID(id); ok {
		return id
	}
	return s
}

// nearID is the id that a text which names nothing may stand for: that of the entry
// with its number, or, where a job or a request for help is meant, of that which this
// entry answers.
// It is "" where there is none.
func nearID(view *fsm.View, s string, of fsm.EntryType) (string, error) {
	number := strings.ToLower(strings.Trim(s, aroundIDs))
	if len(number) > 1 && strings.ContainsRune("ejh", rune(number[0])) {
		number = number[1:]
	}
	for _, t := range []fsm.EntryType{fsm.TypeEntry, fsm.TypeJob, fsm.TypeHelp} {
		id := string(t) + number
		seq, known := view.Resolve(id)
		if !known {
			continue
		}
		if of == fsm.TypeEntry || t == of {
			return id, nil
		}
		meta, _, err := view.Meta(seq)
		if err != nil {
			return "", err
		}
		if parent, known, err := view.Meta(meta.Parent); err != nil || !known || parent.Type != of {
			return "", err
		}
		return fsm.FormatID(of, meta.Parent), nil
	}
	return "", nil
}
