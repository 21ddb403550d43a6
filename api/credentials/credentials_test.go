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
	lower   = "abcdefghijklmnopqrstuvwxyz"
	digits  = "0123456789"
	hexes   = digits + "abcdef"
	letters = lower + "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	alnum   = letters + digits
	upper32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
	lower32 = lower + "234567"
	url64   = alnum + "_-"
)

// word keeps \b at both ends of what is made of url64.
func word(n int) string { return "a" + made(n-2, url64) + "z" }

// pem is a private key of a kind, in lines like those of openssl.
func pem(kind, newline string) string { return pemLines(kind, newline, 64) }

// pemLines is a private key of a kind in lines of a length.
func pemLines(kind, newline string, length int) string {
	body := base64.StdEncoding.EncodeToString([]byte(made(600, alnum)))
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
		"RSA key":          pem("RSA PRIVATE KEY", "\n"),
		"PKCS 8 key":       pem("PRIVATE KEY", "\r\n"),
		"escaped key":      pem("EC PRIVATE KEY", `\n`),
		"OpenSSH key":      pem("OPENSSH PRIVATE KEY", "\n"),
		"PGP key":          pem("PGP PRIVATE KEY BLOCK", "\n"),
		"cut key":          pem("RSA PRIVATE KEY", "\n")[:200],
		"short lines":      pemLines("PRIVATE KEY", "\n", 31),
		"very short lines": pemLines("RSA PRIVATE KEY", "\r\n  ", 4),
		"short, escaped":   pemLines("EC PRIVATE KEY", `\r\n`, 20),
		"two tokens":       "ghp_" + made(36, alnum) + "_ghp_" + made(36, alnum),
		"age key":          "AGE-SECRET-KEY-1" + made(58, strings.ToUpper(lower)+digits),
		"JWT":              "eyJ" + made(30, alnum) + ".eyJ" + made(60, alnum) + "." + made(43, alnum),
		"GitHub token":     "ghp_" + made(36, alnum),
		"GitHub app token": "ghs_" + made(36, alnum),
		"GitHub fine":      "github_pat_" + made(22, alnum) + "_" + made(59, alnum),
		"GitLab":           "glpat-" + word(20),
		"npm":              "npm_" + made(36, alnum),
		"PyPI":             "pypi-" + word(170),
		"RubyGems":         "rubygems_" + made(48, hexes),
		"crates.io":        "cio" + made(32, alnum),
		"Docker":           "dckr_pat_" + word(27),
		"AWS":              "AKIA" + made(16, upper32),
		"AWS temporary":    "ASIA" + made(16, upper32),
		"Google":           "AIza" + word(35),
		"Google client":    "GOCSPX-" + word(28),
		"Google access":    "ya29." + word(120),
		"Azure":            "AccountKey=" + made(86, alnum) + "==",
		"DigitalOcean":     "dop_v1_" + made(64, hexes),
		"Vault":            "hvs." + word(95),
		"Tailscale":        "tskey-auth-" + made(12, alnum) + "-" + made(32, alnum),
		"Databricks":       "dapi" + made(32, hexes),
		"Anthropic":        "sk-ant-api03-" + word(93) + "AA",
		"OpenAI":           "sk-proj-" + word(120),
		"old OpenAI":       "sk-" + made(48, alnum),
		"OpenRouter":       "sk-or-v1-" + made(64, hexes),
		"DeepSeek":         "sk-" + made(32, hexes),
		"Hugging Face":     "hf_" + made(34, letters),
		"Groq":             "gsk_" + made(52, alnum),
		"xAI":              "xai-" + made(80, alnum),
		"Perplexity":       "pplx-" + made(48, alnum),
		"Replicate":        "r8_" + made(37, alnum),
		"Slack bot":        "xoxb-" + made(12, digits) + "-" + made(12, digits) + "-" + made(24, alnum),
		"Slack app":        "xapp-1-" + made(11, "ABCDEF123") + "-" + made(13, digits) + "-" + made(64, hexes),
		"Slack webhook":    "https://hooks.slack.com/services/T" + made(9, upper32) + "/B" + made(9, upper32) + "/" + made(24, alnum),
		"Discord webhook":  "https://discord.com/api/webhooks/" + made(18, digits) + "/" + word(68),
		"Telegram":         made(10, "123456789") + ":AA" + word(33),
		"SendGrid":         "SG." + word(22) + "." + word(43),
		"Twilio":           "SK" + made(32, hexes),
		"Stripe":           "sk_live_" + made(24, alnum),
		"Stripe test":      "rk_test_" + made(99, alnum),
		"webhook secret":   "whsec_" + made(32, alnum),
		"Shopify":          "shpat_" + made(32, hexes),
		"WooCommerce":      "cs_" + made(40, hexes),
		"Linear":           "lin_api_" + made(40, alnum),
		"Notion":           "ntn_" + made(46, alnum),
		"Postman":          "PMAK-" + made(24, hexes) + "-" + made(34, hexes),
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
					t.Errorf("the redacted text is refused as %s: %q", found, redacted)
				}
			}
		})
	}
}

