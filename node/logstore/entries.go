package logstore

import (
	"fmt"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/hashicorp/raft"
)

var frameHandle = codec.MsgpackHandle{WriteExt: true}

// appendEntries encodes the entries of a frame, each as raft-boltdb does.
func appendEntries(b []byte, entries []*raft.Log) []byte {
	var encoded []byte
	codec.NewEncoderBytes(&encoded, &frameHandle).MustEncode(entries)
	return append(b, encoded...)
}

// decodeEntries returns the entries of a frame, which share no memory with it.
func decodeEntries(b []byte) (entries []*raft.Log, err error) {
	if err := codec.NewDecoderBytes(b, &frameHandle).Decode(&entries); err != nil {
		return nil, err
	}
	for _, l := range entries {
		if err := verify(l); err != nil {
			return nil, fmt.Errorf("entry %d: %w", l.Index, err)
		}
	}
	return entries, nil
}
