package state

import (
	"bytes"
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/must"
)

// decoded decodes a row, and holds that an accepted row is encoded as an acceptable
// row, and that is encoded alike.
func decoded[T any, P interface {
	*T
	Row
}](t *testing.T, what string, row []byte) {
	t.Helper()
	first, err := Decode[T, P](row)
	if err != nil {
		return
	}
	once := Encode(P(&first))
	second, err := Decode[T, P](once)
	if err != nil {
		t.Errorf("%s of % x is encoded as % x, which is %v", what, row, once, err)
	} else if again := Encode(P(&second)); !bytes.Equal(once, again) {
		t.Errorf("%s of % x is encoded as % x, and then as % x", what, row, once, again)
	}
}

// FuzzRows holds that rows and keys of any bytes are rejected, or stay as they are. Rows
// come from the snapshots of other nodes, too.
func FuzzRows(f *testing.F) {
	entry := EntryRow{Meta: Meta{
		Seq: 1, CreatedAt: 5, AgentKey: "ada", Channel: "general", Type: TypeEntry, Kind: command.KindMessage, Parent: 0, Thread: 1,
	}, Inbox: []string{"bob"}}
	row := entry.Append(nil, &command.Publish{Agent: "ada", Kind: command.KindMessage, Title: "Title", Body: "Body", Tags: []string{"a"}})
	f.Add(row)
	for _, tags := range []string{"", `["a"`, "x"} {
		f.Add(must.Get(ReplacePart(row, PartTags, []byte(tags)))(f))
	}
	f.Add(Encode(&HiddenEntry{Row: []byte{1}, State: []byte{2}, Listed: true, Newest: true, Topics: 3, Owed: 1}))
	f.Add(Encode(&Record{Number: 1, At: 5, By: "operator", Action: ActionHide, What: "e1", Reason: "Why"}))
	f.Add(Encode(&Report{ReportSubject: ReportSubject{Entry: 1, Name: "@ada"}, At: 5, Reason: 1, Text: "Spam", Agent: "ada", Count: 2, Senders: []SenderGroup{1, 2}, Reported: 5}))
	f.Add(Encode(&LaterCounts{Total: 3, Replies: 2, Listed: 3}))
	f.Add(Encode(&ChannelRow{Entries: 3, LastSeq: 7, LastAt: 9}))
	f.Add(Encode(&RequestRow{Entry: 7}))
	f.Add(Encode(&JobRow{Status: JobClaimed}))
	f.Add([]byte("\x01\x00\x00\x00\x000000")) // an entry whose JSON begins in its head
	f.Fuzz(func(t *testing.T, row []byte) {
		if e, err := DecodeEntryRow(1, row); err == nil {
			_, _ = e.Outline.Texts() // the JSON is looked at when it is needed
			for p := range parts {
				must.Get(ReplacePart(row, p, []byte(`"new"`)))(t)
			}
		}
		decoded[HiddenEntry](t, "hidden row", row)
		decoded[Report](t, "report", row)
		decoded[Record](t, "record", row)
		decoded[LaterCounts](t, "counts", row)
		decoded[RequestRow](t, "request", row)
		decoded[JobRow](t, "job", row)
		decoded[ChannelRow](t, "channel", row)
		decoded[Successors](t, "successors", row)
		_, _ = DecodeNumber(row)
		decoded[EntrySenders](t, "senders", row)
		decoded[SessionRow](t, "session", row)
		_, _ = Decode[NameWriters](row)
		decoded[Answers](t, "answers", row)
		decoded[BackupRun](t, "run of backups", row)
		_, _ = Decode[SettingsRow](row)
		_, _ = Decode[Budget](row)
		_, _ = Decode[ProfileRow](row)
		_, _, _ = ParseDueKey(row)
	})
}
