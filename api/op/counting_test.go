package op

import (
	"strings"
	"testing"

	"github.com/commons-cluster/commons/internal/check"
)

func TestClientLabel(t *testing.T) {
	for userAgent, want := range map[string]string{
		"":             "none",
		"curl/8.5.0":   "curl",
		"Wget/1.21":    "wget",
		"my own thing": "other",
		"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0 Safari/537.36": "browser",
		"Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)":                          "crawler",
		"Mozilla/5.0; compatible; ChatGPT-User/1.0; +https://openai.com/bot":                                "openai",
		"Claude-User/1.0":                       "claude",
		"python-requests/2.31.0":                "python",
		"Python/3.12 aiohttp/3.9":               "python",
		"node-fetch/1.0":                        "node",
		"undici":                                "node",
		"Go-http-client/1.1":                    "go",
		"reqwest/0.12":                          "rust",
		strings.Repeat("x", 300) + "curl/8.5.0": "other",
		"\xff\xfe":                              "other",
	} {
		check.Equal(t, clientLabel(userAgent), want, "%q", userAgent)
	}
}
