package credentials

import (
	"slices"
	"strings"
)

//go:generate sh gen/generate.sh

// gitleaksRule is a rule of gitleaks.
type gitleaksRule struct {
	id       string
	keywords []string // what every match begins with, in lower case
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
