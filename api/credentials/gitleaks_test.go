package credentials

import (
	"math/rand/v2"
	"regexp/syntax"
	"strings"
	"testing"
)

// matching is a text that an expression matches, of random characters.
func matching(re *syntax.Regexp, rng *rand.Rand) string {
	var b strings.Builder
	switch re.Op {
	case syntax.OpLiteral:
		return string(re.Rune)
	case syntax.OpCharClass:
		return string(oneOf(re.Rune, rng))
	case syntax.OpAlternate:
		return matching(re.Sub[rng.IntN(len(re.Sub))], rng)
	case syntax.OpCapture, syntax.OpConcat:
		for _, sub := range re.Sub {
			b.WriteString(matching(sub, rng))
		}
	case syntax.OpRepeat:
		for range re.Min {
			b.WriteString(matching(re.Sub[0], rng))
		}
	case syntax.OpPlus:
		for range 8 {
			b.WriteString(matching(re.Sub[0], rng))
		}
	}
	return b.String()
}

// oneOf is a character that a credential may hold of a class, which is given by its
// ranges.
func oneOf(ranges []rune, rng *rand.Rand) rune {
	var in []rune
	for c := rune('!'); c <= '~'; c++ {
		for i := 0; i < len(ranges); i += 2 {
			if c >= ranges[i] && c <= ranges[i+1] {
				in = append(in, c)
			}
		}
	}
	return in[rng.IntN(len(in))]
}

// TestGitleaksRules makes a credential for each rule: it is found and taken out, and
// a placeholder of that form is not.
func TestGitleaksRules(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, g := range gitleaksRules {
		re, err := syntax.Parse(g.pattern, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			made := strings.TrimRight(matching(re, rng), " ")
			redacted, found := Redact("See " + made + ". It is one.")
			if found == "" {
				t.Errorf("%s: %q passes", g.id, made)
			}
			if !strings.HasPrefix(redacted, "See ") || !strings.HasSuffix(redacted, "It is one.") || strings.Contains(redacted, made[len(made)/2:]) {
				t.Errorf("%s: %q is redacted to %q", g.id, made, redacted)
			}
			if _, found := Redact("A" + made); strings.Contains(found, g.id) && g.keywords[0][0] != '_' {
				t.Errorf("%s: %q is found inside a word", g.id, made)
			}
		}
		if _, found := Redact(g.keywords[0] + strings.Repeat("x", 80)); found != "" {
			t.Errorf("%s: a placeholder is rejected", g.id)
		}
	}
}

// TestKeywordsBeginMatches holds that no rule is dead: each keyword is in lower case
// and long enough for the table of two bytes.
func TestKeywordsBeginMatches(t *testing.T) {
	for _, r := range rules {
		for _, k := range r.keywords {
			if len(k) < 2 || strings.ToLower(k) != k {
				t.Errorf("%s: the keyword %q is never found", r.name, k)
			}
		}
	}
}
