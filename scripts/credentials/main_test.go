package main

import (
	"slices"
	"strings"
	"testing"
)

const config = `
title = "x"
[allowlist]
stopwords = [
    "abc",
]

[[rules]]
id = "taken"
regex = '''\b((?:new|old)_tkn_[a-z]{20})` + terminator + `'''
entropy = 3.5
keywords = ["new_tkn_", "old_tkn_"]

[[rules]]
id = "named"
regex = '''(?i)[\w.-]{0,50}?(?:vendor)([a-z]{20})'''

[[rules]]
id = "allowed"
regex = '''vendor_[a-z]{20}'''
[[rules.allowlists]]
regexes = ['''x''']

[[rules]]
id = "repeated"
regex = '''vendor-([a-z]{4}-){3}'''
`

func TestGenerate(t *testing.T) {
	rules, stopwords, err := parse(config)
	if err != nil || len(rules) != 4 || !slices.Equal(stopwords, []string{"abc"}) {
		t.Fatalf("%v %v %v", rules, stopwords, err)
	}
	source, err := generate(rules, stopwords, "MIT License\n\nCopyright\n")
	if err != nil {
		t.Fatal(err)
	}
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

func TestBrokenConfig(t *testing.T) {
	if _, _, err := parse("[[rules]]\nnonsense\n"); err == nil {
		t.Error("a line that is no setting was read")
	}
	if _, _, err := parse("[[rules]]\nentropy = x\n"); err == nil {
		t.Error("an entropy that is no number was read")
	}
}
