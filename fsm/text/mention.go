package text

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/commons-cluster/commons/fsm/command"
)

// maxLookups bounds the names that Mentions looks up. Only a mention with several possible
// ends needs it.
const maxLookups = 2 * command.MaxMentions

// Mentions returns the folded names that the texts mention, each once, in order of appearance, at
// most command.MaxMentions. The function registered reports whether a folded name is registered.
//
// A mention is an @ with a run of name characters behind it. The run ends at its end, before
// trailing '.', '-' and '_', or at its first change between a script that separates words by
// spaces and one that does not: the longest of these that is a registered name is mentioned. If
// there is no such name, it is the run up to that change, without trailing '.', '-' and '_'. In
// code, in a URL, within a word and before a '/' there are no mentions.
func Mentions(registered func(key string) bool, texts ...string) []string {
	m := mentions{registered: registered}
	for _, s := range texts {
		if strings.IndexByte(s, '@') >= 0 || strings.Contains(s, wideAt) {
			m.read(withoutCode(nfc(s)))
		}
	}
	return m.found
}

// The characters that begin a mention.
const wideAt, ats = "＠", "@＠"

// mentions collects the mentions of some texts.
type mentions struct {
	registered func(key string) bool
	lookups    int
	found      []string
}

func (m *mentions) read(s string) {
	inURL := false // until the next white space, or punctuation that rarely stands in a URL
	for i, r := range s {
		switch {
		case unicode.IsSpace(r) || r == '<' || r == '>' || r == '"' || r > unicode.MaxASCII && unicode.IsPunct(r) && r != '＠':
			inURL = false
		case r == ':' && strings.HasPrefix(s[i:], "://"):
			inURL = true
		case strings.ContainsRune(ats, r) && !inURL && beginsMention(s[:i]) && len(m.found) < command.MaxMentions:
			m.add(s[i+utf8.RuneLen(r):])
		}
	}
}

// beginsMention reports whether an @ behind a text begins a mention.
func beginsMention(before string) bool {
	r, size := utf8.DecodeLastRuneInString(before)
	switch {
	case before == "":
		return true
	case r == '.' || r == '-' || r == '/':
		return false
	case r == '_' || r == '*': // emphasis, unless it stands within a word
		outer, _ := utf8.DecodeLastRuneInString(before[:len(before)-size])
		return len(before) == size || unicode.IsSpace(outer) || unicode.IsPunct(outer)
	}
	for unicode.IsMark(r) && size > 0 {
		before = before[:len(before)-size]
		r, size = utf8.DecodeLastRuneInString(before)
	}
	return !isAlnum(r) || isUnspaced(r)
}

// add adds the name at the start of s, if there is one.
func (m *mentions) add(s string) {
	run, first := 0, 0 // the ends of the run, and of the first script in it
	spaced, known := false, false
	for run < len(s) {
		r, size := utf8.DecodeRuneInString(s[run:])
		if !IsNameRune(r) {
			break
		}
		if isAlnum(r) {
			if known && spaced == isUnspaced(r) && first == 0 {
				first = run
			}
			spaced, known = !isUnspaced(r), true
		}
		run += size
	}
	if first == 0 {
		first = run
	}
	name := TrimName(s[:first])
	for _, candidate := range []string{s[:run], TrimName(s[:run]), s[:first]} {
		if candidate == name || m.lookups == maxLookups {
			break
		}
		if m.lookups++; isAgentName(candidate) && m.registered(Fold(candidate)) {
			name = candidate
			break
		}
	}
	if !isAgentName(name) || strings.HasPrefix(s[len(name):], "/") {
		return
	}
	if key := Fold(name); !slices.Contains(m.found, key) {
		m.found = append(m.found, strings.Clone(key))
	}
}

// TrimName removes what is more often the end of a sentence, or emphasis, than of a name.
func TrimName(s string) string { return strings.TrimRight(s, ".-_") }

// isAgentName reports whether name, which is in NFC, could be an agent's.
func isAgentName(name string) bool {
	if len(name) < command.MinName || len(name) > command.MaxName*utf8.UTFMax {
		return false
	}
	if n := utf8.RuneCountInString(name); n < command.MinName || n > command.MaxName {
		return false
	}
	return AgentName(name) == name
}

// withoutCode replaces the fenced and the inline code of a text in Markdown by spaces.
func withoutCode(s string) string {
	if !strings.ContainsAny(s, "`~") {
		return s
	}
	out := []byte(s)
	fence, paragraph := "", 0
	for start := 0; start < len(s); {
		end := len(s)
		if i := strings.IndexByte(s[start:], '\n'); i >= 0 {
			end = start + i + 1
		}
		line := strings.Trim(s[start:end], " \t\r\n>") // also in lists and quotations
		marks, info := cutFence(line)
		opens := fence == "" && marks != ""
		closes := fence != "" && info == "" && strings.HasPrefix(marks, fence)
		if opens || fence == "" && line == "" {
			blankSpans(out, s, paragraph, start)
			paragraph = end
		}
		if opens {
			fence = marks
		}
		if fence != "" {
			blank(out[start:end])
			paragraph = end
		}
		if closes {
			fence = ""
		}
		start = end
	}
	blankSpans(out, s, paragraph, len(s))
	return string(out)
}

// minFence is the number of marks of the shortest fence of a block of code.
const minFence = 3

// cutFence returns the marks at the start of a line that opens or closes a block of code, and the
// rest of the line. The marks are empty if it does not.
func cutFence(line string) (marks, info string) {
	if line == "" || line[0] != '`' && line[0] != '~' {
		return "", line
	}
	info = strings.TrimLeft(line, line[:1])
	marks = line[:len(line)-len(info)]
	if len(marks) < minFence || line[0] == '`' && strings.Contains(info, "`") {
		return "", line
	}
	return marks, info
}

// blankSpans replaces the inline code in s[start:end] by spaces in out: a run of backticks up to
// the next one of the same length.
func blankSpans(out []byte, s string, start, end int) {
	for start < end {
		switch s[start] {
		case '\\':
			start += 2
			continue
		case '`':
		default:
			start++
			continue
		}
		marks := backticks(s[start:end])
		next := start + marks
		for at := next; at < end; {
			if s[at] != '`' {
				at++
				continue
			}
			found := backticks(s[at:end])
			if at += found; found == marks {
				blank(out[start:at])
				next = at
				break
			}
		}
		start = next
	}
}

// backticks returns the number of backticks at the start of s.
func backticks(s string) int { return len(s) - len(strings.TrimLeft(s, "`")) }

func blank(out []byte) {
	for i := range out {
		out[i] = ' '
	}
}
