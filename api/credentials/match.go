package credentials

import (
	"encoding/base64"
	"math"
	"regexp"
	"slices"
	"strings"
)

// alphabet is a set of bytes.
type alphabet [256]bool

func alphabetOf(bytes string) *alphabet {
	var a alphabet
	for i := range len(bytes) {
		a[bytes[i]] = true
	}
	return &a
}

const (
	digitChars  = "0123456789"
	letterChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
)

var (
	digits     = alphabetOf(digitChars)
	wordBytes  = alphabetOf(digitChars + letterChars)
	urlBytes   = alphabetOf(digitChars + letterChars + "_-")
	baseBytes  = alphabetOf(digitChars + letterChars + "+/=")
	tokenBytes = alphabetOf(digitChars + letterChars + "+-./_=:@%~")
)

// end returns the end of the run of bytes from an alphabet that begins at text[at].
func (a *alphabet) end(text string, at int) int {
	for at < len(text) && a[text[at]] {
		at++
	}
	return at
}

// start returns the beginning of the run that ends before text[at], and not more than most bytes back.
func (a *alphabet) start(text string, at, most int) int {
	from := at
	for from > 0 && at-from < most && a[text[from-1]] {
		from--
	}
	return from
}

// maxMatch is the number of bytes that a pattern looks at. A longer run of the token's alphabet is
// removed to its end.
const maxMatch = 400

// test decides whether a text in the right format is a credential.
type test func(text string, from, to int) bool

// anchored matches a pattern that begins with the keyword and follows no letter or digit. It may
// follow an underscore, which is emphasis in Markdown. The first group of the pattern, if any, is
// removed, otherwise the whole match.
func anchored(pattern string, tests ...test) matcher {
	match := inside(pattern, tests...)
	return func(text string, at int) (from, to int) {
		if at > 0 && wordBytes[text[at-1]] {
			return 0, 0
		}
		return match(text, at)
	}
}

// after is anchored where some bytes of an alphabet stand before the keyword.
func after(a *alphabet, most int, pattern string, tests ...test) matcher {
	inner := anchored(pattern, tests...)
	return func(text string, at int) (from, to int) { return inner(text, a.start(text, at, most)) }
}

// inside is anchored wherever the keyword stands, also in a word.
func inside(pattern string, tests ...test) matcher {
	compiled := regexp.MustCompile(`\A(?:` + pattern + `)`)
	tests = append(tests, genuine)
	return func(text string, at int) (from, to int) {
		from, to = find(compiled, text, at)
		if to == 0 || slices.ContainsFunc(tests, func(passes test) bool { return !passes(text, from, to) }) {
			return 0, 0
		}
		return from, to
	}
}

// find returns what a pattern matches at a place, or its first group.
func find(compiled *regexp.Regexp, text string, at int) (from, to int) {
	window := text[at:min(len(text), at+maxMatch)]
	groups := compiled.FindStringSubmatchIndex(window)
	if groups == nil {
		return 0, 0
	}
	from, to = at+groups[0], at+groups[1]
	for i := 2; i < len(groups); i += 2 {
		if groups[i] >= 0 {
			from, to = at+groups[i], at+groups[i+1]
			break
		}
	}
	if to == at+maxMatch {
		to = baseBytes.end(text, urlBytes.end(text, to))
	}
	return from, to
}

// ended holds that no letter or digit follows.
func ended(text string, _, to int) bool { return to == len(text) || !wordBytes[text[to]] }

// contextBytes is the maximum distance between a token and the word that gives it a meaning.
const contextBytes = 200

// near holds that a word stands near, in any case.
func near(word string) test {
	return func(text string, from, to int) bool {
		around := text[max(0, from-contextBytes):min(len(text), to+contextBytes)]
		return strings.Contains(strings.ToLower(around), word)
	}
}

// The parts of a signed token, and the sample that stands in every text about them.
const (
	jwtPart      = "eyJ"
	jwtMinPart   = 13
	jwtMaxHeader = 1000
	jwtMinProof  = 20
	jwtSample    = "eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4gRG9l"
)

// signedToken matches header.payload.proof. The keyword is the dot with the beginning of
// the payload, so that no part is looked at twice.
func signedToken(text string, at int) (from, to int) {
	payload := at + 1
	from = urlBytes.start(text, at, jwtMaxHeader)
	header := strings.Index(text[from:at], jwtPart)
	if header < 0 || !strings.HasPrefix(text[payload:], jwtPart) {
		return 0, 0
	}
	if from += header; from > 0 && wordBytes[text[from-1]] {
		return 0, 0
	}
	dot := urlBytes.end(text, payload)
	if at-from < jwtMinPart || dot-payload < jwtMinPart || dot == len(text) || text[dot] != '.' ||
		strings.HasPrefix(text[payload:], jwtSample) {
		return 0, 0
	}
	to = urlBytes.end(text, dot+1)
	if to-dot-1 < jwtMinProof || !genuine(text, dot+1, to) {
		return 0, 0
	}
	return from, to
}

