package state

import (
	"encoding/json"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// TestShownAsStored: a list completes the rows of stubs and of replies to jobs, and no others.
func TestShownAsStored(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		row  EntryRow
		want bool
	}{
		"an entry":            {EntryRow{}, true},
		"a reply":             {EntryRow{ParentType: TypeEntry, Meta: Meta{Relation: command.RelationReply}}, true},
		"a reply to a job":    {EntryRow{ParentType: TypeJob, Meta: Meta{Relation: command.RelationReply}}, false},
		"a retraction of one": {EntryRow{ParentType: TypeJob, Meta: Meta{Relation: command.RelationRetraction}}, true},
		"a stub":              {EntryRow{Meta: Meta{Hidden: true}}, false},
	} {
		check.Equal(t, ShownAsStored(tt.row.Append(nil, &command.Publish{})), tt.want, "%s", name)
	}
	check.Equal(t, ShownAsStored([]byte{entryRowVersion}), false, "a row that is cut")
}

// TestParts: an entry's texts are read back from its row as they were, and so are those of a row
// with another value of a part.
func TestParts(t *testing.T) {
	text := rapid.StringOf(rapid.RuneFrom([]rune("a\\\"é\n\t\x01\x7f<,]\u2028\U0001F600")))
	rapid.Check(t, func(t *rapid.T) {
		p := &command.Publish{
			Agent: text.Draw(t, "agent"), Title: text.Draw(t, "title"), Body: text.Draw(t, "body"),
			Tags: rapid.SliceOfN(text, 0, 3).Draw(t, "tags"),
		}
		e := EntryRow{ParentType: TypeHelp, Meta: Meta{
			Seq: 9, Type: TypeJob, Kind: command.KindMessage, Relation: command.RelationReply, Parent: 3, CreatedAt: 5, Channel: "general",
		}}
		row := e.Append(nil, p)
		read := func(want *command.Publish) {
			o, err := OutlineOf(row)
			must.Do(t, err)
			got, err := o.Texts()
			must.Do(t, err)
			check.Diff(t, got, EntryTexts{want.Agent, want.Title, want.Body, append([]string(nil), want.Tags...)}, "the texts")
			check.Equal(t, string(o.Part(PartChannel)), `"general"`, "the channel")
			check.Diff(t, []any{o.Type, o.ParentType, o.Parent, o.CreatedAt, o.Relation}, []any{TypeJob, TypeHelp, uint64(3), int64(5), command.RelationReply}, "the outline")
			if !json.Valid(append(slices.Clone(o.JSON), '}')) {
				t.Fatalf("no JSON: %s", o.JSON)
			}
		}
		read(p)
		p.Title = text.Draw(t, "other title")
		var err error
		row, err = ReplacePart(row, PartTitle, AppendString(nil, p.Title))
		must.Do(t, err)
		read(p)
	})
}

func TestEntryID(t *testing.T) {
	tests := map[uint64]string{1: "e1", 31: "ez", 32: "e10", 1023: "ezz", 1 << 20: "e10000", math.MaxUint64: "efzzzzzzzzzzzz"}
	check.Equal(t, FormatID(TypeJob, 33)+FormatID(TypeHelp, 34), "j11h12", "ids of other types")
	for seq, want := range tests {
		check.Equal(t, EntryID(seq), want, "EntryID(%d)", seq)
	}
}

func TestParseIDRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.Uint64Min(1).Draw(t, "seq")
		entryType, seq, ok := ParseID(EntryID(want))
		if !ok || entryType != TypeEntry || seq != want {
			t.Fatalf("ParseID(%q) = %c, %d, %v", EntryID(want), entryType, seq, ok)
		}
	})
}

func TestParseIDRejects(t *testing.T) {
	for _, id := range []string{
		"", "e", "e0", "e01", "E1", "eZ", "ei", "el", "eo", "eu", "x1", "1", "e1 ", " e1", "e-1",
		"egzzzzzzzzzzzz", "ezzzzzzzzzzzzz", "e10000000000000", "k1", "j", "h0", "J1", "eé",
	} {
		if entryType, seq, ok := ParseID(id); ok {
			t.Errorf("ParseID(%q) = %c, %d", id, entryType, seq)
		}
	}
}

// FuzzParseID checks that an entry has a single id: an id that parses is the one that is printed.
func FuzzParseID(f *testing.F) {
	f.Add("e1")
	f.Add("efzzzzzzzzzzzz")
	f.Fuzz(func(t *testing.T, id string) {
		if entryType, seq, ok := ParseID(id); ok && FormatID(entryType, seq) != id {
			t.Fatalf("%q parses as %d, which is %q", id, seq, EntryID(seq))
		}
	})
}
