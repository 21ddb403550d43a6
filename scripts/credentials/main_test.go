package main

import (
	"strings"
	"testing"

	"github.com/commons-cluster/commons/internal/must"
)

func TestGenerate(t *testing.T) {
	var c config
	c.Allowlist.Stopwords = []string{"abc"}
	c.Rules = []rule{
		{ID: "taken", Regex: `\b((?:new|old)_tkn_[a-z]{20})` + terminator, Entropy: 3.5},
		{ID: "named", Regex: `(?i)[\w.-]{0,50}?(?:vendor)([a-z]{20})`},
		{ID: "allowed", Regex: `vendor_[a-z]{20}`, Allowlists: []struct{ Regexes []string }{{[]string{"x"}}}},
		{ID: "repeated", Regex: `vendor-([a-z]{4}-){3}`},
	}
	source := must.Get(generate(&c, "MIT License\n\nCopyright\n"))(t)
	for _, want := range []string{
		"// MIT License", `{"taken", []string{"new_tkn_", "old_tkn_"}, ` + "`" + `\b((?:new|old)_tkn_[a-z]{20})` + "`, true, 3.5}",
		"`vendor-(?:[a-z]{4}-){3}`",
	} {
		if !strings.Contains(string(source), want) {
			t.Errorf("without %s:\n%s", want, source)
		}
	}
	for _, id := range []string{"named", "allowed"} {
		if strings.Contains(string(source), id) {
			t.Errorf("%s was taken:\n%s", id, source)
		}
	}
}
