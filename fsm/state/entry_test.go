package state

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/commons-cluster/commons/internal/check"
)

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
