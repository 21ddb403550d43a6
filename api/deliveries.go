package api

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/gofiber/fiber/v2"

	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/text"
)

// bearerScheme comes before the edit_key in an Authorization header.
const bearerScheme = "Bearer"

// Where an edit_key goes that no body holds, and where a notify_url is set.
const (
	keyInHeader    = "in the header Authorization: " + bearerScheme + " " + wire.ExampleKey
	receiverSource = "by POST /api/agents"
)

// signingKeyPrefix begins a public key as the Standard Webhooks specification
// writes it.
const signingKeyPrefix = "whpk_"

// keyParams are the parameters by which clients like to send credentials.
var keyParams = []string{fieldEditKey.name, "key", "token", "access_token", "authorization", "bearer"}

// keyed is the handler of an operation for the holder of an edit_key.
func keyed(run func(c *call, _ *listing) error) handler {
	read := reading(freshnessParams, nil, run)
	return private(func(c *call) (task, error) {
		if err := c.rejectKeyInURL(); err != nil {
			return task{}, err
		}
		return read(c)
	})
}

// getDeliveries serves GET /api/agents/{id}/deliveries: what was pushed to an agent, for
// the holder of its edit_key.
var getDeliveries = keyed(func(c *call, _ *listing) error {
	agentKey := text.Fold(text.AgentName(c.param("id")))
	view := c.read()
	outbox, err := view.Outbox(agentKey)
	if errors.Is(err, fsm.ErrNotFound) {
		return wire.Missing("agent")
	}
	if err != nil {
		return fmt.Errorf("look at deliveries: %w", err)
	}
	key := c.bearerKey()
	if key == "" {
		return errKeyNeeded(command.ProblemNoKey)
	}
	standing, err := view.Standing(command.Signature{AgentKey: agentKey, Proof: &command.Proof{Key: hashSecret(key)}})
	if err != nil {
		return fmt.Errorf("look at the profile: %w", err)
	}
	if standing.Strength != command.ByKey {
		return errKeyNeeded(command.ProblemWrongKey)
	}
	return c.answerDeliveries(view, &outbox)
})

// answerDeliveries answers with what an agent may know of its deliveries.
func (c *call) answerDeliveries(view *fsm.View, outbox *fsm.Outbox) error {
	var first any
	if outbox.First != nil {
		o, err := deliveryObject(view, outbox.First)
		if err != nil {
			return err
		}
		first = o
	}
	newest := make([]wire.Object, len(outbox.Newest))
	for i := range outbox.Newest {
		var err error
		if newest[i], err = deliveryObject(view, &outbox.Newest[i]); err != nil {
			return err
		}
	}
	return c.answerObject(http.StatusOK, c.withNotes(wire.Object{
		{"active", outbox.Active}, {"notify", notifyObject(outbox.Filter)}, {"waiting", outbox.Waiting}, {"next", first}, {"deliveries", newest},
	}))
}

// postTestDelivery serves POST /api/agents/{id}/deliveries/test: an event without an
// entry, for the holder of the agent's edit_key. It needs nothing from the body.
var postTestDelivery = private(func(c *call) (task, error) {
	if _, err := c.body(); err != nil {
		return task{}, err
	}
	return keyed((*call).testDelivery)(c)
})

// testDelivery queues a test event.
func (c *call) testDelivery(*listing) error {
	name := text.AgentName(c.param("id"))
	agentKey := text.Fold(name)
	if _, known, err := c.read().Profile(agentKey); err != nil || !known {
		return errors.Join(err, wire.Missing("agent"))
	}
	key := c.bearerKey()
	if key == "" {
		return errKeyNeeded(command.ProblemNoKey)
	}
	from := command.Sender{Fingerprint: c.srv.backend.Fingerprint(c.sender()), AgentKey: agentKey}
	result, err := c.propose(from, &command.TestDelivery{AgentKey: agentKey, Proof: command.Proof{Key: hashSecret(key)}})
	switch {
	case err != nil:
		if rejection := toError(err); rejection != nil {
			rejection.Example = wire.Object{}
			return rejection
		}
		return err
	case slices.Contains(result.Problems, command.ProblemUnknownAgent):
		return wire.Missing("agent")
	case slices.Contains(result.Problems, command.ProblemNoHook):
		return &wire.Error{
			Code:    wire.CodeNoReceiver,
			Message: "This profile has no notify_url to deliver to. Set one " + receiverSource + ".",
			Issues:  []wire.Issue{{fieldNotifyURL.name, "is not set, or was removed because the receiver answered 410"}},
		}
	case len(result.Problems) > 0:
		return errKeyNeeded(result.Problems[0])
	}
	return c.answerTestDelivery(name, agentKey, result.Entry)
}

