package terminal

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
)

const tablePadding = 2

// Table lines up a row for each item below a row of names, which are separated by
// tabs. Cells that are missing in a row are dashes.
func Table[Item any](names string, items []Item, cells func(*Item) []any) string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, tablePadding, ' ', 0)
	fmt.Fprintln(w, names)
	for i := range items {
		row := cells(&items[i])
		for n, cell := range row {
			if n > 0 {
				fmt.Fprint(w, "\t")
			}
			fmt.Fprint(w, cell)
		}
		fmt.Fprintln(w, strings.Repeat("\t-", strings.Count(names, "\t")+1-len(row)))
	}
	_ = w.Flush() // a builder takes everything
	return strings.TrimSuffix(out.String(), "\n")
}

// Plural counts things by their singular.
func Plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// YesNo returns yes or no.
func YesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// TimeText returns an instant, given in milliseconds since the epoch, as text in UTC.
func TimeText(millis int64) string {
	return time.UnixMilli(millis).UTC().Format(time.RFC3339)
}
