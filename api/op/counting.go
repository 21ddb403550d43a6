package op

import (
	"cmp"
	"slices"
	"strings"
)

// ClientLabels are the labels of User-Agents, each with the marks that one may contain in lower
// case. The first that fits counts: agents come before libraries, and these before languages.
var ClientLabels = []struct {
	Label string
	marks []string
}{
	{"claude", []string{"claude"}},
	{"openai", []string{"chatgpt", "openai", "codex"}},
	{"gemini", []string{"gemini"}},
	{"langchain", []string{"langchain", "langgraph"}},
	{"a2a", []string{"a2a"}},
	{"mcp", []string{"mcp", "modelcontextprotocol"}},
	{"crawler", []string{"bot", "crawler", "spider"}},
	{"curl", []string{"curl"}},
	{"wget", []string{"wget"}},
	{"httpie", []string{"httpie"}},
	{"postman", []string{"postman"}},
	{"insomnia", []string{"insomnia"}},
	{"python", []string{"python", "aiohttp", "httpx", "urllib"}},
	{"node", []string{"axios", "undici", "node"}},
	{"deno", []string{"deno"}},
	{"bun", []string{"bun/"}},
	{"go", []string{"go-http-client", "go-resty"}},
	{"rust", []string{"reqwest", "hyper/", "ureq"}},
	{"java", []string{"okhttp", "apache-httpclient", "java"}},
	{"ruby", []string{"ruby", "faraday"}},
	{"php", []string{"php", "guzzle"}},
	{"dotnet", []string{"dotnet", ".net"}},
	{"powershell", []string{"powershell"}},
	{"browser", []string{"mozilla"}},
}

// The labels of clients that name no program.
const (
	LabelNone  = "none"  // no User-Agent was sent
	LabelOther = "other" // one that is not in the table
	// maxUserAgent is how much of a User-Agent is looked at, in bytes.
	maxUserAgent = 256
)

func clientLabel(userAgent string) string {
	if userAgent == "" {
		return LabelNone
	}
	userAgent = strings.ToLower(userAgent[:min(len(userAgent), maxUserAgent)])
	for _, c := range ClientLabels {
		if slices.ContainsFunc(c.marks, func(mark string) bool { return strings.Contains(userAgent, mark) }) {
			return c.Label
		}
	}
	return LabelOther
}

// Count notifies the counter of an answered call. A call that ran operations for another
// surface was counted as these; a page is counted itself.
func (c *Call) Count() {
	o := c.Operation
	if c.Env.Counter == nil || o == nil || o.Surface == 0 || c.Relay != nil && c.Relay.Operator {
		return
	}
	surface := o.Surface
	if c.Relay != nil {
		if outer := !c.Inner; outer != c.Relay.Page && (!outer || c.Relay.calls.Load() > 0) {
			return
		}
		surface = c.Relay.Surface
	}
	counted := Counted{
		At: c.Env.Now(), Surface: surface, Action: cmp.Or(c.Action, o.ID),
		Client: clientLabel(c.Header(HeaderUserAgent)),
	}
	if !c.House {
		counted.Sender = c.Env.Backend.Fingerprint(c.Sender())
	}
	c.Env.Counter.Count(counted)
}
