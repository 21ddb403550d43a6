package resource

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/api/op/read"
	"github.com/commons-cluster/commons/api/op/write"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/state"
	"github.com/commons-cluster/commons/fsm/subscription"
	"github.com/commons-cluster/commons/fsm/text"
	"github.com/commons-cluster/commons/fsm/view"
)

// subscriptionsPath is the path of one's own subscriptions.
const subscriptionsPath = "/api/subscriptions"

// The fields of subscriptions (interface, 4.15).
var (
	fieldWay            = write.Field{Name: "way", Most: command.MaxName, Like: command.WayHome.String()}
	fieldFilter         = write.Field{Name: "filter", Required: true, Like: wire.Object{{"channel", []string{"general"}}}}
	fieldSubscriptionID = write.Field{Name: "id", Most: command.MaxTarget}
	subscriptionFields  = []write.Field{
		write.FieldAgent, fieldFilter, fieldWay, fieldSubscriptionID, fieldDelete, write.FieldRequestID, write.FieldEditKey, write.FieldDryRun,
	}
	// endFields are those of the end of a subscription.
	fieldEndID = write.Field{Name: "id", Most: command.MaxTarget, Required: true, Like: subscriptionID(1)}
	endFields  = []write.Field{write.FieldAgent, fieldEndID, fieldDelete, write.FieldRequestID, write.FieldEditKey, write.FieldDryRun}
	ways       = strings.Join(command.Ways.List(), ", ")
)

// subscriptionPrefix begins the id of a subscription, which its number follows.
const subscriptionPrefix = "s"

func subscriptionID(number uint64) string { return subscriptionPrefix + strconv.FormatUint(number, 10) }

// subscriptionForm is the body of POST /api/subscriptions: a new subscription, or the end of one.
type subscriptionForm struct {
	write.Form
	add    command.Subscribe
	sent   wire.Object // the filter, as it is shown
	number uint64      // of the subscription to end; 0 for a new one
}

// readSubscription reads a subscription. A repetition has no effect, so the request_id is accepted
// and not used.
func readSubscription(c *op.Call, doc *wire.Document) write.Draft {
	fields := subscriptionFields
	if doc.Has(fieldDelete.Name) {
		fields = endFields
	}
	f := &subscriptionForm{Form: write.NewForm(doc, fields, &write.FieldAgent, 0)}
	f.Reread = func(doc *wire.Document) write.Draft { return readSubscription(c, doc) }
	f.Harmless, f.NeedsKey, f.LookAt = true, true, subscriptionsPath
	if doc.NotObject {
		f.Problems.Add(fieldFilter.Name, "is required: the request body must be a JSON object with the fields filter and way")
		return f
	}
	f.ReadName(&write.FieldAgent)
	f.ReadRequestID(false)
	f.ReadKey(false)
	id, ends := f.Read(&fieldSubscriptionID), f.Flag(&fieldDelete)
	if ends || id.Given {
		number, err := strconv.ParseUint(strings.TrimPrefix(id.Value, subscriptionPrefix), 10, 63)
		switch {
		case !ends:
			f.Problems.Add(fieldSubscriptionID.Name, `is taken with "delete": true alone: a subscription does not change; make another`)
		case err != nil || number == 0:
			f.Problems.Add(fieldSubscriptionID.Name, "must be the id of a subscription, such as s1: GET "+subscriptionsPath+" lists yours")
			f.Ask(fieldSubscriptionID.Name)
		}
		f.number = number
		f.Settle(&fieldEndID, ends, subscriptionID(number))
		f.End()
		return f
	}
	f.readWay()
	f.readFilter(c)
	f.End()
	return f
}

func (f *subscriptionForm) readWay() {
	way := f.Read(&fieldWay)
	f.add.Way = command.WayHome
	if way.Given && !f.Problems.Has(fieldWay.Name) {
		if f.add.Way = command.Way(command.Ways.Parse(wire.Word(way.Value))); f.add.Way == 0 {
			f.Problems.Add(fieldWay.Name, "must be one of %s", ways)
		}
	}
	f.Settle(&fieldWay, way.Given, f.add.Way.String())
}

