package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/commons-cluster/commons/api/client"
)

// Exit codes of failed calls.
const (
	exitUsage       = 2 // the command line cannot work
	ExitRejected    = 3 // the service rejected the call; the same call fails again
	exitUnavailable = 4 // no node could carry it out; the same call may succeed later
	exitUnknown     = 5 // the write may have been carried out
	exitNoJob       = 6 // no open job fits
)

// CallError is the error of a call as the command line shows it.
type CallError struct {
	Code int    // exit code
	Text string // the sentence, and a line for each issue
	Try  string // the corrected command or request, or empty
	Note string // about Try
}

// Error returns all lines.
func (f *CallError) Error() string {
	text := f.Text
	if f.Try != "" {
		text += "\ntry: " + f.Try
	}
	if f.Note != "" {
		text += "\nnote: " + f.Note
	}
	return text
}

// Explain returns the failure of a command for agents, with its correction, or nil if the
// command made no call that failed.
func Explain(parsed *kong.Context, err error) *CallError {
	if group := parsed.Selected().ClosestGroup(); group == nil || group.Key != Group {
		return nil
	}
	if failed, is := errors.AsType[*CallError](err); is {
		return failed
	}
	unknown, isUnknown := errors.AsType[*client.UnknownError](err)
	rejected, isRejected := errors.AsType[*client.Error](err)
	switch {
	case isUnknown:
		return &CallError{Code: exitUnknown, Text: err.Error(), Try: again(parsed, unknown.RequestID)}
	case errors.Is(err, client.ErrKeyWithheld):
		return &CallError{Code: exitUsage, Text: err.Error()}
	case isRejected:
		f := &CallError{Code: ExitRejected, Text: err.Error(), Try: corrected(parsed, rejected), Note: strings.Join(rejected.Notes, " ")}
		if rejected.Code == "" || rejected.Retryable || rejected.Status >= http.StatusBadGateway && rejected.Code != "behind" {
			f.Code, f.Try = exitUnavailable, ""
		}
		return f
	case errors.Is(err, client.ErrUnreachable):
		return &CallError{Code: exitUnavailable, Text: err.Error()}
	}
	return nil
}

// fieldTag is the tag of a flag or an argument with the field of the request that it sets.
const fieldTag = "field"

// implied are the fields that a command sets without a flag, or that are not arguments.
var implied = []string{"action", "agent", "edit_key", "id", "relation", "request_id", "rotate_key", "since"}

// jobCommands are the commands of actions on jobs.
var jobCommands = map[string]string{
	client.ClaimJob: "job take", client.FinishJob: "job finish", client.ReleaseJob: "job release", client.CloseJob: "job close",
}

// relationCommands are the commands of relations.
var relationCommands = map[string]string{"reply": "reply", "correction": "correct", "retraction": "retract"}

// correction makes a command line of the example of a rejection.
type correction struct {
	example map[string]any
	given   map[*kong.Value][]string // values of the rejected command line
	used    []string                 // fields that the new command line sets
}

// corrected returns the command line that sends the example of a rejection, or the example
// itself if no command does. It is empty without an example.
func corrected(parsed *kong.Context, rejected *client.Error) string {
	c := &correction{given: map[*kong.Value][]string{}}
	decoder := json.NewDecoder(bytes.NewReader(rejected.Example))
	decoder.UseNumber()
	if decoder.Decode(&c.example) != nil || len(c.example) == 0 {
		return ""
	}
	for _, p := range parsed.Path {
		switch {
		case p.Flag != nil && !p.Resolved:
			c.given[p.Flag.Value] = formatted(parsed.FlagValue(p.Flag))
		case p.Positional != nil:
			c.given[p.Positional] = formatted(p.Positional.Target.Interface())
		}
	}
	node := parsed.Selected()
	name := jobCommands[fmt.Sprint(c.example["action"])]
	relation, is := c.example["relation"]
	if is || node.Name == relationCommands["correction"] || node.Name == relationCommands["retraction"] {
		if name = relationCommands[fmt.Sprint(relation)]; name == "" {
			return string(rejected.Example)
		}
		if to := c.example["supersedes"]; name == "reply" && to != nil {
			c.example["reply_to"] = to
			delete(c.example, "supersedes")
		}
	}
	if name != "" && name != node.Path() {
		commands := parsed.Model.Leaves(true)
		at := slices.IndexFunc(commands, func(n *kong.Node) bool { return n.Path() == name })
		node = c.moved(node, commands[at])
	}
	line := c.line(node)
	for _, field := range slices.Sorted(maps.Keys(c.example)) {
		if !slices.Contains(c.used, field) && !slices.Contains(implied, field) {
			return string(rejected.Example)
		}
	}
	return line
}

