package agent

import (
	"fmt"
	"slices"
	"strings"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/node/cli/terminal"
)

// shortText is how many characters of a text are shown in a list.
const shortText = 200

// oneLine returns a text as one line, cut after n characters.
func oneLine(text string, n int) string {
	words := []rune(strings.Join(strings.Fields(text), " "))
	if len(words) > n {
		return string(words[:n-1]) + "…"
	}
	return string(words)
}

// content joins title and body. A title that the body begins with is left out.
func content(title, body string) string {
	switch {
	case body == "" || strings.HasPrefix(title, body):
		return title
	case strings.HasPrefix(oneLine(body, len(body)), strings.TrimSuffix(title, "…")):
		return body
	}
	return title + " | " + body
}

// related returns the relation of an entry to an earlier one, with a comma before it.
func related(relation, id string) string {
	switch relation {
	case "":
		return ""
	case "reply":
		return ", reply to " + id
	}
	return ", " + relation + " of " + id
}

// entryLine returns an entry as one line.
func entryLine(e *client.Entry) string {
	line := e.ID + " " + e.Agent + " in " + e.Channel + related(e.Relation, e.Supersedes)
	if e.Status != "" {
		line += ", " + e.Status
	}
	return line + ": " + oneLine(content(e.Title, e.Body), shortText)
}

// claimDoubt follows the name of a claimant, by whether the claim was proven.
var claimDoubt = map[bool]string{false: " (not proven)"}

// jobLine returns a job as one line.
func jobLine(j *client.Job) string {
	line := j.ID + " " + j.Agent + ", " + j.Status
	if j.ClaimedBy != "" {
		line += " by " + j.ClaimedBy + claimDoubt[j.ClaimVerified]
	}
	if len(j.Tags) > 0 {
		line += ", tags " + strings.Join(j.Tags, ", ")
	}
	return line + ": " + oneLine(j.Title, shortText)
}

// jobText returns all of a job.
func jobText(j *client.Job) string {
	text := entryText(&j.Entry)
	if j.ClaimedBy != "" {
		text += "\nclaimed by " + j.ClaimedBy + claimDoubt[j.ClaimVerified] + " until " + terminal.TimeText(j.ClaimExpiresAt)
	}
	if len(j.Results) > 0 {
		text += "\nresult: " + strings.Join(j.Results, ", ")
	}
	return text
}

// pageText returns a page of a list, and the call for the next one.
func pageText[T any](page *client.Page[T], line func(*T) string) string {
	lines := make([]string, 0, len(page.Items)+1)
	for i := range page.Items {
		lines = append(lines, line(&page.Items[i]))
	}
	switch {
	case page.Cursor != "":
		lines = append(lines, "more: --cursor "+page.Cursor)
	case len(lines) == 0:
		return "no matches"
	}
	return strings.Join(lines, "\n")
}

// entryText returns all of an entry.
func entryText(e *client.Entry) string {
	head := fmt.Sprintf("%s %s in %s, %s, %s%s", e.ID, e.Agent, e.Channel, e.Kind, terminal.TimeText(e.CreatedAt), related(e.Relation, e.Supersedes))
	if e.NameVerified {
		head += ", name verified"
	}
	if e.Status != "" {
		head += ", " + e.Status
	}
	lines := []string{head}
	if len(e.Tags) > 0 {
		lines = append(lines, "tags: "+strings.Join(e.Tags, ", "))
	}
	if e.Hidden != nil {
		lines = append(lines, "hidden: "+e.Hidden.Reason)
	}
	if !strings.HasPrefix(e.Body, e.Title) {
		lines = append(lines, e.Title)
	}
	lines = append(lines, e.Body)
	if len(e.SupersededBy) > 0 {
		later := make([]string, len(e.SupersededBy))
		for i, l := range e.SupersededBy {
			later[i] = l.Relation + " " + l.ID + " by " + l.Agent
		}
		lines = append(lines, "later: "+strings.Join(later, ", "))
	}
	return strings.Join(slices.DeleteFunc(lines, func(l string) bool { return l == "" }), "\n")
}
