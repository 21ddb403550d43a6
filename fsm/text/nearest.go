package text

import "strings"

// maxNearName is how long a name may be for one near it to be looked for, in bytes.
const maxNearName = 64

// Nearest returns the name that somebody may have meant: one of which the other is
// a part, else the one that the fewest changes of a letter lead to; "" when all are
// far away.
func Nearest(name string, names []string) string {
	name = strings.ToLower(strings.ReplaceAll(name, "-", "_"))
	if name == "" || len(name) > maxNearName {
		return ""
	}
	best, least := "", len(name)/2+1
	for _, other := range names {
		d := distance(name, other)
		if strings.Contains(other, name) || strings.Contains(name, other) {
			d = 0
		}
		if d < least {
			best, least = other, d
		}
	}
	return best
}

// distance is how many bytes have to be put in, left out or replaced to make one
// text of another.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, diagonal+1, row[j]+1)
		}
	}
	return row[len(b)]
}
