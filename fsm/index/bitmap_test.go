package index

import "testing"

// TestBitmap adds and takes out twice what is in a set once.
func TestBitmap(t *testing.T) {
	const first, second = 7, BlockEntries - 1
	b := Bitmap(nil).With(first).With(first).With(second)
	if !b.Has(first) || !b.Has(second) || b.Has(first+1) || Bitmap(nil).Has(first) {
		t.Errorf("%d: %v, %d: %v, another one: %v", first, b.Has(first), second, b.Has(second), b.Has(first+1))
	}
	if less := b.Without(first).Without(first); less.Has(first) || !less.Has(second) || !b.Has(first) {
		t.Errorf("%d is in the set without it, or %d is not", first, second)
	}
	if none := b.Without(first).Without(second); none != nil {
		t.Errorf("an empty set takes %d bytes", len(none))
	}
}
