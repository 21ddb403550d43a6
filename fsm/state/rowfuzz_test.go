package state

import (
	"bytes"
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
)

// decoded tries a decoder, and holds that an accepted row is encoded as an acceptable
// row, and that is encoded alike.
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

// FuzzRows holds that rows and keys of any bytes are rejected, or stay as they are. Rows
// come from the snapshots of other nodes, too.
func FuzzRows(f *testing.F) {
	entry := EntryRow{Meta: Meta{
		Seq: 1, CreatedAt: 5, AgentKey: "ada", Channel: "general", Type: TypeEntry, Kind: command.KindMessage, Parent: 0, Thread: 1,
	}, Inbox: []string{"bob"}}
	f.Add(entry.Append(nil, &command.Publish{Agent: "ada", Kind: command.KindMessage, Title: "Title", Body: "Body", Tags: []string{"a"}}))
	f.Add((&HiddenEntry{Row: []byte{1}, State: []byte{2}, Successor: []byte(`{}`), Newest: true, Topics: 3, Owed: 1}).Encode())
	f.Add((&Record{Number: 1, At: 5, By: "operator", Action: ActionHide, What: "e1", Reason: "Why"}).Encode())
	f.Add((&Report{ID: []byte{1}, ReportSubject: ReportSubject{Entry: 1, Name: "@ada"}, At: 5, Reason: 1, Text: "Spam", Contact: "me", Agent: "ada"}).Encode())
	f.Add(LaterCounts{Total: 3, Replies: 2, Listed: 3}.Encode())
	f.Add(ChannelRow{Entries: 3, LastSeq: 7, LastAt: 9}.Append(nil))
	f.Add(RequestRow{Entry: 7}.Encode())
	f.Add(HelpRow{HelpOpen, []byte(`"goal":"A goal"`)}.Encode())
	f.Add(JobRow{Status: JobClaimed}.Encode())
	f.Add([]byte("\x01\x00\x00\x00\x000000")) // an entry whose JSON begins in its head
	f.Fuzz(func(t *testing.T, row []byte) {
		if e, err := DecodeEntryRow(1, row); err == nil {
			_, _ = e.Texts() // the JSON is looked at when it is needed
		}
		decoded(t, "hidden row", row, DecodeHidden, func(h HiddenEntry) []byte { return h.Encode() })
		decoded(t, "report", row, DecodeReport, func(r Report) []byte { return r.Encode() })
		decoded(t, "record", row, DecodeRecord, func(r Record) []byte { return r.Encode() })
		decoded(t, "counts", row, DecodeLaterCounts, LaterCounts.Encode)
		decoded(t, "request", row, DecodeRequestRow, RequestRow.Encode)
		decoded(t, "help", row, DecodeHelpRow, HelpRow.Encode)
		decoded(t, "job", row, DecodeJobRow, JobRow.Encode)
		decoded(t, "channel", row, DecodeChannelRow, func(c ChannelRow) []byte { return c.Append(nil) })
		_, _ = ParseSuccessors(row)
		_, _ = DecodeNumber(row)
		_, _ = DecodeEntrySender(row)
		_, _ = decodeNameWriters(row)
		_, _ = DecodeResult(row)
		decoded(t, "run of backups", row, DecodeBackupRun, BackupRun.Encode)
		_, _ = decodeSettings(row)
		_, _ = decodeBudget(row)
		_, _ = DecodeProfileRow(row)
		_, _ = ParseDueKey(row)
	})
}
