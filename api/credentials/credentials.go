// Package credentials finds what looks like a credential in a text: everything
// that the service takes in is public.
//
// The table is a curated one. Rule sets of secret scanners bring a configuration
// framework along, and hundreds of rules made for source code, which take
// ordinary words near "key" and "token" for secrets. Here a refused text is a
// refused agent, so only formats count that nothing else has: a fixed prefix, an
// alphabet, a length.
package credentials

import (
	"regexp"
	"slices"
	"strings"
)

// Removed stands in a redacted text where a credential was.
const Removed = "[removed]"

const (
	// minRun is the length of the shortest credential. A text without so many
	// characters in a row that can stand in one holds none.
	minRun = 20
	// pemHeader is in every private key, which may be broken into short lines.
	pemHeader = "PRIVATE KEY"
	// tailBytes is how much of a match is looked at, and minDistinct how many
	// different characters there must be: fewer are a placeholder, as in ghp_xxxx.
	tailBytes   = 24
	minDistinct = 6
)

// rule is one format.
type rule struct {
	name     string
	keywords []string // one of them is in every match; looked for first, because that is cheap
	pattern  *regexp.Regexp
}

// The start and the end of a token: beside it stands no letter or digit. An
// underscore may, which is emphasis in Markdown; it belongs to the match then.
const (
	start = `(?:\b|_)`
	end   = `(?:\b|_)`
)

// pemRun is the beginning of a key between its lines of dashes: so many characters
// with line breaks, also such as stand in JSON, wherever between them.
const pemRun = `(?:[A-Za-z0-9+/](?:[ \t]*(?:\r|\n|\\r|\\n)+[ \t]*)?){32}`

var rules = []rule{
	// Our own, see api.EditKeyPrefix.
	{"an edit_key of this service", []string{"ck_"}, regexp.MustCompile(`ck_[a-z2-7]{52}`)},

	{"a private key", []string{pemHeader}, regexp.MustCompile(
		`(?s)-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----.{0,400}?` + pemRun + `.*?(?:-----END [A-Z0-9 ]+-----|\z)`)},
	{"an age key", []string{"AGE-SECRET-KEY-1"}, regexp.MustCompile(start + `AGE-SECRET-KEY-1[0-9A-Z]{58}` + end)},
	{"a signed token", []string{"eyJ"}, regexp.MustCompile(start + `eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{20,}`)},

	{"a GitHub token", []string{"gho_", "ghp_", "ghr_", "ghs_", "ghu_"}, regexp.MustCompile(start + `gh[oprsu]_[A-Za-z0-9]{36,255}` + end)},
	{"a GitHub token", []string{"github_pat_"}, regexp.MustCompile(start + `github_pat_[A-Za-z0-9_]{36,255}` + end)},
	{"a GitLab token", []string{"glpat-", "gldt-", "glrt-", "glptt-", "glsoat-", "glcbt-", "glft-", "glimt-", "glagent-"}, regexp.MustCompile(start + `gl(?:pat|dt|rt|ptt|soat|cbt|ft|imt|agent)-[A-Za-z0-9_-]{20,}`)},
	{"an npm token", []string{"npm_"}, regexp.MustCompile(start + `npm_[A-Za-z0-9]{36}` + end)},
	{"a PyPI token", []string{"pypi-"}, regexp.MustCompile(start + `pypi-[A-Za-z0-9_-]{50,}`)},
	{"a RubyGems key", []string{"rubygems_"}, regexp.MustCompile(start + `rubygems_[0-9a-f]{48}` + end)},
	{"a crates.io token", []string{"cio"}, regexp.MustCompile(start + `cio[A-Za-z0-9]{32}` + end)},
	{"a Docker token", []string{"dckr_"}, regexp.MustCompile(start + `dckr_(?:pat|oat)_[A-Za-z0-9_-]{27,}`)},

	{"an AWS access key", []string{"AKIA", "ASIA", "ABIA", "ACCA"}, regexp.MustCompile(start + `(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}` + end)},
	{"a Google API key", []string{"AIza"}, regexp.MustCompile(start + `AIza[A-Za-z0-9_-]{35}`)},
	{"a Google client secret", []string{"GOCSPX-"}, regexp.MustCompile(start + `GOCSPX-[A-Za-z0-9_-]{28}`)},
	{"a Google access token", []string{"ya29."}, regexp.MustCompile(start + `ya29\.[A-Za-z0-9_-]{30,}`)},
	{"an Azure storage key", []string{"AccountKey="}, regexp.MustCompile(start + `AccountKey=[A-Za-z0-9+/]{86}==`)},
	{"a DigitalOcean token", []string{"_v1_"}, regexp.MustCompile(start + `do[opr]_v1_[0-9a-f]{64}` + end)},
	{"a Vault token", []string{"hvb.", "hvr.", "hvs."}, regexp.MustCompile(start + `hv[bsr]\.[A-Za-z0-9_-]{24,}`)},
	{"a Tailscale key", []string{"tskey-"}, regexp.MustCompile(start + `tskey-[a-z]+-[A-Za-z0-9]+-[A-Za-z0-9]{20,}`)},
	{"a Databricks token", []string{"dapi"}, regexp.MustCompile(start + `dapi[0-9a-f]{32}` + end)},

	{"an Anthropic key", []string{"sk-ant-"}, regexp.MustCompile(start + `sk-ant-[a-z0-9]+-[A-Za-z0-9_-]{40,}`)},
	{"an OpenAI key", []string{"sk-"}, regexp.MustCompile(start + `sk-(?:proj|svcacct|admin|None)-[A-Za-z0-9_-]{40,}`)},
	{"an API key", []string{"sk-"}, regexp.MustCompile(start + `sk-(?:or-v1-)?[A-Za-z0-9]{32,}` + end)},
	{"a Hugging Face token", []string{"hf_"}, regexp.MustCompile(start + `hf_[A-Za-z0-9]{34,}` + end)},
	{"a Groq key", []string{"gsk_"}, regexp.MustCompile(start + `gsk_[A-Za-z0-9]{48,}` + end)},
	{"an xAI key", []string{"xai-"}, regexp.MustCompile(start + `xai-[A-Za-z0-9]{70,}` + end)},
	{"a Perplexity key", []string{"pplx-"}, regexp.MustCompile(start + `pplx-[A-Za-z0-9]{40,}` + end)},
	{"a Replicate token", []string{"r8_"}, regexp.MustCompile(start + `r8_[A-Za-z0-9]{37}` + end)},

	{"a Slack token", []string{"xox"}, regexp.MustCompile(start + `xox[abeoprs]-[0-9]+-[A-Za-z0-9-]{20,}`)},
	{"a Slack token", []string{"xapp-"}, regexp.MustCompile(start + `xapp-[0-9]-[A-Z0-9]+-[0-9]+-[0-9a-f]{32,}` + end)},
	{"a Slack webhook", []string{"hooks.slack.com"}, regexp.MustCompile(`hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9]+/[A-Za-z0-9]+/[A-Za-z0-9/]{16,}`)},
	{"a Discord webhook", []string{"/api/webhooks/"}, regexp.MustCompile(`discord(?:app)?\.com/api/webhooks/[0-9]+/[A-Za-z0-9_-]{60,}`)},
	{"a Telegram bot token", []string{":AA"}, regexp.MustCompile(start + `[0-9]{8,10}:AA[A-Za-z0-9_-]{33}`)},
	{"a SendGrid key", []string{"SG."}, regexp.MustCompile(start + `SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}`)},
	{"a Twilio key", []string{"SK"}, regexp.MustCompile(start + `SK[0-9a-f]{32}` + end)},
	{"a Stripe key", []string{"k_live_", "k_test_"}, regexp.MustCompile(start + `[rs]k_(?:live|test)_[A-Za-z0-9]{16,}` + end)},
	{"a webhook secret", []string{"whsec_"}, regexp.MustCompile(start + `whsec_[A-Za-z0-9+/=]{24,}`)},
	{"a Shopify token", []string{"shp"}, regexp.MustCompile(start + `shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}` + end)},
	{"a WooCommerce key", []string{"ck_", "cs_"}, regexp.MustCompile(start + `c[ks]_[0-9a-f]{40}` + end)},
	{"a Linear key", []string{"lin_api_"}, regexp.MustCompile(start + `lin_api_[A-Za-z0-9]{40}` + end)},
	{"a Notion token", []string{"ntn_"}, regexp.MustCompile(start + `ntn_[A-Za-z0-9]{40,}` + end)},
	{"a Postman key", []string{"PMAK-"}, regexp.MustCompile(start + `PMAK-[0-9a-f]{24}-[0-9a-f]{34}` + end)},
	{"a New Relic key", []string{"NRAK-"}, regexp.MustCompile(start + `NRAK-[A-Z0-9]{27}` + end)},
}

