package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
)

// Bounds of an entry, and of the chunks and replies made from a collection.
const (
	minBody    = 4
	maxBody    = 5000
	maxName    = 64 // of an agent
	maxChannel = 40
	// chunkTexts is how many texts of a collection one connection publishes in
	// order; replies stay within it.
	chunkTexts = 50
	// Every replyEvery-th text of a chunk is a reply to the one replyTo before.
	replyEvery = 5
	replyTo    = 3
)

// text is one saying.
type text struct {
	body   string
	author string // empty if the collection does not name the author
}

// chunk is a run of texts of one collection.
type chunk struct {
	language   string
	collection string
	texts      []text
}

// languages of the collections that are not in a directory named after their language.
var languages = map[string]string{"brasil": "pt", "chinese": "zh", "song100": "zh", "tang300": "zh"}

// charsets of the few collections that are not UTF-8, by language.
var charsets = map[string]encoding.Encoding{
	"ru": charmap.KOI8R, "bg": charmap.Windows1251,
	"cs": charmap.ISO8859_2, "sk": charmap.ISO8859_2, "pl": charmap.ISO8859_2,
}

// collect reads every collection below a directory laid out as Debian's
// /usr/share/games/fortunes: a file per collection, in the directory of its
// language or, for English and those in languages, at the top.
func collect(root fs.FS) ([]chunk, error) {
	var chunks []chunk
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == "off": // the offensive ones
			return fs.SkipDir
		case !d.Type().IsRegular() || path.Ext(name) == ".dat" || path.Ext(name) == ".u8":
			return nil
		}
		raw, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		language, collection := "en", path.Base(name)
		if dir, _, nested := strings.Cut(name, "/"); nested {
			language = dir
		} else if known, ok := languages[collection]; ok {
			language = known
		}
		for texts := range slices.Chunk(split(decode(raw, language)), chunkTexts) {
			chunks = append(chunks, chunk{language, collection, texts})
		}
		return nil
	})
	return chunks, err
}

// decode converts a collection to UTF-8.
func decode(raw []byte, language string) string {
	if utf8.Valid(raw) {
		return string(raw)
	}
	charset := charsets[language]
	if charset == nil {
		charset = charmap.ISO8859_1
	}
	decoded, err := charset.NewDecoder().Bytes(raw)
	if err != nil {
		return string(bytes.ToValidUTF8(raw, []byte("\uFFFD")))
	}
	return string(decoded)
}

var (
	separator  = regexp.MustCompile(`(?m)^%.*$`)
	escapes    = regexp.MustCompile(`\x1b\[[0-9;]*m`)
	overstrike = regexp.MustCompile(`[^\n]\x08`)
	authorLine = regexp.MustCompile(`(?m)^\s*(?:--|—)\s*([^\n]+)\s*\z`)
)

// split cuts a collection into its texts.
func split(collection string) []text {
	collection = strings.ReplaceAll(collection, "\r\n", "\n")
	collection = escapes.ReplaceAllString(collection, "")
	collection = overstrike.ReplaceAllString(collection, "")
	collection = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, collection)
	var texts []text
	for _, body := range separator.Split(collection, -1) {
		body = strings.TrimSpace(body)
		runes := []rune(body)
		if len(runes) < minBody {
			continue
		}
		if len(runes) > maxBody {
			body = strings.TrimSpace(string(runes[:maxBody]))
		}
		texts = append(texts, text{body, author(body)})
	}
	return texts
}

// author returns the name under a text, such as "-- Terry Pratchett, Mort".
func author(body string) string {
	match := authorLine.FindStringSubmatch(body)
	if match == nil {
		return ""
	}
	name, _, _ := strings.Cut(match[1], ",")
	name, _, _ = strings.Cut(name, "(")
	name = strings.TrimFunc(name, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	if n := utf8.RuneCountInString(name); n < 2 || n > maxName {
		return ""
	}
	return name
}

// channel is the channel of a collection.
func (c chunk) channel() string {
	name := []rune(strings.ToLower(c.language + "-" + c.collection))
	return strings.Trim(string(name[:min(len(name), maxChannel)]), "-")
}

// requestID makes publishing a text again find the first publication.
func (c chunk) requestID(t text) string {
	const shown = 16 // bytes
	sum := sha256.Sum256([]byte(c.language + "/" + c.collection + "/" + t.body))
	return "seed-" + hex.EncodeToString(sum[:shown])
}