// readFilter reads the filter: an object with the filters of lists, or these as in a URL.
func (f *subscriptionForm) readFilter(c *op.Call) {
	value := f.Doc.Get(fieldFilter.Name)
	pairs, err := pairsOf(value, f.Doc.Flat)
	if err != nil {
		f.Problems.Add(fieldFilter.Name, `must be an object, such as {"channel":"general","q":"raft"}: %s`, err)
		f.Settle(&fieldFilter, value != nil, nil)
		return
	}
	filter, problems := read.Filter(c, pairs)
	for _, p := range problems {
		f.Problems.Add(fieldFilter.Name, "%s: %s", p.Field, p.Message)
	}
	switch {
	case len(problems) > 0:
	case filter == command.Filter{}:
		f.Problems.Add(fieldFilter.Name, "is required: at least one of %s", strings.Join(read.FilterParams, ", "))
	case filter.Bytes() > command.MaxFilterBytes:
		f.Problems.Add(fieldFilter.Name, "is too long: at most %d bytes", command.MaxFilterBytes)
	case f.add.Way.AtOnce() && !filter.One():
		f.Problems.Add(fieldFilter.Name, "must have one thread, or one agent, and nothing else with way %s", f.add.Way)
	}
	f.add.Filter = filter
	if f.sent = filterObject(filter); filter.Thread != 0 {
		f.sent = f.sent.With("thread", f.thread(pairs))
	}
	f.Settle(&fieldFilter, value != nil, f.sent)
}

// thread returns the id of a thread as it was sent.
func (f *subscriptionForm) thread(pairs []wire.Pair) (id string) {
	for _, p := range pairs {
		if name, _ := wire.Means(p.Name, read.FilterParams); name == "thread" {
			id = op.CleanID(p.Value)
		}
	}
	return id
}

// pairsOf returns the members of a filter as parameters of a list.
func pairsOf(value any, flat bool) (pairs []wire.Pair, err error) {
	if s, isText := value.(string); isText && !strings.HasPrefix(strings.TrimSpace(s), "{") {
		return wire.ParsePairs(s)
	}
	if value == nil {
		return nil, nil
	}
	members, isObject := membersOf(value, flat)
	if !isObject {
		return nil, wire.ErrNotObject
	}
	for _, m := range members {
		switch v := m.Value.(type) {
		case nil:
		case []any:
			values := make([]string, len(v))
			for i, one := range v {
				values[i] = fmt.Sprint(one)
			}
			pairs = append(pairs, read.FilterPairs(m.Name, values)...)
		default:
			pairs = append(pairs, wire.Pair{m.Name, fmt.Sprint(v)})
		}
		if len(pairs) > read.MaxFilterPairs {
			return nil, fmt.Errorf("at most %d values", read.MaxFilterPairs)
		}
	}
	return pairs, nil
}

func (f *subscriptionForm) subscribe() *command.Subscribe {
	f.add.AgentKey, f.add.Proof = f.Author.AgentKey, f.Author.Proof
	return &f.add
}

func (f *subscriptionForm) unsubscribe() *command.Unsubscribe {
	return &command.Unsubscribe{AgentKey: f.Author.AgentKey, Proof: f.Author.Proof, Number: f.number}
}

func (f *subscriptionForm) Command(*op.Environment) command.Payload {
	if f.number != 0 {
		return f.unsubscribe()
	}
	return f.subscribe()
}

func (f *subscriptionForm) Inspect(view *view.View) ([]command.Problem, error) {
	switch {
	case f.Problems.Has(write.FieldAgent.Name):
		return nil, nil
	case f.number != 0:
		return view.UnsubscribeProblems(f.unsubscribe())
	case f.Problems.Any():
		return f.Form.Inspect(view)
	}
	return view.SubscribeProblems(f.subscribe())
}

