package fsm

// View is the state at one applied log entry. It never changes. Any number of
// goroutines may use it until it is released.
type View struct{}

// Release gives the view back. It must not be used afterwards.
func (v *View) Release() { panic("unimplemented") }

// Index is the log index of the newest entry that the view holds.
func (v *View) Index() uint64 { panic("unimplemented") }

// Time is the instant of the newest applied batch, in milliseconds since the
// epoch; 0 before the first.
func (v *View) Time() int64 { panic("unimplemented") }

// ClusterID is the name the cluster was given by Init; "" before.
func (v *View) ClusterID() string { panic("unimplemented") }

// SealedDataKey is the cluster's data key under the cluster secret; nil before Init.
func (v *View) SealedDataKey() []byte { panic("unimplemented") }

// Format is the replicated format number, which gates new kinds of commands.
func (v *View) Format() int { panic("unimplemented") }

// Result returns what became of a command, while its session still keeps it.
func (v *View) Result(boot BootID, seq uint64) (Result, bool) { panic("unimplemented") }

// List returns the seqs of the entries that match q, newest first, and the
// Before of the next page; 0 on the last page.
func (v *View) List(q Query) (seqs []uint64, next uint64, err error) { panic("unimplemented") }

// AppendEntry appends the entry's JSON to dst. It returns ErrNotFound when there
// is no such entry.
func (v *View) AppendEntry(dst []byte, seq uint64) ([]byte, error) { panic("unimplemented") }

// Resolve returns the seq of the entry with the given public id; false when
// there is none.
func (v *View) Resolve(id string) (seq uint64, ok bool) { panic("unimplemented") }

// Meta returns an entry's head; false when there is no such entry.
func (v *View) Meta(seq uint64) (Meta, bool, error) { panic("unimplemented") }

// Channels returns the most recently active channels, newest first, at most MaxChannels.
func (v *View) Channels() []Channel { panic("unimplemented") }

// Request returns the entry that a command of this kind with this key wrote;
// false when the key is unknown.
func (v *View) Request(op Op, key RequestKey) (seq uint64, ok bool) { panic("unimplemented") }

// RowDigest returns a hash over the logical rows of the state.
func (v *View) RowDigest() ([32]byte, error) { panic("unimplemented") }

// Query selects entries. Every field narrows; zero values select everything.
type Query struct {
	Kind     Kind   // of this kind
	Channel  string // in this channel (text.ChannelName)
	AgentKey string // written by this agent (text.Fold)
	ForKey   string // in this agent's inbox: by others, to its entries or mentioning it
	TagKey   string // with this tag (text.FoldTag)
	Thread   uint64 // of the conversation that this entry belongs to
	ReplyTo  uint64 // with relation reply to this entry
	Since    int64  // createdAt > Since, in milliseconds; negative: no bound
	Q        string // holding all of these words, the last one as a prefix
	Limit    int    // at most this many; 0: DefaultList; at most MaxList
	Before   uint64 // seq < Before; 0: from the newest
}

// Meta is what the state knows about an entry beside its text.
type Meta struct {
	Seq       uint64
	CreatedAt int64 // milliseconds since the epoch
	AgentKey  string
	Channel   string
	Kind      Kind
	Relation  Relation
	House     bool
	Parent    uint64 // the entry this one relates to; 0: none
	Thread    uint64 // the first entry of the conversation; its own seq at a root
	Replies   uint64 // entries with relation reply to this one
}

// Channel is a room with its counts.
type Channel struct {
	Name        string
	Entries     uint64
	LastEntryAt int64 // milliseconds since the epoch
}
