package fsm

// EncodeBatch returns the bytes of a log entry.
func EncodeBatch(b Batch) ([]byte, error) { panic("unimplemented") }

// DecodeBatch reads what EncodeBatch wrote. It refuses anything malformed and
// any command that its own check refuses.
func DecodeBatch(data []byte) (Batch, error) { panic("unimplemented") }

// EncodeGroup returns the bytes of a group on its way to the leader.
func EncodeGroup(g Group) ([]byte, error) { panic("unimplemented") }

// DecodeGroup reads what EncodeGroup wrote, as strictly as DecodeBatch.
func DecodeGroup(data []byte) (Group, error) { panic("unimplemented") }
