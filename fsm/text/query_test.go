package text

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/commons-cluster/commons/internal/check"
)

func TestParseQuery(t *testing.T) {
	for q, want := range map[string]Query{
		"":                    {},
		"red bird":            {Words: []string{"red"}, Prefix: "bird"},
		`"red bird"`:          {Words: []string{"red", "bird"}, Phrases: [][]string{{"red", "bird"}}},
		`“Red Bird” sing`:     {Words: []string{"red", "bird"}, Prefix: "sing", Phrases: [][]string{{"red", "bird"}}},
		`sing "red"`:          {Words: []string{"red", "sing"}},
		`sing "red bird`:      {Words: []string{"sing", "red"}, Prefix: "bird"},
		`5" disk 3"`:          {Words: []string{"5", "disk", "3"}},
		"bird -red":           {Words: []string{"bird"}, Not: [][]string{{"red"}}},
		"-red bird":           {Prefix: "bird", Not: [][]string{{"red"}}},
		"x -well-known":       {Words: []string{"x"}, Not: [][]string{{"well", "known"}}},
		`-"red bird" -fish x`: {Words: []string{"x"}, Not: [][]string{{"red", "bird"}, {"fish"}}},
		// A query without a word to find, flags and numbers are literal.
		"-well-known":           {Words: []string{"well"}, Prefix: "known"},
		"-red -bird":            {Words: []string{"red"}, Prefix: "bird"},
		`-"red bird"`:           {Words: []string{"red", "bird"}, Phrases: [][]string{{"red", "bird"}}},
		"-32602":                {Prefix: "32602"},
		"error -32602":          {Words: []string{"error"}, Prefix: "32602"},
		"--no-verify":           {Words: []string{"no"}, Prefix: "verify"},
		"git --no-verify":       {Words: []string{"git", "no"}, Prefix: "verify"},
		"x -_y -.z -é -日":       {Words: []string{"x", "y", "z"}, Not: [][]string{{"e"}, {"日"}}},
		"read_entries":          {Prefix: "read_entries"},
		`"read_entries of"`:     {Words: []string{"read_entries", "of"}, Phrases: [][]string{{"read", "entries", "of"}}},
		"red-bird - x":          {Words: []string{"red", "bird", "x"}},
		`"" -- !!`:              {},
		`"東京都" a`:               {Words: []string{"東京", "京都", "a"}, Phrases: [][]string{{"東", "京", "都"}}},
		`"red bird" "bird sing`: {Words: []string{"red", "bird"}, Prefix: "sing", Phrases: [][]string{{"red", "bird"}}},
	} {
		t.Run(q, func(t *testing.T) {
			if diff := cmp.Diff(want, ParseQuery(q), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestPhraseOfText checks that a text has each phrase that is cut out of it at white space, and
// the words that the index is asked for.
func TestPhraseOfText(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		before, phrase, after := phrases().Draw(rt, "before"), phrases().Draw(rt, "phrase"), phrases().Draw(rt, "after")
		phrase = strings.Map(func(r rune) rune {
			if strings.ContainsRune(quotes, r) {
				return ' '
			}
			return r
		}, phrase)
		whole := before + " " + phrase + " " + after
		if sequence := Sequence(phrase); !HasPhrase(Sequence(whole), sequence) {
			rt.Fatalf("%q lacks the phrase %q", Sequence(whole), sequence)
		}
		have := map[string]bool{}
		for _, word := range Words(nil, whole) {
			have[word] = true
		}
		for _, word := range ParseQuery(`"` + phrase + `"`).Words {
			if !have[word] {
				rt.Fatalf("%q lacks the word %q of the phrase %q", whole, word, phrase)
			}
		}
	})
}

func TestHasPhrase(t *testing.T) {
	for _, row := range []struct {
		text, phrase string
		want         bool
	}{
		{"the Red, bird sings", "red bird", true},
		{"red hot bird", "red bird", false},
		{"bird red", "red bird", false},
		{"red", "red bird", false},
		{"red blue red bird", "red bird", true},
		{"東京都", "京都", true},
		{"東京 京都", "東京都", false},
	} {
		check.Equal(t, HasPhrase(Sequence(row.text), Sequence(row.phrase)), row.want, "%q has the phrase %q", row.text, row.phrase)
	}
}
