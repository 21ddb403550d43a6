package credentials

import (
	"slices"
	"strings"
)

// blank matches the text between a name and its value.
const blank = `\\?["']?\]?[ \t]*[:=][ \t]*\\?["']?`

// rules are the formats; of two that fit at one place the first one counts.
var rules = []rule{
	// Our own, see api.EditKeyPrefix.
	{"an edit_key of this service", []string{"ck_"}, inside(`ck_[a-z2-7]{52}`)},
	{"a recovery code of this service", []string{"crc_"}, inside(`crc_[a-z2-7]{26}`)},
	{"a moderator's token of this service", []string{"cmod_"}, inside(`cmod_[a-z2-7]{52}`)},

	{"a private key", []string{"-----begin "}, privateKey},
	{"a private key", []string{"putty-user-key-file-"}, puttyKey},
	{"an age key", []string{"age-secret-key-1"}, anchored(`AGE-SECRET-KEY-1[0-9A-Z]{58}`, ended)},
	{"a signed token", []string{".eyj"}, signedToken},

	{"a GitHub token", []string{"gho_", "ghp_", "ghr_", "ghs_", "ghu_"}, anchored(`gh[oprsu]_[A-Za-z0-9]{36,255}`, ended)},
	{"a GitHub token", []string{"github_pat_"}, anchored(`github_pat_[A-Za-z0-9_]{36,255}`, ended)},
	{"a GitLab token", []string{"glpat-", "gldt-", "glrt-", "glptt-", "glsoat-", "glcbt-", "glft-", "glimt-", "glagent-"}, anchored(`gl(?:pat|dt|rt|ptt|soat|cbt|ft|imt|agent)-[A-Za-z0-9_-]{20,}`)},
	{"an npm token", []string{"npm_"}, anchored(`npm_[A-Za-z0-9]{36}`, ended)},
	{"a PyPI token", []string{"pypi-"}, anchored(`pypi-[A-Za-z0-9_-]{50,}`, hasDigit)},
	{"a RubyGems key", []string{"rubygems_"}, anchored(`rubygems_[0-9a-f]{48}`, ended)},
	{"a crates.io token", []string{"cio"}, anchored(`cio[A-Za-z0-9]{32}`, ended, hasDigit)},
	{"a Docker token", []string{"dckr_"}, anchored(`dckr_(?:pat|oat)_[A-Za-z0-9_-]{27,}`)},

	{"an AWS secret key", []string{"akia", "asia", "abia", "acca"}, anchored(`(`+awsID+`[^A-Za-z0-9/+](?:(?s:.{0,80}?)[^A-Za-z0-9/+])?[A-Za-z0-9/+]{40})(?:[^A-Za-z0-9/+]|\z)`, noExample)},
	{"an AWS access key", []string{"akia", "asia", "abia", "acca"}, anchored(awsID, ended)},
	{"an AWS secret key", []string{"aws_secret_access_key", "awssecretaccesskey", "secretaccesskey", "secret_access_key"}, anchored(`(?i:(?:aws_?)?secret_?access_?key)`+blank+`([A-Za-z0-9/+]{40})`, ended, hasDigit, password)},
	{"a Google API key", []string{"aiza"}, anchored(`AIza[A-Za-z0-9_-]{35}`)},
	{"a Google client secret", []string{"gocspx-"}, anchored(`GOCSPX-[A-Za-z0-9_-]{28}`)},
	{"a Google access token", []string{"ya29."}, anchored(`ya29\.[A-Za-z0-9_-]{30,}`)},
	{"an Azure storage key", []string{"accountkey="}, anchored(`AccountKey=[A-Za-z0-9+/]{86}==`)},
	{"a DigitalOcean token", []string{"doo_v1_", "dop_v1_", "dor_v1_"}, anchored(`do[opr]_v1_[0-9a-f]{64}`, ended)},
	{"a Vault token", []string{"hvb.", "hvr.", "hvs."}, anchored(`hv[bsr]\.[A-Za-z0-9_-]{24,}`, hasDigit)},
	{"a Tailscale key", []string{"tskey-"}, anchored(`tskey-[a-z]+-[A-Za-z0-9]+-[A-Za-z0-9]{20,}`)},
	{"a Databricks token", []string{"dapi"}, anchored(`dapi[0-9a-f]{32}`, ended, near("databricks"))},
	{"a Supabase key", []string{"sbp_"}, anchored(`sbp_[0-9a-f]{40}`, ended)},
	{"a Supabase key", []string{"sb_secret_"}, anchored(`sb_secret_[A-Za-z0-9_-]{20,}`, hasDigit)},
	{"a Doppler token", []string{"dp."}, anchored(`dp\.(?:pt|st|ct|sa|scim|audit)\.(?:[a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{40,44}`, ended)},
	{"a Fly token", []string{"fo1_"}, anchored(`fo1_[A-Za-z0-9_-]{43}`)},
	{"a Fly token", []string{"fm1a_", "fm1r_", "fm2_"}, anchored(`fm(?:1[ar]|2)_[A-Za-z0-9+/]{100,}={0,3}`)},
	{"a Grafana token", []string{"glsa_"}, anchored(`glsa_[A-Za-z0-9]{32}_[0-9A-Fa-f]{8}`, ended)},
	{"a Grafana token", []string{"glc_"}, anchored(`glc_[A-Za-z0-9+/]{32,}={0,3}`, hasDigit)},
	{"a Grafana key", []string{"eyjrijoi"}, anchored(`eyJrIjoi[A-Za-z0-9]{70,}={0,3}`)},
	{"a Pulumi token", []string{"pul-"}, anchored(`pul-[0-9a-f]{40}`, ended)},
	{"an Atlassian token", []string{"atatt3", "atctt3"}, anchored(`AT[AC]TT3[A-Za-z0-9_=-]{100,}`)},
	{"a Bitbucket password", []string{"atbb"}, anchored(`ATBB[A-Za-z0-9]{32}`, ended, hasDigit)},

	{"an Anthropic key", []string{"sk-ant-"}, anchored(`sk-ant-[a-z0-9]+-[A-Za-z0-9_-]{40,}`)},
	{"an OpenAI key", []string{"sk-"}, anchored(`sk-(?:proj|svcacct|admin|None)-[A-Za-z0-9_-]{40,}`, hasDigit)},
	{"an API key", []string{"sk-"}, anchored(`sk-(?:or-v1-)?[A-Za-z0-9]{32,}`, ended, hasDigit)},
	{"a Hugging Face token", []string{"hf_"}, anchored(`hf_[A-Za-z0-9]{34,}`, ended, random)},
	{"a Groq key", []string{"gsk_"}, anchored(`gsk_[A-Za-z0-9]{48,}`, ended)},
	{"an xAI key", []string{"xai-"}, anchored(`xai-[A-Za-z0-9]{70,}`, ended)},
	{"a Perplexity key", []string{"pplx-"}, anchored(`pplx-[A-Za-z0-9]{40,}`, ended)},
	{"a Replicate token", []string{"r8_"}, anchored(`r8_[A-Za-z0-9]{37}`, ended)},

	{"a Slack token", []string{"xoxc-", "xoxd-"}, anchored(`xox(?:c-[0-9]+-[0-9]+-[0-9]+-[0-9a-f]{32,}|d-[A-Za-z0-9%+/=_-]{40,})`, hasDigit)},
	{"a Slack token", []string{"xoxa-", "xoxb-", "xoxe-", "xoxo-", "xoxp-", "xoxr-", "xoxs-"}, anchored(`xox[abeoprs]-[0-9]+-[A-Za-z0-9-]{20,}`)},
	{"a Slack token", []string{"xapp-"}, anchored(`xapp-[0-9]-[A-Z0-9]+-[0-9]+-[0-9a-f]{32,}`, ended)},
	{"a Slack webhook", []string{"hooks.slack.com/"}, anchored(`hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9]+/[A-Za-z0-9]+/[A-Za-z0-9/]{16,}`)},
	{"a Discord webhook", []string{"discord.com/api/webhooks/", "discordapp.com/api/webhooks/"}, anchored(`discord(?:app)?\.com/api/webhooks/[0-9]+/[A-Za-z0-9_-]{60,}`)},
	{"a Discord bot token", []string{"md", "mt", "mj", "mz", "nd", "nt", "nj", "nz", "od", "ot"}, anchored(discordToken, ended)},
	{"a Telegram bot token", []string{":aa"}, after(digits, 10, `[0-9]{8,10}:AA[A-Za-z0-9_-]{33}`)},
	{"a SendGrid key", []string{"sg."}, anchored(`SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}`)},
	{"a Twilio key", []string{"sk"}, anchored(`SK[0-9a-f]{32}`, ended, near("twilio"))},
	{"a Stripe key", []string{"rk_live_", "rk_test_", "sk_live_", "sk_test_", "rk_prod_", "sk_prod_"}, anchored(`[rs]k_(?:live|test|prod)_[A-Za-z0-9]{16,}`, ended)},
	{"a webhook secret", []string{"whsec_"}, anchored(`whsec_[A-Za-z0-9+/=]{24,}`)},
	{"a Shopify token", []string{"shpat_", "shpca_", "shppa_", "shpss_"}, anchored(`shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}`, ended)},
	{"a WooCommerce key", []string{"ck_", "cs_"}, anchored(`c[ks]_[0-9a-f]{40}`, ended)},
	{"a Linear key", []string{"lin_api_"}, anchored(`lin_api_[A-Za-z0-9]{40}`, ended)},
	{"a Notion token", []string{"ntn_"}, anchored(`ntn_[A-Za-z0-9]{40,}`, ended)},
	{"a Postman key", []string{"pmak-"}, anchored(`PMAK-[0-9a-f]{24}-[0-9a-f]{34}`, ended)},
	{"a New Relic key", []string{"nrak-"}, anchored(`NRAK-[A-Z0-9]{27}`, ended)},

	{"a database password", []string{"://"}, after(schemeBytes, 24, databaseURL, password, notLocal)},
	{"a Basic authorization", []string{"authorization"}, anchored(`(?i:authorization`+blank+`basic[ \t]+)([A-Za-z0-9+/]{12,}={0,2})`, basic)},
	{"a Bearer token", []string{"authorization"}, anchored(`(?i:authorization`+blank+`(?:bearer|token)[ \t]+)([A-Za-z0-9._~+/=-]{20,})`, password, noSample)},
}

