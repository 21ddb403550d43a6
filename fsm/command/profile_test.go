package command_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/fsmtest"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

func TestRegisterRoundTripAndChecks(t *testing.T) {
	full := func() *command.Register {
		return fsmtest.Register("Ada", "k1", func(c *command.Register) {
			c.Given, c.Capabilities, c.Endpoint = 1<<6-1, []string{"a", "b"}, "https://example.org"
			c.Note, c.NotifyURL, c.NotifySalt, c.House = "A note.", "https://example.org/hook", fsmtest.Salt("a"), true
			c.Proof.Key, c.Request = fsmtest.KeyHash("k9"), command.RequestKey{Scope: "ada", ID: "request-1"}
		})
	}
	command.CheckRoundTrip(t, full())
	long := func(n int) string { return strings.Repeat("é", n+1) }
	for name, change := range map[string]func(c *command.Register){
		"agent":          func(c *command.Register) { c.Agent = "a" },
		"agent key":      func(c *command.Register) { c.AgentKey = "" },
		"nobody":         func(c *command.Register) { c.AgentKey = command.AnonymousName },
		"deleted fields": func(c *command.Register) { c.Delete = true },
		"not given":      func(c *command.Register) { c.Given = command.FieldDescription },
		"short":          func(c *command.Register) { c.Description = "abc" },
		"description":    func(c *command.Register) { c.Description = long(command.MaxDescription) },
		"capabilities":   func(c *command.Register) { c.Capabilities = strings.Split("123456789", "") },
		"capability":     func(c *command.Register) { c.Capabilities = []string{""} },
		"endpoint":       func(c *command.Register) { c.Endpoint = long(command.MaxURL) },
		"note":           func(c *command.Register) { c.Note = long(command.MaxNote) },
		"notify url":     func(c *command.Register) { c.NotifyURL = long(command.MaxURL) },
		"no salt":        func(c *command.Register) { c.NotifySalt = nil },
		"short salt":     func(c *command.Register) { c.NotifySalt = c.NotifySalt[1:] },
		"needless salt":  func(c *command.Register) { c.NotifyURL = "" },
		"no recovery":    func(c *command.Register) { c.NewRecovery = nil },
		"UTF-8":          func(c *command.Register) { c.Note = "\xff" },
		"key":            func(c *command.Register) { c.Proof.Key = []byte("short") },
		"new key":        func(c *command.Register) { c.NewKey = nil },
		"sender":         func(c *command.Register) { c.Proof.Sender = long(command.MaxFingerprintBytes) },
		"request":        func(c *command.Register) { c.Request.ID = "short" },
	} {
		c := full()
		change(c)
		check.Fails(command.Check(c))(t, "%s: check", name)
	}
	check.Err(t, command.Check(full()), nil, "check")
	p := fsmtest.Post("ada", func(p *command.Publish) { p.Proof.Key = []byte("short") })
	if command.Check(p) == nil || command.Check(&command.AskHuman{Author: command.Author{Agent: "ada", AgentKey: "ada", Proof: p.Proof}, Goal: "Goal", Action: "Action"}) == nil {
		t.Error("a key that is no hash passed")
	}
}

func TestOperatorCommandsAreChecked(t *testing.T) {
	hash := fsmtest.KeyHash("k")
	for name, body := range map[string]command.Payload{
		"no agent":       &command.ResetKey{NewKey: hash, NewRecovery: hash},
		"a short hash":   &command.ResetKey{AgentKey: "ada", NewKey: hash[1:], NewRecovery: hash},
		"no recovery":    &command.ResetKey{AgentKey: "ada", NewKey: hash},
		"no former key":  &command.Reseal{SealedDataKey: []byte("x")},
		"no sealed key":  &command.Reseal{Former: []byte("x")},
		"a long new key": &command.Reseal{Former: []byte("x"), SealedDataKey: make([]byte, command.MaxSealedKeyBytes+1)},
	} {
		check.Fails(command.Check(body))(t, "%s: check", name)
	}
	want := command.Batch{Stamp: 1, Groups: []command.Group{{Boot: fsmtest.Boot1, Commands: []command.Command{
		{Seq: 1, Payload: &command.ResetKey{AgentKey: "ada", NewKey: hash, NewRecovery: hash}}, {Seq: 2, Payload: &command.Reseal{Former: []byte("x"), SealedDataKey: []byte("y")}},
	}}}}
	data := must.Get(command.EncodeBatch(want))(t)
	if got, err := command.DecodeBatch(data); err != nil || !cmp.Equal(got, want, cmpopts.IgnoreFields(command.Command{}, "Data")) {
		t.Errorf("decoded %+v, %v", got, err)
	}
}
