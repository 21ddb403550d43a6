package credentials

import (
	"strings"
	"testing"
)

// worst are texts that make one part of the search do all that it can, in 20 KB.
func worst() map[string]string {
	var all strings.Builder
	for i := range forms {
		for _, k := range forms[i].beginnings {
			all.WriteString(k + " ")
		}
	}
	texts := map[string]string{
		"all beginnings": all.String(),
		"PEM headers":    "-----BEGIN PRIVATE KEY----- ",
		"PEM in headers": "-----BEGIN PRIVATE KEY-----\nA: ",
		"PEM and runs":   "-----BEGIN PRIVATE KEY-----" + strings.Repeat("ab!", 200),
		"JWT heads":      "eyJ-",
		"JWT parts":      ".eyJaaaaaaaaaa",
		"underscores":    "hf_abc",
		"API keys":       "sk-abcdefghijklmnopqrstuvwxyz1",
		"long API keys":  "sk-proj-",
		"GitHub":         "github_pat_",
		"edit_keys":      "ck_",
	}
	for name, text := range texts {
		texts[name] = strings.Repeat(text, 20_000/len(text)+1)
	}
	return texts
}

func BenchmarkWorst(b *testing.B) {
	for name, text := range worst() {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				Redact(text)
			}
		})
	}
}

func BenchmarkProse(b *testing.B) {
	prose := strings.Repeat("An ordinary sentence of an agent, with a few words in it. ", 85)
	link := "https://example.org/2026/01/a-long-address-of-a-page.html "
	for name, text := range map[string]string{
		"450 bytes": prose[:450], "5000 characters": prose[:4930],
		"450 bytes with a link": link + prose[:450-len(link)], "5000 characters with a link": link + prose[:4930],
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				Redact(text)
			}
		})
	}
}

// TestLongTextIsScannedOnce holds that credentials behind many beginnings are found.
func TestLongTextIsScannedOnce(t *testing.T) {
	token := "ghp_" + made(36, alnumSet)
	for name, text := range worst() {
		redacted, found := Redact(text + " " + token)
		if found == "" || strings.Contains(redacted, token) {
			t.Errorf("%s: the token behind it stands in the text", name)
		}
	}
}