// Redact returns the text without its credentials, and what the first one looks
// like, with its article; "" where there is none.
func Redact(text string) (redacted, found string) {
	if longestRun(text) < minRun && !strings.Contains(text, pemHeader) {
		return text, ""
	}
	redacted = text
	for i := range rules {
		r := &rules[i]
		if !slices.ContainsFunc(r.keywords, func(k string) bool { return strings.Contains(redacted, k) }) {
			continue
		}
		for { // two may share an underscore
			next := r.redact(redacted)
			if next == redacted {
				break
			}
			redacted = next
			if found == "" {
				found = r.name
			}
		}
	}
	return redacted, found
}

// redact removes what matches the rule, and leaves underscores at its ends.
func (r *rule) redact(text string) string {
	return r.pattern.ReplaceAllStringFunc(text, func(match string) string {
		if placeholder(match) {
			return match
		}
		removed := Removed
		if strings.HasPrefix(match, "_") {
			removed = "_" + removed
		}
		if strings.HasSuffix(match, "_") {
			removed += "_"
		}
		return removed
	})
}

// longestRun is the length of the longest run of characters that can stand in a
// credential.
func longestRun(text string) (longest int) {
	run := 0
	for i := range len(text) {
		switch c := text[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '+' && c <= '9' && c != ',', c == '_', c == '=', c == ':':
			run++
			longest = max(longest, run)
		default:
			run = 0
		}
	}
	return longest
}

// placeholder reports whether a match stands for a credential in documentation.
func placeholder(match string) bool {
	var seen [256]bool
	distinct := 0
	for _, c := range []byte(match[max(0, len(match)-tailBytes):]) {
		if !seen[c] {
			seen[c] = true
			distinct++
		}
	}
	return distinct < minDistinct || strings.HasSuffix(match, "EXAMPLE")
}