// moved returns a command in place of the rejected one, with the flags that both have, such as
// those of the account.
func (c *correction) moved(from, to *kong.Node) *kong.Node {
	for _, flag := range to.Flags {
		for _, former := range from.Flags {
			if given, is := c.given[former.Value]; is && former.Name == flag.Name {
				c.given[flag.Value] = given
			}
		}
	}
	return to
}

// line returns the command line of a command.
func (c *correction) line(node *kong.Node) string {
	words := strings.Fields(node.FullPath())
	for _, flag := range node.Flags {
		for _, value := range c.values(flag.Value) {
			switch {
			case !flag.IsBool() && strings.HasPrefix(value, "-"):
				words = append(words, "--"+flag.Name+"="+quote(value))
			case !flag.IsBool():
				words = append(words, "--"+flag.Name, quote(value))
			case value == "false":
				words = append(words, "--no-"+flag.Name)
			default:
				words = append(words, "--"+flag.Name)
			}
		}
	}
	for _, argument := range node.Positional {
		values := c.values(argument)
		if len(values) == 0 && argument.Required {
			values = []string{strings.ToUpper(argument.Name)}
		}
		for _, value := range values {
			if strings.HasPrefix(value, "-") && value != standardInput && !slices.Contains(words, "--") {
				words = append(words, "--")
			}
			words = append(words, quote(value))
		}
	}
	return strings.Join(words, " ")
}

// values returns the values of a flag or an argument: those of the example, or those of the
// rejected command line if they are no part of the request.
func (c *correction) values(value *kong.Value) []string {
	field := value.Tag.Get(fieldTag)
	example, is := c.example[field]
	given, wasGiven := c.given[value]
	c.used = append(c.used, field)
	_, needsKey := c.example["edit_key"]
	switch {
	case needsKey && value.Name == "key-file": // the key itself is no argument
		return []string{value.Tag.PlaceHolder}
	case field == "", is && slices.Equal(given, []string{standardInput}):
		return given
	case !is, !wasGiven && slices.Contains(implied, field):
		return nil
	}
	return formatted(example)
}

// formatted returns the values of a flag as text.
func formatted(value any) []string {
	list := reflect.ValueOf(value)
	if list.Kind() != reflect.Slice {
		return []string{fmt.Sprint(value)}
	}
	values := make([]string, list.Len())
	for i := range values {
		values[i] = fmt.Sprint(list.Index(i).Interface())
	}
	return values
}

var plainWord = regexp.MustCompile(`^[\pL\pN_./:@%+=,-]+$`)

// quote returns a word as a POSIX shell reads it.
func quote(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// again returns the same command line with the request_id of its write.
func again(parsed *kong.Context, requestID string) string {
	words := []string{parsed.Model.Name}
	for _, word := range parsed.Args {
		words = append(words, quote(word))
	}
	if requestID != "" && !slices.Contains(words, "--request-id") {
		words = slices.Insert(words, len(strings.Fields(parsed.Selected().FullPath())), "--request-id", requestID)
	}
	return strings.Join(words, " ")
}
