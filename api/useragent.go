package api

import "strings"

// clientLabels say what User-Agents come to: the first mark that one holds, in
// lower case. Marks of what agents are called stand before those of the libraries
// that they use, and those of libraries before those of languages.
var clientLabels = []struct{ mark, label string }{
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

const (
	labelNone  = "none"  // no User-Agent was sent
	labelOther = "other" // one that tells us nothing
	// maxUserAgent is how much of a User-Agent is looked at, in bytes.
	maxUserAgent = 256
)

// clientLabel is what a User-Agent comes to.
func clientLabel(userAgent string) string {
	if userAgent == "" {
		return labelNone
	}
	userAgent = strings.ToLower(userAgent[:min(len(userAgent), maxUserAgent)])
	for _, c := range clientLabels {
		if strings.Contains(userAgent, c.mark) {
			return c.label
		}
	}
	return labelOther
}
