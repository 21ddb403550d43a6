package credentials

import (
	"encoding/base64"
	"math"
	"strings"
)

const (
	// tailBytes is how much of a match is looked at, and minDistinct how many
	// different characters there must be: fewer are a placeholder, as in ghp_xxxx.
	tailBytes   = 24
	minDistinct = 6
)

// genuine holds that a match does not stand for a credential in documentation.
func genuine(text string, from, to int) bool {
	match := strings.TrimRight(text[from:to], "_")
	distinct := 0
	var seen alphabet
	for _, c := range []byte(match[max(0, len(match)-tailBytes):]) {
		if !seen[c] {
			seen[c] = true
			distinct++
		}
	}
	return distinct >= minDistinct && !strings.HasSuffix(match, "EXAMPLE")
}

// hasDigit holds that a match is no long word.
func hasDigit(text string, from, to int) bool { return strings.ContainsAny(text[from:to], digitChars) }

// letterEntropy is between that of long words, with capitals inside, and that of 34
// letters drawn at random.
const letterEntropy = 4.2

// random holds that a match is no long word where credentials may have no digits.
func random(text string, from, to int) bool {
	return hasDigit(text, from, to) || entropy(text[from:to]) > letterEntropy
}

// entropy is Shannon's, in bits per byte.
func entropy(s string) (bits float64) {
	var counts [256]int
	for i := range len(s) {
		counts[s[i]]++
	}
	for _, n := range &counts {
		if n > 0 {
			p := float64(n) / float64(len(s))
			bits -= p * math.Log2(p)
		}
	}
	return bits
}

// minPassword is the shortest password that counts: shorter ones stand in examples.
const minPassword = 8

// sampleWords are in passwords and tokens that stand for real ones.
var sampleWords = []string{"password", "passwd", "secret", "changeme", "example", "your", "token", "xxxx", "****", "...", "letmein"}

// password holds that a match is no placeholder: neither a variable, nor a word, nor
// one of the sample words.
func password(text string, from, to int) bool {
	s := text[from:to]
	if len(s) < minPassword || strings.ContainsAny(s, "${}<>[]") || s[0] == '%' {
		return false
	}
	lowered := strings.ToLower(s)
	for _, word := range sampleWords {
		if strings.Contains(lowered, word) {
			return false
		}
	}
	return hasDigit(s, 0, len(s)) && strings.ContainsAny(s, letterChars)
}

// noSample holds that a token is not the one in every text about signed tokens.
func noSample(text string, from, to int) bool { return !strings.Contains(text[from:to], jwtSample) }

// noExample holds that a match is not the one in the vendor's documentation.
func noExample(text string, from, to int) bool { return !strings.Contains(text[from:to], "EXAMPLE") }

// notLocal holds that the address that follows a password is one that strangers may
// reach.
func notLocal(text string, _, to int) bool {
	for _, host := range []string{"@localhost", "@127.", "@[::1]", "@example."} {
		if hasFold(text[to:], host) {
			return false
		}
	}
	return true
}

// basic holds that the base64 of a Basic header is a name and a password.
func basic(text string, from, to int) bool {
	raw, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(text[from:to], "="))
	if err != nil {
		return false
	}
	_, pass, found := strings.Cut(string(raw), ":")
	return found && password(pass, 0, len(pass))
}
