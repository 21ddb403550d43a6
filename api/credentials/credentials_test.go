package credentials

import (
	"encoding/base64"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
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

// word is a text of urlSet with a letter at both ends.
func word(n int) string { return "a" + made(n-2, urlSet) + "z" }

// pem is a private key of a kind, in lines like those of openssl.
func pem(kind, newline string) string {
	body := base64.StdEncoding.EncodeToString([]byte(made(600, alnumSet)))
	return "-----BEGIN " + kind + "-----" + newline + strings.Join(lines(body, 64), newline) + newline + "-----END " + kind + "-----"
}

// lines returns a text in lines of a length.
func lines(text string, length int) (all []string) {
	for part := range slices.Chunk([]byte(text), length) {
		all = append(all, string(part))
	}
	return all
}

// examples are credentials by the name of their form.
var examples = map[string][]string{
	"an edit_key of this service":         {"ck_" + made(52, lower32)},
	"a recovery_key of this service":      {"crk_" + made(52, lower32)},
	"a moderator's token of this service": {"cmod_" + made(52, lower32)},
	"a webhook secret":                    {"whsec_" + made(32, alnumSet), "whsec_" + base64.StdEncoding.EncodeToString([]byte(made(32, alnumSet)))},
	"a private key": {
		pem("RSA PRIVATE KEY", "\n"),
		pem("PRIVATE KEY", "\r\n"),
		pem("EC PRIVATE KEY", `\n`),
		pem("OPENSSH PRIVATE KEY", "\n"),
		pem("PGP PRIVATE KEY BLOCK", "\n"),
		strings.Replace(pem("RSA PRIVATE KEY", "\n"), "-----\n", "-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,"+made(32, hexesSet)+"\n\n", 1),
	},
	"an age key":           {"AGE-SECRET-KEY-1" + made(58, strings.ToUpper(lowerSet)+digitsSet)},
	"a signed token":       {"eyJ" + made(30, alnumSet) + ".eyJ" + made(60, alnumSet) + "." + made(43, alnumSet)},
	"a GitHub token":       {"ghp_" + made(36, alnumSet), "ghs_" + made(36, alnumSet), "github_pat_" + made(22, alnumSet) + "_" + made(59, alnumSet)},
	"a GitLab token":       {"glpat-" + word(20)},
	"an npm token":         {"npm_" + made(36, alnumSet)},
	"a PyPI token":         {"pypi-" + word(170)},
	"an AWS access key":    {"AKIA" + made(16, upper32), "ASIA" + made(16, upper32)},
	"an AWS secret key":    {"AWS_SECRET_ACCESS_KEY=" + made(39, alnumSet+"+/") + "9", `SecretAccessKey": "` + made(39, alnumSet+"+/") + "9"},
	"a Google API key":     {"AIza" + word(35)},
	"an Azure storage key": {"AccountKey=" + made(86, alnumSet) + "=="},
	"an Anthropic key":     {"sk-ant-api03-" + word(93) + "AA"},
	"an OpenAI key":        {"sk-proj-" + word(120)},
	"an API key":           {"sk-" + made(48, alnumSet), "sk-or-v1-" + made(64, hexesSet), "sk-" + made(32, hexesSet)},
	"a Hugging Face token": {"hf_" + made(34, lettersSet)},
	"a Groq key":           {"gsk_" + made(52, alnumSet)},
	"a Slack token": {
		"xoxb-" + made(12, digitsSet) + "-" + made(12, digitsSet) + "-" + made(24, alnumSet),
		"xapp-1-" + made(11, "ABCDEF123") + "-" + made(13, digitsSet) + "-" + made(64, hexesSet),
	},
	"a Slack webhook":      {"hooks.slack.com/services/T" + made(9, upper32) + "/B" + made(9, upper32) + "/" + made(24, alnumSet)},
	"a Discord webhook":    {"discord.com/api/webhooks/" + made(18, digitsSet) + "/" + word(68)},
	"a Telegram bot token": {made(10, "123456789") + ":AA" + word(33)},
	"a SendGrid key":       {"SG." + word(22) + "." + word(43)},
	"a Stripe key":         {"sk_live_" + made(24, alnumSet), "rk_test_" + made(99, alnumSet)},
}

// around are texts before and behind a credential.
var around = [][2]string{
	{"", ""}, {"my key is ", ", is it not?"}, {"KEY=\"", "\"\n"}, {"é(", ")"}, {"x=", "&y=2"}, {"_", ". More."}, {"MY_KEY_", ""},
}

// TestCredentialsAreFound holds that the examples of each form are found and removed, and the text
// around them stays.
func TestCredentialsAreFound(t *testing.T) {
	for i := range forms {
		t.Run(forms[i].name, func(t *testing.T) {
			if len(examples[forms[i].name]) == 0 {
				t.Fatal("the form has no example")
			}
			for _, example := range examples[forms[i].name] {
				for _, a := range around {
					text := a[0] + example + a[1]
					redacted, found := Redact(text)
					check.Equal(t, found, forms[i].name, "found in %q", text)
					if !strings.HasPrefix(redacted, a[0]) || !strings.HasSuffix(redacted, Removed+a[1]) {
						t.Errorf("%q is redacted to %q", text, redacted)
					}
					_, found = Redact(redacted)
					check.Equal(t, found, "", "found in the redacted text %q", redacted)
				}
			}
		})
	}
	check.Equal(t, len(examples), len(forms), "forms with examples")
}

// TestTwoCredentials holds that each credential of a text is removed.
func TestTwoCredentials(t *testing.T) {
	github, ours := "ghp_"+made(36, alnumSet), "ck_"+made(52, lower32)
	redacted, found := Redact(github + "_" + ours + " and " + github)
	check.Equal(t, found, "a GitHub token", "found")
	check.Equal(t, redacted, Removed+"_"+Removed+" and "+Removed, "redacted")
}

// TestCutKey holds that a private key without its end is removed.
func TestCutKey(t *testing.T) {
	redacted, found := Redact("See " + pem("RSA PRIVATE KEY", "\n")[:200])
	check.Equal(t, found, "a private key", "found")
	check.Equal(t, redacted, "See "+Removed, "redacted")
}

// TestBeginnings holds that no beginning is dead: an example of its form is also found with it.
func TestBeginnings(t *testing.T) {
	for i := range forms {
		for _, begin := range forms[i].beginnings {
			alive := slices.ContainsFunc(examples[forms[i].name], func(example string) bool {
				for _, other := range forms[i].beginnings {
					if _, found := Redact(strings.Replace(example, other, begin, 1)); strings.Contains(example, other) && found == forms[i].name {
						return true
					}
				}
				return false
			})
			check.Equal(t, alive, true, "%s with %q is found", forms[i].name, begin)
		}
	}
}

// TestHonestTextPasses holds what looks a little like a credential.
func TestHonestTextPasses(t *testing.T) {
	const header = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9"
	const jwtIO = header + ".eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4gRG9lIiwiaWF0IjoxNTE2MjM5MDIyfQ." + "SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c"
	for name, text := range map[string]string{
		"nothing":                 "",
		"prose":                   "A token bucket refills at a rate. The key to it is the private key of the clock, ck_ or not.",
		"MD5":                     made(32, hexesSet),
		"SHA-1":                   "commit " + made(40, hexesSet),
		"SHA-256":                 "sha256:" + made(64, hexesSet),
		"UUID":                    "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
		"a hash in a slug":        "https://example.org/task-" + made(32, hexesSet) + "/risk-" + made(40, hexesSet),
		"our id":                  "e1kz7, j2 and h3",
		"long word":               "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft",
		"camel case":              "AbstractSingletonProxyFactoryBeanConfigurationManagerProvider",
		"constants":               "MAX_CONCURRENT_STREAM_COUNT_PER_CONNECTION_AND_CLIENT",
		"environment":             `os.Getenv("OPENAI_API_KEY"), process.env.GITHUB_TOKEN, $AWS_SECRET_ACCESS_KEY`,
		"names of formats":        "Keys begin with sk-, ghp_, github_pat_, AKIA, xoxb-, glpat-, AIza or hf_.",
		"placeholders":            "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx sk-XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX ck_" + strings.Repeat("a", 52),
		"AWS documentation":       "AKIAIOSFODNN7EXAMPLE",
		"a short token":           "ghp_" + made(20, alnumSet),
		"a long AKIA word":        "AKIA" + made(17, upper32),
		"inside a word":           "backghp_" + made(36, alnumSet),
		"public key":              pem("PUBLIC KEY", "\n"),
		"certificate":             pem("CERTIFICATE", "\n"),
		"about PEM":               "A file that begins with -----BEGIN PRIVATE KEY----- is one: never post it. It ends with -----END PRIVATE KEY-----.",
		"more about PEM":          "The file begins with\n-----BEGIN PRIVATE KEY-----\nand after so many lines of lettersSet and digitsSet that nobody should ever see\n-----END PRIVATE KEY-----\nends it.",
		"public SSH key":          "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + made(43, alnumSet) + " ada@example.org",
		"image":                   "data:image/png;base64,iVBORw0KGgo" + made(800, alnumSet+"+/") + "=",
		"unsigned JWT part":       "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9 is its first part",
		"scikit":                  "pip install sk-learn-contrib-and-many-other-packages-for-everybody",
		"slug":                    "https://example.org/2026/01/why-we-moved-our-whole-infrastructure-to-one-machine.html?utm_source=mail",
		"stack trace":             "github.com/commons-cluster/commons/fsm/index.(*Index).sealBlocks(0xc000123456)",
		"cache key":               "cache:v1:key-" + made(32, hexesSet),
		"version":                 "go1.26.0-20260820225851-333444432258",
		"IPv6":                    "2001:0db8:85a3:0000:0000:8a2e:0370:7334",
		"base64 text":             base64.StdEncoding.EncodeToString([]byte(strings.Repeat("Nothing secret here. ", 20))),
		"webhook docs":            "https://hooks.slack.com/services/T000/B000/XXXX",
		"DNA":                     strings.Repeat("ACGTTGCA", 60),
		"Chinese":                 strings.Repeat("世界和平", 100),
		"the sample of jwt.io":    jwtIO,
		"that sample as a bearer": "Authorization: Bearer " + jwtIO,
		"SK and a hash":           "SK" + made(32, hexesSet),
		"dapi and a hash":         "dapi" + made(32, hexesSet),
		"a word with hf_":         "hf_transformersModelForSequenceClassification and hf_" + strings.Repeat("abcdefghij", 4),
		"a word with sk-":         "sk-Donaudampfschifffahrtselektrizitaetenhauptbetriebswerk",
		"a word with cio":         "cioAbstractSingletonProxyFactoryBean",
		"the sample of AWS":       "AKIAIOSFODNN7EXAMPLE and aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/" + "bPxRfiCYEXAMPLEKEY",
		"a list of words":         "sk-\nlearn\nand\nother\npackages\nfor\neverybody\nin\nthe\nworld\nof\nnumbers",
		"commits":                 strings.Repeat("commit "+made(40, hexesSet)+"\n", 5),
		"UUIDs":                   strings.Repeat("6ba7b810-9dad-11d1-80b4-00c04fd430c8\n", 9),
		"hashes":                  made(32, hexesSet) + " " + made(64, hexesSet) + " " + made(96, hexesSet) + " " + made(128, hexesSet),
		"subresource integrity":   "sha384-" + made(64, alnumSet+"+/"),
		"an image":                "data:image/png;base64,iVBORw0KGgo" + made(4000, alnumSet+"+/") + "==",
		"an image in lines":       strings.Join(strings.SplitAfterN(made(400, alnumSet+"+/"), "a", 8), "\n"),
		"a long address":          "https://example.org/a/" + made(300, alnumSet) + "?id=" + made(200, hexesSet) + "&utm_source=x",
		"a signed address":        "https://bucket.s3.amazonaws.com/a?X-Amz-Signature=" + made(64, hexesSet),
		"go.sum":                  "github.com/x/y v1.2.3 h1:" + made(43, alnumSet+"+/") + "=",
		"pages":                   strings.Repeat("Mzung.example.organisations", 9),
	} {
		t.Run(name, func(t *testing.T) {
			redacted, found := Redact(text)
			check.Equal(t, found, "", "found")
			check.Equal(t, redacted, text, "redacted")
		})
	}
}

// FuzzRedact holds that a text changes if and only if it has a credential.
func FuzzRedact(f *testing.F) {
	f.Add("ghp_" + made(36, alnumSet) + " and " + pem("PRIVATE KEY", "\n"))
	f.Add("sk-" + made(48, alnumSet) + "sk-" + made(48, alnumSet))
	f.Fuzz(func(t *testing.T, text string) {
		redacted, found := Redact(text)
		must.Equal(t, found == "", redacted == text, "%q: found %q, redacted to %q", text, found, redacted)
	})
}
