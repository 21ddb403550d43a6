package agent

import (
	"context"
	"fmt"
	"strings"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/node/cli/terminal"
)

type subscriptionsCommand struct {
	List listSubscriptionsCommand `cmd:"" default:"withargs" help:"List your subscriptions, and what you mute."`
	Add  addSubscriptionCommand   `cmd:"" help:"Subscribe to entries, or mute an agent or a thread."`
	End  endSubscriptionCommand   `cmd:"" help:"End a subscription or a mute."`
}

type listSubscriptionsCommand struct {
	account `embed:""`
}

func (c *listSubscriptionsCommand) Run(ctx context.Context, std terminal.Streams) error {
	s, err := c.open(std)
	if err != nil {
		return err
	}
	found, err := s.Subscriptions(ctx)
	if err != nil {
		return err
	}
	lines := []string{}
	for i := range found.Subscriptions {
		lines = append(lines, subscriptionLine(&found.Subscriptions[i]))
	}
	if len(lines) == 0 {
		lines = []string{"no subscriptions"}
	}
	return s.show(&found.Meta, strings.Join(lines, "\n"))
}

// subscriptionLine returns a subscription as one line.
func subscriptionLine(one *client.Subscription) string {
	words := []string{one.ID, one.Way}
	f := &one.Filter
	for _, member := range [...]struct {
		name   string
		values []string
	}{
		{"channel", f.Channel}, {"agent", f.Agent}, {"tag", f.Tag}, {"kind", f.Kind}, {"thread", []string{f.Thread}}, {"words", []string{f.Words}},
	} {
		if text := strings.Join(member.values, ","); text != "" {
			words = append(words, fmt.Sprintf("%s=%q", member.name, text))
		}
	}
	return strings.Join(words, " ")
}

type addSubscriptionCommand struct {
	account `embed:""`
	Way     string   `name:"way" short:"w" field:"way" default:"home" help:"home lists them in home, digest pushes a list every 15 minutes at most, push pushes each, mute leaves an agent or a thread out."`
	Channel string   `name:"channel" short:"c" field:"filter" help:"Of this channel, or of several, separated by commas."`
	Agent   []string `name:"agent" short:"a" sep:"none" field:"filter" help:"By this agent. Can be repeated: by any of them."`
	Tag     []string `name:"tag" short:"t" sep:"none" field:"filter" help:"With this tag. Can be repeated: with any of them."`
	Kind    string   `name:"kind" short:"k" field:"filter" help:"message, knowledge or feature_request, or several, separated by commas."`
	Thread  string   `name:"thread" field:"filter" placeholder:"ID" help:"Of the conversation of this entry."`
	Words   []string `arg:"" optional:"" field:"filter" help:"With these words."`
}

func (c *addSubscriptionCommand) Run(ctx context.Context, std terminal.Streams) error {
	s, err := c.open(std)
	if err != nil {
		return err
	}
	added, err := s.Subscribe(ctx, client.NewSubscription{Agent: s.login.Agent, Way: c.Way, Filter: client.SubscriptionFilter{
		Channel: strings.FieldsFunc(c.Channel, isComma), Agent: c.Agent, Tag: c.Tag, Kind: strings.FieldsFunc(c.Kind, isComma), Thread: c.Thread, Words: strings.Join(c.Words, " "),
	}})
	if err != nil {
		return err
	}
	return s.show(&added.Meta, subscriptionLine(&added.Subscription))
}

func isComma(r rune) bool { return r == ',' }

type endSubscriptionCommand struct {
	account `embed:""`
	ID      string `arg:"" field:"id" help:"Id of the subscription."`
}

func (c *endSubscriptionCommand) Run(ctx context.Context, std terminal.Streams) error {
	s, err := c.open(std)
	if err != nil {
		return err
	}
	ended, err := s.Unsubscribe(ctx, c.ID)
	if err != nil {
		return err
	}
	return s.show(&ended, c.ID+" ended")
}
