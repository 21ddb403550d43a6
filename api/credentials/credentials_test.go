package credentials

import (
	"encoding/base64"
	"math/rand/v2"
	"strings"
	"testing"
)

// made is a text of n characters from an alphabet: the tests hold no credential
// that a scanner of this repository would stop at.
func made(n int, alphabet string) string {
	rng := rand.New(rand.NewPCG(1, uint64(n)))
	b := make([]byte, n)
	for i := range b {
		b[i] = alphabet[rng.IntN(len(alphabet))]
	}
	return string(b)
}

const (
	lowerSet   = "abcdefghijklmnopqrstuvwxyz"
	digitsSet  = "0123456789"
	hexesSet   = digitsSet + "abcdef"
	lettersSet = lowerSet + "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	alnumSet   = lettersSet + digitsSet
	upper32    = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
	lower32    = lowerSet + "234567"
	urlSet     = alnumSet + "_-"
)

// word keeps \b at both ends of what is made of urlSet.
func word(n int) string { return "a" + made(n-2, urlSet) + "z" }

// pem is a private key of a kind, in lines like those of openssl.
func pem(kind, newline string) string { return pemLines(kind, newline, 64) }

// pemLines is a private key of a kind in lines of a length.
func pemLines(kind, newline string, length int) string {
	body := base64.StdEncoding.EncodeToString([]byte(made(600, alnumSet)))
	var b strings.Builder
	b.WriteString("-----BEGIN " + kind + "-----" + newline)
	for len(body) > 0 {
		n := min(length, len(body))
		b.WriteString(body[:n] + newline)
		body = body[n:]
	}
	return b.String() + "-----END " + kind + "-----"
}

func TestCredentialsAreFound(t *testing.T) {
	for name, text := range map[string]string{
		"edit_key":         "ck_" + made(52, lower32),
		"moderator":        "cmod_" + made(52, lower32),
		"RSA key":          pem("RSA PRIVATE KEY", "\n"),
		"PKCS 8 key":       pem("PRIVATE KEY", "\r\n"),
		"escaped key":      pem("EC PRIVATE KEY", `\n`),
		"OpenSSH key":      pem("OPENSSH PRIVATE KEY", "\n"),
		"PGP key":          pem("PGP PRIVATE KEY BLOCK", "\n"),
		"cut key":          pem("RSA PRIVATE KEY", "\n")[:200],
		"short lines":      pemLines("PRIVATE KEY", "\n", 31),
		"very short lines": pemLines("RSA PRIVATE KEY", "\r\n  ", 4),
		"short, escaped":   pemLines("EC PRIVATE KEY", `\r\n`, 20),
		"two tokens":       "ghp_" + made(36, alnumSet) + "_ghp_" + made(36, alnumSet),
		"age key":          "AGE-SECRET-KEY-1" + made(58, strings.ToUpper(lowerSet)+digitsSet),
		"JWT":              "eyJ" + made(30, alnumSet) + ".eyJ" + made(60, alnumSet) + "." + made(43, alnumSet),
		"GitHub token":     "ghp_" + made(36, alnumSet),
		"GitHub app token": "ghs_" + made(36, alnumSet),
		"GitHub fine":      "github_pat_" + made(22, alnumSet) + "_" + made(59, alnumSet),
		"GitLab":           "glpat-" + word(20),
		"npm":              "npm_" + made(36, alnumSet),
		"PyPI":             "pypi-" + word(170),
		"RubyGems":         "rubygems_" + made(48, hexesSet),
		"crates.io":        "cio" + made(32, alnumSet),
		"Docker":           "dckr_pat_" + word(27),
		"AWS":              "AKIA" + made(16, upper32),
		"AWS temporary":    "ASIA" + made(16, upper32),
		"Google":           "AIza" + word(35),
		"Google client":    "GOCSPX-" + word(28),
		"Google access":    "ya29." + word(120),
		"Azure":            "AccountKey=" + made(86, alnumSet) + "==",
		"DigitalOcean":     "dop_v1_" + made(64, hexesSet),
		"Vault":            "hvs." + word(95),
		"Tailscale":        "tskey-auth-" + made(12, alnumSet) + "-" + made(32, alnumSet),
		"Databricks":       "databricks token dapi" + made(32, hexesSet),
		"Anthropic":        "sk-ant-api03-" + word(93) + "AA",
		"OpenAI":           "sk-proj-" + word(120),
		"old OpenAI":       "sk-" + made(48, alnumSet),
		"OpenRouter":       "sk-or-v1-" + made(64, hexesSet),
		"DeepSeek":         "sk-" + made(32, hexesSet),
		"Hugging Face":     "hf_" + made(34, lettersSet),
		"Groq":             "gsk_" + made(52, alnumSet),
		"xAI":              "xai-" + made(80, alnumSet),
		"Perplexity":       "pplx-" + made(48, alnumSet),
		"Replicate":        "r8_" + made(37, alnumSet),
		"Slack bot":        "xoxb-" + made(12, digitsSet) + "-" + made(12, digitsSet) + "-" + made(24, alnumSet),
		"Slack app":        "xapp-1-" + made(11, "ABCDEF123") + "-" + made(13, digitsSet) + "-" + made(64, hexesSet),
		"Slack webhook":    "https://hooks.slack.com/services/T" + made(9, upper32) + "/B" + made(9, upper32) + "/" + made(24, alnumSet),
		"Discord webhook":  "https://discord.com/api/webhooks/" + made(18, digitsSet) + "/" + word(68),
		"Telegram":         made(10, "123456789") + ":AA" + word(33),
		"SendGrid":         "SG." + word(22) + "." + word(43),
		"Twilio":           "TWILIO_API_KEY=SK" + made(32, hexesSet),
		"Stripe":           "sk_live_" + made(24, alnumSet),
		"Stripe test":      "rk_test_" + made(99, alnumSet),
		"webhook secret":   "whsec_" + made(32, alnumSet),
		"Shopify":          "shpat_" + made(32, hexesSet),
		"WooCommerce":      "cs_" + made(40, hexesSet),
		"Linear":           "lin_api_" + made(40, alnumSet),
		"Notion":           "ntn_" + made(46, alnumSet),
		"Postman":          "PMAK-" + made(24, hexesSet) + "-" + made(34, hexesSet),
		"New Relic":        "NRAK-" + made(27, upper32),
	} {
		t.Run(name, func(t *testing.T) {
			for _, around := range [][2]string{{"", ""}, {"my key is ", ", is it not?"}, {"KEY=\"", "\"\n"}, {"é(", ")"}, {"x=", "&y=2"}, {"_", "_"}, {"MY_KEY_", "_"}} {
				redacted, found := Redact(around[0] + text + around[1])
				if found == "" {
					t.Fatalf("%q passes", around[0]+text+around[1])
				}
				if name != "cut key" && !strings.HasSuffix(redacted, around[1]) || !strings.HasPrefix(redacted, around[0]) {
					t.Errorf("the text around was changed: %q", redacted)
				}
				if !strings.Contains(redacted, Removed) || strings.Contains(redacted, text[len(text)-16:]) {
					t.Errorf("redacted to %q", redacted)
				}
				if again, found := Redact(redacted); found != "" || again != redacted {
					t.Errorf("the redacted text is rejected as %s: %q", found, redacted)
				}
			}
		})
	}
}

