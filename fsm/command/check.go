package command

import (
	"fmt"
	"unicode/utf8"
)

func checkTag(tag string) error { return checkText("tag", tag, MinTag, MaxTag) }

// Check reports a payload that must never reach the log: a field over its bound or
// outside its set. Encode and DecodeGroup do so.
func Check(p Payload) error { return p.check() }

func checkAll(field string, items []string, most int, check func(string) error) error {
	if err := checkRange(field, len(items), 0, most, "items"); err != nil {
		return err
	}
	for _, item := range items {
		if err := check(item); err != nil {
			return err
		}
	}
	return nil
}

// checkText bounds a text in code points and insists on UTF-8.
func checkText(field, s string, least, most int) error {
	if !utf8.ValidString(s) {
		return fmt.Errorf("%s: not UTF-8", field)
	}
	return checkRange(field, utf8.RuneCountInString(s), least, most, "code points")
}

// checkBytes insists on a text that is there, bounds it in bytes and insists on
// UTF-8.
func checkBytes(field, s string, most int) error {
	if !utf8.ValidString(s) {
		return fmt.Errorf("%s: not UTF-8", field)
	}
	return checkRange(field, len(s), 1, most, "bytes")
}

func checkRange(field string, n, least, most int, unit string) error {
	if n < least || n > most {
		return fmt.Errorf("%s: %d %s, allowed are %d to %d", field, n, unit, least, most)
	}
	return nil
}

// checkOptional is checkText for a text that may be missing.
func checkOptional(field, s string, least, most int) error {
	if s == "" {
		return nil
	}
	return checkText(field, s, least, most)
}

// checkKeyHash insists on a hash, or nothing.
func checkKeyHash(field string, hash []byte) error {
	if len(hash) != 0 && len(hash) != KeyHashBytes {
		return fmt.Errorf("%s: a hash of %d bytes", field, len(hash))
	}
	return nil
}

// checkLabel insists on a short word of letters, digits and some marks.
func checkLabel(field, label string) error {
	for _, c := range []byte(label) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '.', c == '/':
		default:
			return fmt.Errorf("%s: byte %q", field, c)
		}
	}
	return checkRange(field, len(label), 1, MaxUsageLabel, "bytes")
}
