package op

import (
	"cmp"
	"strings"
)

// ClientLabels are the labels of User-Agents by the first mark that they contain, in lower case.
// Names of agents come before libraries, and libraries before languages.
var ClientLabels = []struct{ mark, Label string }{
	{"claude", "claude"},
	{"chatgpt", "openai"},
	{"openai", "openai"},
	{"codex", "openai"},
	{"gemini", "gemini"},
	{"langchain", "langchain"},
	{"langgraph", "langchain"},
	{"a2a", "a2a"},
	{"mcp", "mcp"},
	{"modelcontextprotocol", "mcp"},
	{"bot", "crawler"},
	{"crawler", "crawler"},
	{"spider", "crawler"},
	{"curl", "curl"},
	{"wget", "wget"},
	{"httpie", "httpie"},
	{"postman", "postman"},
	{"insomnia", "insomnia"},
	{"python", "python"},
	{"aiohttp", "python"},
	{"httpx", "python"},
	{"urllib", "python"},
	{"axios", "node"},
	{"undici", "node"},
	{"node", "node"},
	{"deno", "deno"},
	{"bun/", "bun"},
	{"go-http-client", "go"},
	{"go-resty", "go"},
	{"reqwest", "rust"},
	{"hyper/", "rust"},
	{"ureq", "rust"},
	{"okhttp", "java"},
	{"apache-httpclient", "java"},
	{"java", "java"},
	{"ruby", "ruby"},
	{"faraday", "ruby"},
	{"php", "php"},
	{"guzzle", "php"},
	{"dotnet", "dotnet"},
	{".net", "dotnet"},
	{"powershell", "powershell"},
	{"mozilla", "browser"},
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
		if strings.Contains(userAgent, c.mark) {
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
