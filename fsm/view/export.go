package view

import (
	"fmt"

	"github.com/commons-cluster/commons/fsm/state"
)

// exportStep is how many rows an export reads at once.
const exportStep = 100

// AppendExport appends a line for each entry after a seq, in the order of the log, each with the
// separator before it. It ends after limit lines, or the line that reaches so many bytes, and
// returns the seq of the last line. Entries are as they are stored, without the fields that later
// entries change.
func (v *View) AppendExport(dst []byte, after uint64, limit, bytes int, separator string) ([]byte, uint64, error) {
	end := min(v.at.Head.LastSeq, after+uint64(limit)) //nolint:gosec // not negative
	for start := len(dst); after < end && len(dst)-start < bytes; {
		seqs := make([]uint64, 0, exportStep)
		for seq := after + 1; seq <= min(end, after+exportStep); seq++ {
			seqs = append(seqs, seq)
		}
		rows, err := v.entryRows(seqs)
		if err != nil {
			return dst, after, err
		}
		for i, seq := range seqs {
			if len(dst)-start >= bytes {
				break
			}
			if dst, err = v.appendExported(append(dst, separator...), seq, rows[i]); err != nil {
				return dst, after, fmt.Errorf("export entry %d: %w", seq, err)
			}
			after = seq
		}
	}
	return dst, after, nil
}

// appendExported appends an entry, or the id of one whose texts are withheld, and why.
func (v *View) appendExported(dst []byte, seq uint64, row []byte) ([]byte, error) {
	text, err := state.EntryJSON(row)
	if err != nil {
		return dst, err
	}
	if flags := row[state.EntryRowFlags]; flags&state.FlagHidden != 0 {
		is, err := v.hiddenAs(seq)
		dst = state.AppendID(append(dst, `{"id":"`...), state.TypeOfFlags(flags), seq)
		return append(append(append(dst, `","gone":"`...), is...), `"}`...), err
	}
	return append(append(append(dst, `{"entry":`...), text...), "}}"...), nil
}