func TestNearMissesPass(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":           "",
		"prose":             "A token bucket refills at a rate. The key to it is the private key of the clock, ck_ or not.",
		"MD5":               made(32, hexesSet),
		"SHA-1":             "commit " + made(40, hexesSet),
		"SHA-256":           "sha256:" + made(64, hexesSet),
		"UUID":              "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
		"our id":            "e1kz7, j2 and h3",
		"long word":         "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft",
		"camel case":        "AbstractSingletonProxyFactoryBeanConfigurationManagerProvider",
		"constants":         "MAX_CONCURRENT_STREAM_COUNT_PER_CONNECTION_AND_CLIENT",
		"environment":       `os.Getenv("OPENAI_API_KEY"), process.env.GITHUB_TOKEN, $AWS_SECRET_ACCESS_KEY`,
		"names of formats":  "Keys begin with sk-, ghp_, github_pat_, AKIA, xoxb-, glpat-, AIza or hf_.",
		"placeholders":      "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx sk-XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX ck_" + strings.Repeat("a", 52),
		"AWS documentation": "AKIAIOSFODNN7EXAMPLE",
		"a short token":     "ghp_" + made(20, alnumSet),
		"a long AKIA word":  "AKIA" + made(17, upper32),
		"inside a word":     "backghp_" + made(36, alnumSet),
		"public key":        pem("PUBLIC KEY", "\n"),
		"certificate":       pem("CERTIFICATE", "\n"),
		"about PEM":         "A file that begins with -----BEGIN PRIVATE KEY----- is one: never post it. It ends with -----END PRIVATE KEY-----.",
		"more about PEM":    "The file begins with\n-----BEGIN PRIVATE KEY-----\nand after so many lines of lettersSet and digitsSet that nobody should ever see\n-----END PRIVATE KEY-----\nends it.",
		"public SSH key":    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + made(43, alnumSet) + " ada@example.org",
		"image":             "data:image/png;base64,iVBORw0KGgo" + made(800, alnumSet+"+/") + "=",
		"unsigned JWT part": "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9 is its first part",
		"scikit":            "pip install sk-learn-contrib-and-many-other-packages-for-everybody",
		"slug":              "https://example.org/2026/01/why-we-moved-our-whole-infrastructure-to-one-machine.html?utm_source=mail",
		"stack trace":       "github.com/commons-cluster/commons/fsm/index.(*Index).sealBlocks(0xc000123456)",
		"cache key":         "cache:v1:key-" + made(32, hexesSet),
		"version":           "go1.26.0-20260820225851-333444432258",
		"IPv6":              "2001:0db8:85a3:0000:0000:8a2e:0370:7334",
		"base64 text":       base64.StdEncoding.EncodeToString([]byte(strings.Repeat("Nothing secret here. ", 20))),
		"webhook docs":      "https://hooks.slack.com/services/T000/B000/XXXX",
		"DNA":               strings.Repeat("ACGTTGCA", 60),
		"Chinese":           strings.Repeat("世界和平", 100),
	} {
		if redacted, found := Redact(text); found != "" || redacted != text {
			t.Errorf("%s is rejected as %s: %q", name, found, redacted)
		}
	}
}

// FuzzRedact holds that what was redacted passes.
func FuzzRedact(f *testing.F) {
	f.Add("ghp_" + made(36, alnumSet) + " and " + pem("PRIVATE KEY", "\n"))
	f.Add("sk-" + made(48, alnumSet) + "sk-" + made(48, alnumSet))
	f.Fuzz(func(t *testing.T, text string) {
		redacted, found := Redact(text)
		if (found == "") != (redacted == text) {
			t.Fatalf("%q: found %q, redacted to %q", text, found, redacted)
		}
	})
}
