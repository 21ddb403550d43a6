package operate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/api/op/moderate"
	"github.com/commons-cluster/commons/node/admin"
	"github.com/commons-cluster/commons/node/cli/terminal"
	"github.com/commons-cluster/commons/node/config"
	"github.com/commons-cluster/commons/node/loop"
)

// moderation is the address that a moderator's command calls: a node's public interface,
// with a token, or its private port, as the operator.
type moderation struct {
	target    `embed:""`
	URL       string `name:"url" env:"COMMONS_URL" placeholder:"URL" help:"Ask a node's public interface there, as a moderator, in place of the private port."`
	TokenFile string `name:"token-file" env:"COMMONS_TOKEN_FILE" placeholder:"FILE" help:"The moderator's token, with --url."`

	repeated bool // a call failed and was repeated; the failed one may have had its effect
}

const callPause = 500 * time.Millisecond // the pause before a failed call is repeated

// modCall makes a call of moderation; nil means no body. It repeats a call that fails for
// a temporary reason, such as a change of leader. That is safe, because the operations of
// moderation are idempotent.
func modCall[Answer any](ctx context.Context, m *moderation, operation string, query url.Values, body any) (answer Answer, err error) {
	call := admin.Moderation{Operation: operation, Query: query.Encode()}
	if body != nil {
		if call.Body, err = json.Marshal(body); err != nil {
			return answer, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, m.Timeout)
	defer cancel()
	for {
		if m.URL == "" {
			answer, err = ask[Answer](ctx, &m.target, admin.PathModerate, call)
		} else {
			answer, err = modRequest[Answer](ctx, m, call)
		}
		failed, is := errors.AsType[*admin.CallError](err)
		if err == nil || isConfigError(err) || is && failed.Status != 0 && failed.Status < http.StatusInternalServerError {
			return answer, err
		}
		if !loop.Pause(ctx, callPause) {
			return answer, err
		}
		m.repeated = true
	}
}

func modShow[Answer any](ctx context.Context, std terminal.Streams, m *moderation, operation string, query url.Values, body any, text func(*Answer) string) error {
	a, err := modCall[Answer](ctx, m, operation, query, body)
	if err != nil {
		return err
	}
	return terminal.Show(std.Out, m.JSON, a, text(&a))
}

func modRequest[Answer any](ctx context.Context, m *moderation, call admin.Moderation) (answer Answer, err error) {
	method, path := moderate.PathOf(call.Operation)
	token, err := os.ReadFile(m.TokenFile)
	switch {
	case path == "":
		return answer, &config.Error{Problems: []string{"--url: this is for operators alone; leave it out, and name a private port with --cluster-addr"}}
	case m.TokenFile == "":
		return answer, &config.Error{Problems: []string{"--token-file: name the file with your moderator's token; an operator makes a token with `commons mod token create NAME`"}}
	case err != nil:
		return answer, &config.Error{Problems: []string{"--token-file: " + err.Error()}}
	}
	public, err := client.New(client.Config{URLs: []string{m.URL}, Key: strings.TrimSpace(string(token)), Patience: -1, Timeout: m.Timeout})
	if err != nil {
		return answer, &config.Error{Problems: []string{"--url: " + err.Error()}}
	}
	var body any
	if len(call.Body) > 0 {
		body = call.Body
	}
	err = public.Do(ctx, method, path+"?"+call.Query, body, &answer)
	if errors.Is(err, client.ErrKeyWithheld) {
		return answer, &config.Error{Problems: []string{"--url: " + err.Error()}}
	}
	if rejection, is := errors.AsType[*client.Error](err); is {
		object, _ := json.Marshal(rejection) // never fails: it was JSON
		return answer, &admin.CallError{Status: rejection.Status, Message: admin.PublicError(object)}
	}
	return answer, err
}

const unchangedYet = "Nothing was changed yet: give --yes to do it." // the last line of a dry run

// ErrUnchanged is the error of a command that changed no entry, profile or report. The
// command has printed the reason.
var ErrUnchanged = errors.New("nothing was changed")

// showChange shows the changes of a command. If there was no change, and no earlier attempt
// may have made it, it returns ErrUnchanged.
func (m *moderation) showChange(std terminal.Streams, answer any, text string, changed int, dry bool) error {
	err := terminal.Show(std.Out, m.JSON, answer, text)
	switch {
	case err != nil || changed > 0:
		return err
	case dry || !m.repeated:
		return ErrUnchanged
	}
	_, err = fmt.Fprintln(std.Err, "commons: the call failed and was repeated: an earlier attempt may have done it; 'mod log' shows what was done")
	return err
}

// doneEarlier returns nil for the rejection of a repeated call whose change, such as the end of a
// rule, an earlier attempt may have made. It returns other errors unchanged.
func (m *moderation) doneEarlier(std terminal.Streams, what string, err error) error {
	failed, is := errors.AsType[*admin.CallError](err)
	if !is || failed.Status != http.StatusUnprocessableEntity || !m.repeated {
		return err
	}
	_, err = fmt.Fprintf(std.Err, "commons: %s: the call failed and was repeated: an earlier attempt may have done it; 'mod log' shows what was done\n", what)
	return err
}

// oneLine joins the texts that are not empty. A title that the body begins with is left out.
func oneLine(texts ...string) string {
	texts = slices.DeleteFunc(texts, func(s string) bool { return s == "" })
	if len(texts) > 1 && strings.HasPrefix(texts[1], texts[0]) {
		texts = texts[1:]
	}
	return strings.NewReplacer("\n", " ", "\t", " ").Replace(strings.Join(texts, " | "))
}

// listQuery returns the parameters of a list: its limit, and the filters that are not empty.
func listQuery(limit int, filters map[string]string) url.Values {
	query := url.Values{"limit": {strconv.Itoa(limit)}}
	for field, value := range filters {
		if value != "" {
			query.Set(field, value)
		}
	}
	return query
}