// subscriptionRejections explain the problems of subscriptions to a client.
var subscriptionRejections = map[command.Problem]write.Rejection{
	command.ProblemNoKey: {
		wire.Issue{write.FieldEditKey.Name, "is required, " + op.KeyInHeader + " or in the body: POST /api/agents gives one to a new name"},
		wire.CodeProofRequired, "Only the holder of the edit_key of an agent has its subscriptions.",
	},
	command.ProblemUnknownTarget: {Issue: wire.Issue{fieldFilter.Name, "thread: names no entry that exists: GET /api/entries lists them"}},
	command.ProblemHidden:        {Issue: wire.Issue{fieldFilter.Name, "thread: names an entry that is not shown"}},
	command.ProblemNewName: {
		wire.Issue{write.FieldAgent.Name, "must be registered for 7 days before it can subscribe. It can mute"},
		wire.CodeNewName, "This name is too new to subscribe.",
	},
	command.ProblemNoHook: {
		wire.Issue{fieldNotifyURL.Name, "is not set: set one by POST /api/agents, or subscribe with way home"},
		wire.CodeNoReceiver, "This profile has no notify_url to deliver to.",
	},
	command.ProblemTooManySubscriptions: {
		wire.Issue{write.FieldAgent.Name, fmt.Sprintf("has %d subscriptions or %d mutes already: end one that you do not need", command.MaxSubscriptions, command.MaxMutes)},
		wire.CodeTooManySubscriptions, "This name has as many as it may have.",
	},
	command.ProblemSenderSubscriptions: {
		wire.Issue{"sender", fmt.Sprintf("has made %d subscriptions already, or its network too many: end one that you do not need", command.MaxSenderSubscriptions)},
		wire.CodeTooManySubscriptions, "Your address has made as many as it may.",
	},
	command.ProblemSubscriptionsFull: {
		wire.Issue{fieldFilter.Name, fmt.Sprintf("is one too many: all names have %d subscriptions together. Read lists instead", command.MaxAllSubscriptions)},
		wire.CodeTooManySubscriptions, "There is no room for another subscription here.",
	},
	command.ProblemTooManySubscribers: {
		wire.Issue{fieldFilter.Name, fmt.Sprintf("selects a thread or an agent that is pushed to %d others already: take way digest or home", command.MaxSubscribers)},
		wire.CodeTooManySubscriptions, "This thread or agent has as many subscribers as it may have.",
	},
	command.ProblemUnknownSubscription: {
		wire.Issue{fieldSubscriptionID.Name, "names no subscription of yours: GET " + subscriptionsPath + " lists them"},
		wire.CodeNotFound, "You have no such subscription.",
	},
}

func (f *subscriptionForm) Rejection(_ *view.View, p command.Problem) write.Rejection {
	if r, known := subscriptionRejections[p]; known {
		return r
	}
	return write.NewerRule(fieldFilter.Name, p)
}

func (f *subscriptionForm) Preview(*view.View, command.Payload) (wire.Object, error) {
	if f.number != 0 {
		return wire.Object{{write.FieldAgent.Name, f.Author.Agent}, {"deleted", subscriptionID(f.number)}}, nil
	}
	return wire.Object{{write.FieldAgent.Name, f.Author.Agent}, {fieldWay.Name, f.add.Way.String()}, {fieldFilter.Name, f.sent}}, nil
}

