package write

import (
	"cmp"
	"crypto/sha256"
	"strings"
	"unicode"

	"go.mau.fi/util/confusable"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/text"
)

// LooksOf returns the hashes of a name's skeletons (UTS 39), for command.Proof.Looks. Names that
// look alike, as written or in lower case, have one in common. Invisible characters are ignored,
// and punctuation at the end, which in "ask @ada." belongs to the sentence.
func LooksOf(name string) []byte {
	seen := strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector, unicode.Cf) {
			return -1
		}
		return r
	}, name)
	seen = cmp.Or(text.TrimName(seen), seen)
	written := confusable.Skeleton(seen)
	folded := text.Fold(confusable.Skeleton(text.Fold(seen)))
	looks := hashLook(nil, written)
	if folded != written {
		looks = hashLook(looks, folded)
	}
	return looks
}

func hashLook(dst []byte, skeleton string) []byte {
	sum := sha256.Sum256([]byte(skeleton))
	return append(dst, sum[:command.LookBytes]...)
}