// answerTestDelivery shows a delivery that was queued.
func (c *call) answerTestDelivery(name, agentKey string, number uint64) error {
	view, err := c.readBack()
	if err != nil {
		return err
	}
	d, _, err := view.Delivery(agentKey, number)
	if err != nil {
		return fmt.Errorf("show a delivery: %w", err)
	}
	list := "/api/agents/" + url.PathEscape(name) + "/deliveries"
	note := "It is queued. GET " + list + " shows its status."
	if d.Status == fsm.DeliveryDropped {
		note = fmt.Sprintf("It was dropped: %d deliveries wait for this receiver already. GET %s says why.", command.MaxWaitingDeliveries, list)
	}
	shown, err := deliveryObject(view, &d)
	if err != nil {
		return err
	}
	c.out.Header.Set(fiber.HeaderLocation, list)
	return c.answerObject(http.StatusCreated, wire.Object{{"delivery", shown}, {"notes", []string{note}}})
}

// deliveryObject is a delivery as its agent sees it.
func deliveryObject(view *fsm.View, d *fsm.Delivery) (wire.Object, error) {
	var entry, reason, next any
	if d.Entry != 0 {
		meta, _, err := view.Meta(d.Entry)
		if err != nil {
			return nil, fmt.Errorf("show a delivery: %w", err)
		}
		entry = fsm.FormatID(meta.Type, d.Entry)
	}
	if d.Reason != "" {
		reason = d.Reason
	}
	if d.NextAt != 0 {
		next = d.NextAt
	}
	return wire.Object{
		{"id", d.ID},
		{"type", d.Kind.String()},
		{"entry", entry},
		{"status", d.Status.String()},
		{"attempts", d.Attempts},
		{"reason", reason},
		{"queuedAt", d.QueuedAt},
		{"changedAt", d.ChangedAt},
		{"nextAttemptAt", next},
	}, nil
}

// bearerKey returns the edit_key of the Authorization header; "": there is none.
func (c *call) bearerKey() string {
	scheme, key, _ := strings.Cut(strings.TrimSpace(c.header(fiber.HeaderAuthorization)), " ")
	if !strings.EqualFold(scheme, bearerScheme) {
		return ""
	}
	if key = strings.TrimSpace(key); !isEditKey(key) {
		return "" // gateways send tokens of their own
	}
	return key
}

// rejectKeyInURL rejects a key where servers, proxies and histories keep it.
func (c *call) rejectKeyInURL() error {
	pairs, err := c.query()
	if err != nil {
		return err
	}
	for _, p := range pairs {
		if slices.Contains(keyParams, strings.ToLower(p.Name)) || strings.HasPrefix(p.Value, EditKeyPrefix) {
			return wire.Invalid([]wire.Issue{{
				fieldEditKey.name, "must never be in a URL: send it " + keyInHeader + ", and treat this key as public",
			}}, wire.Object{})
		}
	}
	return nil
}

// errKeyNeeded rejects a call that only the holder of an agent's edit_key may make.
func errKeyNeeded(problem command.Problem) *wire.Error {
	issue := profileRejections[problem].Issue
	if problem == command.ProblemNoKey {
		issue.Message = "is required, " + keyInHeader
	}
	return &wire.Error{
		Code:    wire.CodeWrongKey,
		Message: "Only the holder of this agent's edit_key may do this.",
		Issues:  []wire.Issue{issue},
	}
}

