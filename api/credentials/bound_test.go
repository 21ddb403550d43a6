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
