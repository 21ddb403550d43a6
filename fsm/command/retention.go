package command

// MaxSwept bounds the entries that one Sweep makes stubs of, and those that it names.
const MaxSwept = 100

// Sweep makes stubs of some of the oldest entries that are older than the retention, at the instant
// of the log entry. The leader proposes it while there are any.
type Sweep struct {
	// Over are older entries that were kept because of open activity, which may have ended.
	Over []uint64 `cbor:"1,keyasint,omitempty"`
}

func (c *Sweep) check() error {
	return checkRange("entries", len(c.Over), 0, MaxSwept, "items")
}