// The frame of a private key. Between its lines of dashes stands at least pemRun
// bytes of base64, after headers of at most pemHeaders bytes.
const (
	pemBegin   = "-----BEGIN "
	pemDashes  = "-----"
	pemEnd     = "-----END "
	pemTitle   = 60
	pemHeaders = 400
	pemRun     = 32
)

// privateKey matches a key between lines of dashes, which may be cut, broken into
// short lines, or stand in JSON.
func privateKey(text string, at int) (from, to int) {
	title := at + len(pemBegin)
	window := text[min(len(text), title):min(len(text), title+pemTitle)]
	dashes := strings.Index(window, pemDashes)
	if dashes < 0 || !strings.HasPrefix(text[at:], pemBegin) {
		return 0, 0
	}
	kind := strings.TrimSuffix(window[:dashes], " BLOCK")
	if kind != "PRIVATE KEY" && !strings.HasSuffix(kind, " PRIVATE KEY") {
		return 0, 0
	}
	body := title + dashes + len(pemDashes)
	limit := min(len(text), body+pemHeaders+maxMatch)
	run := pemBody(text[body:limit])
	if run < 0 {
		return 0, 0
	}
	to = len(text)
	if end := strings.Index(text[body+run:], pemEnd); end >= 0 {
		to = body + run + end + len(pemEnd)
		if closed := strings.Index(text[to:min(len(text), to+pemTitle)], pemDashes); closed >= 0 {
			to += closed + len(pemDashes)
		}
	}
	return at, to
}

// pemBody returns the offset at which a run of base64 is long enough for a key, or -1 if there is no
// such run before the next dashes. Line breaks, also as JSON writes them, may be anywhere in it.
func pemBody(text string) int {
	run := 0
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case wordBytes[c] || c == '+' || c == '/':
			run++
			i++
		case run > 0 && breakLength(text[i:]) > 0:
			i += breakLength(text[i:])
			continue
		case strings.HasPrefix(text[i:], pemDashes):
			return -1
		default:
			run = 0
			i++
		}
		if run == pemRun {
			return i
		}
	}
	return -1
}

// The parts of a PuTTY key: the header, and the line before the private half.
const (
	puttyHeader  = "PuTTY-User-Key-File-"
	puttyPrivate = "Private-Lines:"
	puttyMAC     = "Private-MAC: "
	puttyPublic  = 4000 // maximum distance between the two
)

// puttyKey matches a key in PuTTY's format, which may be cut.
func puttyKey(text string, at int) (from, to int) {
	head := text[at:min(len(text), at+puttyPublic)]
	if !strings.HasPrefix(head, puttyHeader) {
		return 0, 0
	}
	if next := strings.Index(head[1:], puttyHeader); next >= 0 {
		head = head[:next+1]
	}
	private := strings.Index(head, puttyPrivate)
	if private < 0 {
		return 0, 0
	}
	lines := at + private + len(puttyPrivate)
	run := pemBody(text[lines:min(len(text), lines+maxMatch)])
	if run < 0 {
		return 0, 0
	}
	for to = lines + run; to < len(text); {
		n := breakLength(text[to:])
		if n == 0 && !baseBytes[text[to]] {
			break
		}
		to += max(n, 1)
	}
	if mac := strings.Index(text[lines:min(len(text), to+len(puttyMAC))], puttyMAC); mac >= 0 {
		to = wordBytes.end(text, lines+mac+len(puttyMAC))
	}
	return at, to
}

// breakLength returns the length of a line break with surrounding white space, or 0.
func breakLength(text string) int {
	n, broken := 0, false
	for n < len(text) {
		switch {
		case text[n] == '\n' || text[n] == '\r':
			broken = true
			n++
		case text[n] == ' ' || text[n] == '\t':
			n++
		case strings.HasPrefix(text[n:], `\n`) || strings.HasPrefix(text[n:], `\r`):
			broken = true
			n += 2
		default:
			if broken {
				return n
			}
			return 0
		}
	}
	if broken {
		return n
	}
	return 0
}

const (
	// tailBytes is the number of bytes of a match that are looked at, and minDistinct the minimum of
	// different characters: fewer are a placeholder, as in ghp_xxxx.
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

// letterEntropy is between the entropy of long words, with capitals inside, and of 34
// letters drawn at random.
const letterEntropy = 4.2

// random holds that a match is no long word where credentials may have no digits.
func random(text string, from, to int) bool {
	return hasDigit(text, from, to) || entropy(text[from:to]) > letterEntropy
}

// entropy returns Shannon's entropy in bits per byte.
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
