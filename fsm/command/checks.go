package command

import (
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"
)

func checkTag(tag string) error { return checkText("tag", tag, MinTag, MaxTag) }

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

// textOf is checkText for checkAll, with at least one code point; bytesOf is checkBytes.
func textOf(field string, most int) func(string) error {
	return func(s string) error { return checkText(field, s, 1, most) }
}

func bytesOf(field string, most int) func(string) error {
	return func(s string) error { return checkBytes(field, s, most) }
}

// refuse returns an error with the text if a payload is bad.
func refuse(bad bool, text string) error {
	if bad {
		return errors.New(text)
	}
	return nil
}

// checkText checks the length of a text in code points, and that it is UTF-8.
func checkText(field, s string, least, most int) error {
	if !utf8.ValidString(s) {
		return fmt.Errorf("%s: not UTF-8", field)
	}
	return checkRange(field, utf8.RuneCountInString(s), least, most, "code points")
}

// checkBytes checks that a text is not empty, its length in bytes, and that it is UTF-8.
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

// checkKeyHash accepts a hash, or an empty field.
func checkKeyHash(field string, hash []byte) error {
	if len(hash) != 0 && len(hash) != KeyHashBytes {
		return fmt.Errorf("%s: a hash of %d bytes", field, len(hash))
	}
	return nil
}

// checkNewKey checks the SHA-256 of a required key.
func checkNewKey(field string, hash []byte) error {
	return checkRange(field, len(hash), KeyHashBytes, KeyHashBytes, "bytes")
}

// checkLabel accepts a short word of letters, digits and some marks.
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

// Names are the names of an enumeration in the interface, by number from 1. The first element is
// the noun for unknown numbers.
type Names []string

// Name returns the name of a number, or the noun with the number if it is unknown.
func (n Names) Name(i uint8) string {
	if i == 0 || int(i) >= len(n) {
		return fmt.Sprintf("%s(%d)", n[0], i)
	}
	return n[i]
}

// List returns all names, in order.
func (n Names) List() []string { return n[1:] }

// Parse returns the number with a name, or 0 if the name is unknown.
func (n Names) Parse(name string) uint8 {
	return uint8(1 + slices.Index(n[1:], name)) //nolint:gosec // there are few
}

func (n Names) check(field string, i uint8) error { return checkRange(field, int(i), 1, len(n)-1, "") }
