package op

import (
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
)

// Reject answers with an Error object, and returns it.
func (c *Call) Reject(err error) *wire.Error {
	e := ToError(err)
	if e == nil {
		c.Env.Logger.Error("request failed", "route", c.Template(), "err", err)
		e = wire.Internal()
	}
	if slices.Contains(invalidStatuses, e.Status()) {
		c.Charge()
	}
	if !c.CheckOnly {
		c.Env.rejected.WithLabelValues(string(e.Code)).Inc()
	}
	if e.Notes == nil {
		e.Notes = c.Notes
	}
	// An invalid order of a moderator has no example: sending it back might hide entries by mistake.
	o := c.Operation
	order := o != nil && o.Method != http.MethodGet && (o.Path == "" || strings.HasPrefix(o.Path, ModerationPath))
	if NeedsExample[e.Status()] && len(e.Example) == 0 && (!order || e.Status() == http.StatusTooManyRequests) {
		shown := *e
		e = &shown
		e.Example = c.ownRequest()
	}
	c.Hint(e)
	c.Out.Status, c.Out.ContentType = e.Status(), ContentJSON
	c.Out.SetShared(e.Object().AppendJSON(nil))
	return e
}

// ModerationPath begins the paths of the operations of moderators.
const ModerationPath = "/api/moderation/"

// ownRequest returns the request itself without keys, as an example: its body, or the
// parameters of its URL. An empty request becomes a parameter without effect.
func (c *Call) ownRequest() wire.Object {
	var o wire.Object
	if pairs, err := c.Query(); err == nil {
		for _, p := range pairs {
			o = append(o, wire.Field{p.Name, p.Value})
		}
	}
	if doc, err := c.Input.Body(); err == nil && len(doc.Fields) > 0 {
		o = doc.Fields
	}
	if o = withoutKeys(o); len(o) == 0 {
		return wire.Object{{"min_index", 0}}
	}
	return o
}

// withoutKeys returns the members of an object, at any depth, that hold no key. Of members with the
// same name it returns the first.
func withoutKeys(o wire.Object) wire.Object {
	kept, names := make(wire.Object, 0, len(o)), make(map[string]bool, len(o))
	for _, m := range o {
		value, ok := withoutKey(m.Value)
		if !ok || names[m.Name] || slices.Contains(KeyParams, strings.ToLower(m.Name)) {
			continue
		}
		kept, names[m.Name] = kept.With(m.Name, value), true
	}
	return kept
}

// withoutKey returns a value without the parts that hold a key. It reports false for a text with a
// key.
func withoutKey(value any) (_ any, ok bool) {
	switch v := value.(type) {
	case string:
		return v, !strings.Contains(v, EditKeyPrefix) && !strings.Contains(v, RecoveryKeyPrefix) && !strings.Contains(v, WebhookSecretPrefix)
	case []any:
		kept := make([]any, 0, len(v))
		for _, item := range v {
			if item, ok := withoutKey(item); ok {
				kept = append(kept, item)
			}
		}
		return kept, true
	case map[string]any:
		members := make(wire.Object, 0, len(v))
		for _, name := range slices.Sorted(maps.Keys(v)) {
			members = members.With(name, v[name])
		}
		return withoutKeys(members), true
	}
	return value, true
}

// Hint sets the headers that help an HTTP client to handle an error, on every surface.
func (c *Call) Hint(e *wire.Error) {
	h, wait := &c.Out, e.Wait()
	if wait != "" {
		h.Set(HeaderRetryAfter, wait)
	}
	switch e.Status() {
	case http.StatusTooManyRequests:
		limit, policy := limitOfWrites, writePolicy(c.writeLimit())
		if e.Limit != nil {
			limit, policy = e.Limit.Name, ratePolicy(e.Limit.Name, e.Limit.Quota, wire.Seconds(e.Limit.Window))
		}
		h.Set(HeaderRateLimit, `"`+limit+`";r=0;t=`+wait)
		h.Set(HeaderRateLimitPolicy, policy)
	case http.StatusMethodNotAllowed:
		h.Set(HeaderAllow, e.Allow)
	}
}

// ToError converts an error of a backend or a view into an Error; nil if clients must
// not see it.
func ToError(err error) *wire.Error {
	if rejection, ok := errors.AsType[*wire.Error](err); ok {
		return rejection
	}
	if unavailable, ok := errors.AsType[*command.Unavailable](err); ok {
		return &wire.Error{Code: unavailable.Code, Message: "The service cannot do this right now: " + unavailable.Reason + "."}
	}
	if limited, ok := errors.AsType[*command.RateLimited](err); ok {
		rejection := &wire.Error{
			Code: wire.CodeRateLimited, Message: "Too many writes from this sender or this agent.",
			RetryAfter: limited.RetryAfter, Limit: limited.Limit,
		}
		field := "agent"
		if limited.Limit != nil {
			rejection.Message, field = limited.Limit.Message, limited.Limit.Field
		}
		unit := " seconds."
		if rejection.Wait() == "1" {
			unit = " second."
		}
		rejection.Message += " Wait " + rejection.Wait() + unit
		rejection.Issues = []wire.Issue{{field, "is over a limit, or its sender is"}}
		return rejection
	}
	return nil
}

// limitOfWrites names the limit of writes in headers.
const limitOfWrites = "writes"

// ratePolicy is the value of RateLimit-Policy for a limit and a window in seconds.
func ratePolicy(limit string, quota int, window string) string {
	return `"` + limit + `";q=` + strconv.Itoa(quota) + ";w=" + window
}

// writeLimit returns the limit of writes at this node: 0 means no limit.
func (c *Call) writeLimit() (perMinute, burst int) {
	view := c.Env.Backend.View()
	defer view.Release()
	set, err := view.Settings()
	if err != nil {
		c.Env.Logger.Error("reading the settings failed", "error", err)
		set = command.DefaultSettings
	}
	return set.WriteLimit(c.Env.WriteRate, c.Env.WriteBurst)
}

// minWriteWindow is the shortest window of writes, in seconds, in RateLimit-Policy.
const minWriteWindow = 60

// writePolicy is the value of RateLimit-Policy for writes with a rate per minute and a
// burst. The quota is the burst; the window is the time that the bucket takes to refill.
func writePolicy(perMinute, burst int) string {
	const minute = 60
	perMinute = max(perMinute, 1) // another node has the limit
	back := (minute*burst + perMinute - 1) / perMinute
	return ratePolicy(limitOfWrites, burst, strconv.Itoa(max(minWriteWindow, back)))
}

// NeedsExample are the statuses of errors that always have an example.
var NeedsExample = map[int]bool{
	http.StatusUnprocessableEntity: true, http.StatusPreconditionRequired: true, http.StatusTooManyRequests: true,
}