// awsID is the id of an access key.
const awsID = `(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}`

// databaseURL is the address of a database with a password in it.
const databaseURL = `(?i:postgres(?:ql)?|mysql|mariadb|mongodb|rediss?|amqps?|mssql|sqlserver|clickhouse|cockroachdb|cockroach)(?:\+[a-z0-9]+)?` +
	`://[^\s:/@"'<>]{0,64}:([^\s/@"'<>]{1,128})@[A-Za-z0-9_\[]`

var schemeBytes = alphabetOf(digitChars + letterChars + "+")

// discordToken is the token of a bot. It begins with base64 of decimal digits.
const discordToken = `(?:[MN][DTjz]|O[DT])[AEIMQUYcgk][w-z0-5][A-Za-z0-9]{20,22}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,40}`

//go:generate sh ../../scripts/credentials/generate.sh

// gitleaksRule is a rule of gitleaks.
type gitleaksRule struct {
	id       string
	keywords []string // beginnings of every match, in lower case
	pattern  string
	bounded  bool    // no letter or digit follows
	entropy  float64 // a match has more, in bits per byte
}

// take makes a rule of ours of one of gitleaks. It reads all letters and digits as
// one token where gitleaks reads source code: tokens in prose end with a full stop.
func take(g *gitleaksRule) rule {
	tests := []test{func(text string, from, to int) bool {
		match := text[from:to]
		return entropy(match) > g.entropy && !slices.ContainsFunc(gitleaksStopwords,
			func(word string) bool { return strings.Contains(strings.ToLower(match), word) })
	}}
	if g.bounded {
		tests = append(tests, ended)
	}
	return rule{"a credential (" + g.id + ")", g.keywords, anchored(g.pattern, tests...)}
}