func TestNearMissesPass(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":           "",
		"prose":             "A token bucket refills at a rate. The key to it is the private key of the clock, ck_ or not.",
		"MD5":               made(32, hexes),
		"SHA-1":             "commit " + made(40, hexes),
		"SHA-256":           "sha256:" + made(64, hexes),
		"UUID":              "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
		"our id":            "e1kz7, j2 and h3",
		"long word":         "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft",
		"camel case":        "AbstractSingletonProxyFactoryBeanConfigurationManagerProvider",
		"constants":         "MAX_CONCURRENT_STREAM_COUNT_PER_CONNECTION_AND_CLIENT",
		"environment":       `os.Getenv("OPENAI_API_KEY"), process.env.GITHUB_TOKEN, $AWS_SECRET_ACCESS_KEY`,
		"names of formats":  "Keys begin with sk-, ghp_, github_pat_, AKIA, xoxb-, glpat-, AIza or hf_.",
		"placeholders":      "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx sk-XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX ck_" + strings.Repeat("a", 52),
		"AWS documentation": "AKIAIOSFODNN7EXAMPLE",
		"a short token":     "ghp_" + made(20, alnum),
		"a long AKIA word":  "AKIA" + made(17, upper32),
		"inside a word":     "backghp_" + made(36, alnum),
		"public key":        pem("PUBLIC KEY", "\n"),
		"certificate":       pem("CERTIFICATE", "\n"),
		"about PEM":         "A file that begins with -----BEGIN PRIVATE KEY----- is one: never post it. It ends with -----END PRIVATE KEY-----.",
		"more about PEM":    "The file begins with\n-----BEGIN PRIVATE KEY-----\nand after so many lines of letters and digits that nobody should ever see\n-----END PRIVATE KEY-----\nends it.",
		"public SSH key":    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + made(43, alnum) + " ada@example.org",
		"image":             "data:image/png;base64,iVBORw0KGgo" + made(800, alnum+"+/") + "=",
		"unsigned JWT part": "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9 is its first part",
		"scikit":            "pip install sk-learn-contrib-and-many-other-packages-for-everybody",
		"slug":              "https://example.org/2026/01/why-we-moved-our-whole-infrastructure-to-one-machine.html?utm_source=mail",
		"stack trace":       "github.com/commons-cluster/commons/fsm/index.(*Index).sealBlocks(0xc000123456)",
		"cache key":         "cache:v1:key-" + made(32, hexes),
		"version":           "go1.26.0-20260820225851-333444432258",
		"IPv6":              "2001:0db8:85a3:0000:0000:8a2e:0370:7334",
		"base64 text":       base64.StdEncoding.EncodeToString([]byte(strings.Repeat("Nothing secret here. ", 20))),
		"webhook docs":      "https://hooks.slack.com/services/T000/B000/XXXX",
		"DNA":               strings.Repeat("ACGTTGCA", 60),
		"Chinese":           strings.Repeat("世界和平", 100),
	} {
		if redacted, found := Redact(text); found != "" || redacted != text {
			t.Errorf("%s is refused as %s: %q", name, found, redacted)
		}
	}
}

// FuzzRedact holds that what was redacted passes.
func FuzzRedact(f *testing.F) {
	f.Add("ghp_" + made(36, alnum) + " and " + pem("PRIVATE KEY", "\n"))
	f.Add("sk-" + made(48, alnum) + "sk-" + made(48, alnum))
	f.Fuzz(func(t *testing.T, text string) {
		redacted, found := Redact(text)
		if (found == "") != (redacted == text) {
			t.Fatalf("%q: found %q, redacted to %q", text, found, redacted)
		}
	})
}

func BenchmarkRedact(b *testing.B) {
	prose := strings.Repeat("An ordinary sentence of an agent, with a few words in it. ", 85)
	for name, text := range map[string]string{"prose": prose, "with a link": prose + "https://example.org/2026/01/a-long-address-of-a-page.html"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				Redact(text)
			}
		})
	}
}
