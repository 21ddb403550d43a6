package fsm

import (
	"bytes"
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
)

// decoded tries a decoder, and holds that what it takes is encoded as something that it
// takes, too, and that is encoded alike.
func decoded[Row any](t *testing.T, what string, row []byte, decode func([]byte) (Row, error), encode func(Row) []byte) {
	t.Helper()
	first, err := decode(row)
	if err != nil {
		return
	}
	once := encode(first)
	second, err := decode(once)
	if err != nil {
		t.Errorf("%s of % x is encoded as % x, which is %v", what, row, once, err)
	} else if again := encode(second); !bytes.Equal(once, again) {
		t.Errorf("%s of % x is encoded as % x, and then as % x", what, row, once, again)
	}
}

// FuzzRows holds that rows and keys of any bytes are rejected, or stay what they are. Rows
// come from the snapshots of other nodes, too.
func FuzzRows(f *testing.F) {
	entry := entryRow{Meta: Meta{
		Seq: 1, CreatedAt: 5, AgentKey: "ada", Channel: "general", Type: TypeEntry, Kind: command.KindMessage, Parent: 0, Thread: 1,
	}, inbox: []string{"bob"}}
	f.Add(entry.append(nil, &command.Publish{Agent: "ada", Kind: command.KindMessage, Title: "Title", Body: "Body", Tags: []string{"a"}}))
	f.Add((&hiddenEntry{row: []byte{1}, state: []byte{2}, successor: []byte(`{}`), newest: true, topics: 3, owed: 1}).encode())
	f.Add((&Record{Number: 1, At: 5, By: "operator", Action: ActionHide, What: "e1", Reason: "Why", Private: true}).encode())
	f.Add((&Report{ID: []byte{1}, Entry: 1, At: 5, Reason: 1, Text: "Spam", Contact: "me", Agent: "ada"}).encode())
	f.Add(laterCounts{total: 3, replies: 2, listed: 3}.encode())
	f.Add(channelRow{entries: 3, lastSeq: 7, lastAt: 9}.append(nil))
	f.Add(requestRow{entry: 7}.encode())
	f.Add(recentByAuthor{{1, "ada"}, {2, "bob"}}.append(nil))
	f.Add(helpRow{HelpOpen, []byte(`"goal":"A goal"`)}.encode())
	f.Add(jobRow{status: JobClaimed}.encode())
	f.Add(usageKey(7, command.SurfaceAPI, "publishEntry", "curl"))
	f.Add([]byte("\x01\x00\x00\x00\x000000")) // an entry whose JSON begins in its head
	f.Fuzz(func(t *testing.T, row []byte) {
		if e, err := decodeEntryRow(1, row); err == nil {
			_, _ = e.texts() // the JSON is looked at when it is needed
			_, _ = summaryOf(row)
		}
		decoded(t, "hidden row", row, decodeHidden, func(h hiddenEntry) []byte { return h.encode() })
		decoded(t, "report", row, decodeReport, func(r Report) []byte { return r.encode() })
		decoded(t, "record", row, decodeRecord, func(r Record) []byte { return r.encode() })
		decoded(t, "counts", row, decodeLaterCounts, laterCounts.encode)
		decoded(t, "request", row, decodeRequestRow, requestRow.encode)
		decoded(t, "recent entries", row, decodeRecentByAuthor, func(s recentByAuthor) []byte { return s.append(nil) })
		decoded(t, "help", row, decodeHelpRow, helpRow.encode)
		decoded(t, "job", row, decodeJobRow, jobRow.encode)
		_, _, _ = decodeChannelRow(row)
		_, _ = parseSuccessors(row)
		_, _ = decodeTopic([]byte("name"), row)
		_, _ = decodeHourRow(row)
		_, _ = decodeNumber(row)
		_, _ = decodeFoldRow(row)
		_, _ = decodeReason(row)
		_, _ = decodeEntrySender(row)
		_, _ = decodeNameWriters(row)
		_, _ = decodeResult(row)
		_, _ = decodeSettings(row)
		_, _ = decodeBudget(row)
		_, _ = decodeProfileRow(row)
		_, _ = parseDueKey(row)
		_, _ = parseUsageKey(row)
	})
}
