package credentials

import (
	"encoding/base64"
	"strings"
	"testing"
)

// discordBot is a bot token as Discord documents it: the id of the bot, the time of
// the token and a proof.
func discordBot(id string) string {
	return base64.RawStdEncoding.EncodeToString([]byte(id)) + "." + made(6, urlSet) + "." + word(38)
}

// putty is a key as PuTTYgen writes it.
func putty(version, newline string) string {
	body := made(200, alnumSet)
	lines := []string{
		"PuTTY-User-Key-File-" + version + ": ssh-ed25519", "Encryption: none", "Comment: a key", "Public-Lines: 2",
		made(64, alnumSet), made(16, alnumSet) + "==", "Private-Lines: 3", body[:64], body[64:128], body[128:160],
		"Private-MAC: " + made(64, hexesSet),
	}
	return strings.Join(lines, newline)
}

func header(scheme, value string) string { return "Authorization: " + scheme + " " + value }

// TestVendorsShapes holds formats as their vendors document them.
func TestVendorsShapes(t *testing.T) {
	password := "h7" + made(12, alnumSet) + "9z"
	awsSecret := made(38, alnumSet+"+/") + "Z9"
	jwt := "eyJ" + made(30, alnumSet) + ".eyJ" + made(60, alnumSet) + "." + made(43, alnumSet)
	for name, text := range map[string]string{
		"Slack xoxc":        "xoxc-" + made(12, digitsSet) + "-" + made(13, digitsSet) + "-" + made(11, digitsSet) + "-" + made(64, hexesSet),
		"Slack xoxd":        "xoxd-" + made(60, alnumSet) + "%2B" + made(60, alnumSet) + "%3D%3D",
		"Discord bot, M":    discordBot("4" + made(17, digitsSet)),
		"Discord bot, N":    discordBot("7" + made(18, digitsSet)),
		"Discord bot, O":    discordBot("8" + made(17, digitsSet)),
		"postgres":          "postgres://app:" + password + "@db.corp.io:5432/app",
		"postgresql":        "postgresql+psycopg2://app:" + password + "@10.0.0.7/app",
		"mysql":             "mysql://root:" + password + "@db/app",
		"mongodb":           "mongodb+srv://app:" + password + "@cluster0.ab1cd.mongodb.net/?retryWrites=true",
		"redis":             "redis://:" + password + "@cache.corp.io:6379/0",
		"rediss":            "rediss://default:" + password + "@cache.corp.io",
		"amqp":              "amqps://app:" + password + "@mq.corp.io/vhost",
		"PuTTY 2":           putty("2", "\n"),
		"PuTTY 3":           putty("3", "\r\n"),
		"Atlassian":         "ATATT3xFfGF0" + word(180) + "=" + made(8, "0123456789ABCDEF"),
		"Bitbucket":         "ATBB" + made(32, alnumSet),
		"Supabase":          "sbp_" + made(40, hexesSet),
		"Supabase secret":   "sb_secret_" + word(31),
		"Doppler":           "dp.pt." + made(43, alnumSet),
		"Doppler service":   "dp.st.dev_main." + made(40, alnumSet),
		"Fly":               "fo1_" + word(43),
		"Fly macaroon":      "fm2_" + made(680, alnumSet+"+/"),
		"Grafana":           "glsa_" + made(32, alnumSet) + "_" + made(8, hexesSet),
		"Grafana cloud":     "glc_" + made(120, alnumSet),
		"Grafana key":       "eyJrIjoi" + made(80, alnumSet),
		"Pulumi":            "pul-" + made(40, hexesSet),
		"AWS pair":          "AKIA" + made(16, upper32) + ":" + awsSecret,
		"AWS pair in lines": "aws_access_key_id = AKIA" + made(16, upper32) + "\naws_secret_access_key = " + awsSecret,
		"AWS secret":        "AWS_SECRET_ACCESS_KEY=" + awsSecret,
		"AWS secret, JSON":  `"SecretAccessKey": "` + awsSecret + `"`,
		"Basic":             header("Basic", base64.StdEncoding.EncodeToString([]byte("app:"+password))),
		"Bearer":            header("Bearer", "a1"+made(40, alnumSet)),
		"Bearer, JSON":      `{"Authorization": "Bearer b2` + made(40, alnumSet) + `"}`,
		"Bearer, JWT":       header("bearer", jwt),
		"in two lines":      "ghp_" + made(20, alnumSet) + "\n" + made(36, alnumSet)[20:],
		"in a shell":        "ghp_" + made(10, alnumSet) + "\\\n" + made(36, alnumSet)[10:],
		"in many lines":     "sk-ant-api03-" + strings.Join(strings.SplitAfter(word(93), "a"), "\r\n") + "AA",
		"zero width":        "ghp_" + made(5, alnumSet) + "\u200b" + made(36, alnumSet)[5:],
		"in zero widths":    strings.Join(strings.Split("ghp_"+made(36, alnumSet), ""), "\u200d"),
		"joined prefix":     "gh\u2060p_" + made(36, alnumSet),
	} {
		for _, around := range [][2]string{{"", ""}, {"See ", ", please."}, {"(", ")"}, {"\"", "\""}} {
			redacted, found := Redact(around[0] + text + around[1])
			if found == "" {
				t.Errorf("%s: %q passes", name, around[0]+text+around[1])
				continue
			}
			for _, secret := range []string{text[len(text)-12:], password, awsSecret, jwt[40:]} {
				if !strings.Contains(redacted, Removed) || strings.Contains(redacted, secret) && !strings.Contains(text, ":"+password+"@") {
					t.Errorf("%s: %q stands in %q", name, secret, redacted)
				}
			}
			if again, found := Redact(redacted); found != "" {
				t.Errorf("%s: the redacted text is rejected as %s: %q", name, found, again)
			}
		}
	}
}