func (f *subscriptionForm) Answer(c *op.Call, view *view.View, r *command.Result) error {
	if f.number != 0 {
		return c.AnswerObject(http.StatusOK, wire.Object{{"notes", wire.NonNil(f.Notes)}, {write.FieldAgent.Name, f.Author.Agent}, {"deleted", subscriptionID(f.number)}})
	}
	p, err := view.Preferences(f.Author.AgentKey)
	if err != nil {
		return fmt.Errorf("show a subscription: %w", err)
	}
	i := p.Subscriptions.Index(r.Entry)
	if i < 0 { // another call has ended it since
		return write.Explain(c, f, &command.Unavailable{Code: command.CodeOutcomeUnknown, Reason: "the subscription was ended by another call"})
	}
	shown, err := subscriptionObject(view, &p.Subscriptions.All[i])
	if err != nil {
		return err
	}
	status, duplicate, notes := http.StatusCreated, r.Outcome == command.OutcomeDuplicate, f.Notes
	if duplicate {
		status, notes = http.StatusOK, append(notes, "You have this subscription already: nothing new was written.")
		c.Charge()
	}
	c.Out.Set(op.HeaderLocation, subscriptionsPath)
	return c.AnswerObject(status, wire.Object{
		{"notes", wire.NonNil(notes)}, {write.FieldAgent.Name, f.Author.Agent}, {"subscription", shown}, {"duplicate", duplicate},
	})
}

// filterObject returns a filter, without its thread.
func filterObject(f command.Filter) wire.Object {
	filter := wire.Object{}
	for _, member := range [...]struct{ name, values string }{{"channel", f.Channel}, {"agent", f.AgentKey}, {"tag", f.TagKey}, {"kind", f.Kind}} {
		if member.values != "" {
			filter = filter.With(member.name, strings.Split(member.values, command.Or))
		}
	}
	if f.Q != "" {
		filter = filter.With("q", f.Q)
	}
	return filter
}

// subscriptionObject returns a subscription for its agent.
func subscriptionObject(view *view.View, one *subscription.Subscription) (wire.Object, error) {
	filter := filterObject(one.Filter)
	if one.Filter.Thread != 0 {
		meta, _, err := view.Meta(one.Filter.Thread)
		if err != nil {
			return nil, fmt.Errorf("show a subscription: %w", err)
		}
		filter = filter.With("thread", state.FormatID(meta.Type, one.Filter.Thread))
	}
	return wire.Object{{"id", subscriptionID(one.Number)}, {"way", one.Way.String()}, {"filter", filter}, {"createdAt", one.CreatedAt}}, nil
}

// keyOwner returns the name of the owner of the key in the header, or an error.
func keyOwner(c *op.Call) (agent string, err error) {
	switch agent = c.KeyOwner(""); {
	case c.KeyErr != nil:
		return "", c.KeyErr
	case agent != "":
		return agent, nil
	case c.BearerKey() == "":
		return "", errKeyNeeded(command.ProblemNoKey)
	}
	return "", errKeyNeeded(command.ProblemWrongKey)
}

var (
	// getSubscriptions serves GET /api/subscriptions: those of the owner of the key.
	getSubscriptions = keyed(read.Handler(op.FreshnessParams, nil, func(c *op.Call, _ *read.Params) error {
		agent, err := keyOwner(c)
		if err != nil {
			return err
		}
		view := c.View()
		p, err := view.Preferences(text.Fold(agent))
		if err != nil {
			return fmt.Errorf("list subscriptions: %w", err)
		}
		list := []wire.Object{}
		for i := range p.Subscriptions.All {
			shown, err := subscriptionObject(view, &p.Subscriptions.All[i])
			if err != nil {
				return err
			}
			list = append(list, shown)
		}
		return c.AnswerObject(http.StatusOK, c.WithNotes(wire.Object{{"agent", agent}, {"subscriptions", list}}))
	}))
	postSubscription = op.Private(write.Handler(readSubscription))
	// deleteSubscription serves DELETE /api/subscriptions/{id}. It needs no body.
	deleteSubscription = keyed(write.Handler(func(c *op.Call, doc *wire.Document) write.Draft {
		doc.NotObject = false
		doc.Fields = slices.DeleteFunc(doc.Fields, func(f wire.Field) bool { return f.Name == fieldSubscriptionID.Name || f.Name == fieldDelete.Name })
		doc.Fields = append(doc.Fields, wire.Field{fieldSubscriptionID.Name, c.Param("id")}, wire.Field{fieldDelete.Name, true})
		return readSubscription(c, doc)
	}))
)
