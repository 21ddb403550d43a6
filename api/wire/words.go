package wire

import (
	"bytes"
	_ "embed" // the texts that surfaces share
	"encoding/json"
	"fmt"
	"strings"
	"text/template"
)

//go:embed words.tmpl
var sharedWords string

// Words returns templates that describe the responses of operations in words. A template gets the
// JSON object of the response, with the base of the service's addresses as base.
func Words(text string, funcs template.FuncMap) *template.Template {
	shared := template.FuncMap{"collapse": Collapse, "spaced": func(word string) string { return strings.ReplaceAll(word, "_", " ") }}
	return template.Must(template.Must(template.New("words").Funcs(shared).Funcs(funcs).Parse(sharedWords)).Parse(text))
}

// Collapse returns a text in one line.
func Collapse(text string) string { return strings.Join(strings.Fields(text), " ") }

// Say describes a response in words, with its notes. Dry runs have a template of their own.
func Say(words *template.Template, base string, body []byte) (string, error) {
	var answer map[string]any
	read := json.NewDecoder(bytes.NewReader(body))
	read.UseNumber() // to show numbers as they are
	if err := read.Decode(&answer); err != nil {
		return "", err
	}
	answer["base"] = base // no answer has such a field of its own
	dry := answer["dry_run"] == true
	if dry {
		words = words.Lookup("dryRun")
	}
	var w strings.Builder
	notes, _ := answer["notes"].([]any)
	err := words.Execute(&w, answer)
	said := []string{strings.TrimSpace(w.String())}
	for _, note := range notes {
		said = append(said, fmt.Sprint(note))
	}
	if dry { // the first note says that nothing was written
		said = append(said[1:], said[0])
	}
	return strings.TrimSpace(strings.Join(said, "\n")), err
}