// TestHonestTextPasses holds what looks a little like a credential.
func TestHonestTextPasses(t *testing.T) {
	const header = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9"
	for name, text := range map[string]string{
		"the sample of jwt.io":    header + ".eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4gRG9lIiwiaWF0IjoxNTE2MjM5MDIyfQ." + "SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c",
		"that sample as a bearer": "Authorization: Bearer " + header + ".eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4gRG9lIiwiaWF0IjoxNTE2MjM5MDIyfQ." + "SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c",
		"SK and a hash":           "SK" + made(32, hexesSet),
		"dapi and a hash":         "dapi" + made(32, hexesSet),
		"a word with hf_":         "hf_transformersModelForSequenceClassification and hf_" + strings.Repeat("abcdefghij", 4),
		"a word with sk-":         "sk-Donaudampfschifffahrtselektrizitaetenhauptbetriebswerk",
		"a word with cio":         "cioAbstractSingletonProxyFactoryBean",
		"placeholders in addresses": "postgres://user:password@db/app mysql://$USER:$PASSWORD@db mongodb+srv://<user>:<pass>@c.mongodb.net " +
			"redis://:${REDIS_PASSWORD}@cache amqp://guest:guest@localhost:5672 postgresql://app:s3cr3tpw9@localhost/app " +
			"postgres://user:pa55word99@example.com/db mysql://root:****@db",
		"an address without a password": "postgres://app@db.corp.io:5432/app redis://cache.corp.io:6379/0",
		"placeholders in headers":       "Authorization: Bearer YOUR_API_TOKEN_GOES_HERE_1 Authorization: Bearer $TOKEN Authorization: Bearer <token>",
		"the sample of RFC 7617":        "Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==",
		"the sample of AWS":             "AKIAIOSFODNN7EXAMPLE and aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/" + "bPxRfiCYEXAMPLEKEY",
		"about PuTTY":                   "PuTTY-User-Key-File-3: ssh-rsa is the first line; Private-Lines: says how many follow.",
		"a list of words":               "sk-\nlearn\nand\nother\npackages\nfor\neverybody\nin\nthe\nworld\nof\nnumbers",
		"commits":                       strings.Repeat("commit "+made(40, hexesSet)+"\n", 5),
		"UUIDs":                         strings.Repeat("6ba7b810-9dad-11d1-80b4-00c04fd430c8\n", 9),
		"hashes":                        made(32, hexesSet) + " " + made(64, hexesSet) + " " + made(96, hexesSet) + " " + made(128, hexesSet),
		"subresource integrity":         "sha384-" + made(64, alnumSet+"+/"),
		"an image":                      "data:image/png;base64,iVBORw0KGgo" + made(4000, alnumSet+"+/") + "==",
		"an image in lines":             strings.Join(strings.SplitAfterN(made(400, alnumSet+"+/"), "a", 8), "\n"),
		"a long address":                "https://example.org/a/" + made(300, alnumSet) + "?id=" + made(200, hexesSet) + "&utm_source=x",
		"a signed address":              "https://bucket.s3.amazonaws.com/a?X-Amz-Signature=" + made(64, hexesSet),
		"go.sum":                        "github.com/x/y v1.2.3 h1:" + made(43, alnumSet+"+/") + "=",
		"pages":                         strings.Repeat("Mzung.example.organisations", 9),
	} {
		if redacted, found := Redact(text); found != "" || redacted != text {
			t.Errorf("%s is rejected as %s: %q", name, found, redacted)
		}
	}
}