// getSigningKeys serves GET /.well-known/commons-keys.json: the keys with which receivers
// check signatures.
func getSigningKeys(c *call) error {
	keys, err := c.read().SigningKeys()
	if err != nil {
		return fmt.Errorf("look at the signing keys: %w", err)
	}
	if len(keys) == 0 {
		return &wire.Error{Code: wire.CodeNotReady, Message: "This cluster has no signing key yet. The leader makes one within seconds."}
	}
	list := make([]wire.Object, len(keys))
	for i := range keys {
		k := &keys[i]
		var replaced any
		if k.ReplacedAt != 0 {
			replaced = k.ReplacedAt
		}
		list[i] = wire.Object{
			{"algorithm", "ed25519"},
			{"key", signingKeyPrefix + base64.StdEncoding.EncodeToString(k.Public)},
			{"createdAt", k.CreatedAt},
			{"replacedAt", replaced},
		}
	}
	return c.answerCached(contentJSON, string(wire.Object{{"keys", list}}.AppendJSON(nil)))
}

// httpsPort is the only port to which entries are pushed.
const httpsPort = "443"

// localNames end the names of hosts that are not on the public internet.
var localNames = []string{
	"alt", "arpa", "corp", "home", "internal", "intranet", "invalid", "lan", "local", "localdomain", "localhost",
	"onion", "private", "test",
}

// NotifyRules say which addresses events may be pushed to. The zero value takes
// hosts of the public internet on port 443.
type NotifyRules struct {
	// OwnHosts returns the names of this service itself as they are now, to which
	// nothing is pushed; nil is none.
	OwnHosts func() []string
	// Port may be named beside 443, for tests; 0 is none.
	Port uint16
	// Local lets names of local networks pass, for tests.
	Local bool
}

// Problem says what is wrong with an address that events are to be pushed to; ""
// is nothing. Where the name leads to is looked at each time that something is
// sent there.
func (r NotifyRules) Problem(s string) string {
	u, reason := parseHTTPS(s)
	if reason != "" {
		return reason
	}
	if !r.takesPort(u) {
		reason := "must be on port " + httpsPort
		if r.Port != 0 {
			reason += " or " + strconv.Itoa(int(r.Port))
		}
		return reason
	}
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	labels := strings.Split(host, ".")
	last := labels[len(labels)-1]
	_, notAddress := netip.ParseAddr(host)
	switch {
	// A last label of digits is read as part of an address, in many spellings.
	case notAddress == nil, strings.Trim(last, "0123456789") == "" && last != "", strings.HasPrefix(last, "0x"):
		return "must name its host, not an address"
	case slices.ContainsFunc(labels, badLabel):
		return "must name its host in letters, digits and hyphens; write an international name in its xn-- form"
	case !r.Local && (len(labels) < 2 || slices.Contains(localNames, last)):
		return "must name a host on the public internet"
	case r.owns(host):
		return "must name another host than this service"
	}
	return ""
}

// owns reports a name of this service itself.
func (r NotifyRules) owns(host string) bool {
	return r.OwnHosts != nil && slices.ContainsFunc(r.OwnHosts(), func(own string) bool {
		return strings.EqualFold(strings.TrimSuffix(own, "."), host)
	})
}

// takesPort reports whether the address is on a port that may be used.
func (r NotifyRules) takesPort(u *url.URL) bool {
	switch port := u.Port(); port {
	case "":
		return !strings.HasSuffix(u.Host, ":")
	case httpsPort:
		return true
	default:
		return r.Port != 0 && port == strconv.Itoa(int(r.Port))
	}
}

// badLabel reports a part of a host's name that DNS would not take.
func badLabel(label string) bool {
	const longest = 63
	if label == "" || len(label) > longest || label[0] == '-' || label[len(label)-1] == '-' {
		return true
	}
	return strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-") != ""
}

// publicURLProblem says what is wrong with an address that is shown to everybody;
// "" is nothing.
func publicURLProblem(s string) string {
	_, reason := parseHTTPS(s)
	return reason
}

// parseHTTPS reads an https address without credentials, or says what is wrong.
func parseHTTPS(s string) (*url.URL, string) {
	if n := wire.Count(s); n > command.MaxURL {
		return nil, "may have at most " + strconv.Itoa(command.MaxURL) + " characters; this one has " + strconv.Itoa(n)
	}
	const scheme = "https://"
	if len(s) < len(scheme) || !strings.EqualFold(s[:len(scheme)], scheme) {
		return nil, "must start with https://"
	}
	u, err := url.Parse(s)
	switch {
	case err != nil, u.Hostname() == "", strings.ContainsAny(s, " \t\n\\"):
		return nil, "must be a well-formed address"
	case u.User != nil:
		return nil, "must not hold a user name or password"
	}
	return u, ""
}
