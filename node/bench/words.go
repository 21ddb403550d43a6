package bench

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
)

// The vocabulary: words made of syllables, the lower ranks far more frequent
// than the higher ones, as in natural text.
const (
	vocabularySize = 20_000
	zipfExponent   = 1.07
	zipfOffset     = 4
	sentenceWords  = 12
	maxSyllables   = 4
	corpusBytes    = 1 << 20
)

// vocabulary is the same in every run, so that searches find what earlier runs
// have written.
var vocabulary = makeVocabulary()

func makeVocabulary() []string {
	onsets := []string{"b", "br", "c", "ch", "d", "f", "fl", "g", "gr", "h", "j", "k", "l", "m", "n", "p", "pl", "r", "s", "st", "t", "tr", "v", "w"}
	nuclei := []string{"a", "e", "i", "o", "u", "ai", "ea", "ou"}
	codas := []string{"", "", "n", "r", "l", "s", "t", "m", "nd"}
	random := rand.New(rand.NewPCG(1, 2))
	words, known := make([]string, 0, vocabularySize), make(map[string]bool, vocabularySize)
	for len(words) < vocabularySize {
		var syllables strings.Builder
		for range 1 + random.IntN(maxSyllables) {
			for _, part := range [][]string{onsets, nuclei, codas} {
				syllables.WriteString(part[random.IntN(len(part))])
			}
		}
		if word := syllables.String(); !known[word] {
			known[word] = true
			words = append(words, word)
		}
	}
	return words
}

// corpus is the text that bodies are cut from: drawing words for each body
// would cost more than sending it.
var corpus = sync.OnceValue(func() []byte {
	w := newWriter(1)
	text := make([]byte, 0, corpusBytes)
	for n := 1; len(text) < corpusBytes; n++ {
		text = append(text, ' ')
		at := len(text)
		text = append(text, w.word()...)
		if n%sentenceWords == 1 {
			text[at] -= 'a' - 'A'
		}
		if n%sentenceWords == 0 {
			text = append(text, '.')
		}
	}
	return text
})

// writer draws words and texts. It is not safe for concurrent use.
type writer struct {
	random *rand.Rand
	ranks  *rand.Zipf
}

func newWriter(seed uint64) *writer {
	random := rand.New(rand.NewPCG(seed, seed^0x9e3779b97f4a7c15))
	return &writer{random: random, ranks: rand.NewZipf(random, zipfExponent, zipfOffset, vocabularySize-1)}
}

func (w *writer) word() string { return vocabulary[w.ranks.Uint64()] }

// appendText appends size bytes that begin with the mark, which makes them
// unique, and go on with sentences. A mark longer than size is kept whole.
func (w *writer) appendText(dst []byte, mark string, size int) []byte {
	text := corpus()
	from := w.random.IntN(len(text) - MaxSize)
	for text[from] != ' ' {
		from--
	}
	dst = append(dst, mark...)
	dst = append(dst, text[from:from+max(size-len(mark), 0)]...)
	if end := len(dst) - 1; dst[end] == ' ' { // surrounding white space would be trimmed away
		dst[end] = '.'
	}
	return dst
}

// mark names one text of one connection of one run.
func mark(run string, connection, number int) string {
	return run + "-" + strconv.Itoa(connection) + "-" + strconv.Itoa(number)
}
