// Package backup is the file that a backup of the whole state is kept in.
//
// A file is one zstd frame, which holds
//
//	"commons backup\n"
//	the Info as one line of JSON
//	the state as fsm streams it: files, each with its checksum
//	the Trailer as one line of JSON
//
// so that everything of it is checked by a SHA-256 and the state, once it is a
// state again, by the digest of its rows.
package backup

// Version of the format.
const Version = 1

const (
	magic = "commons backup\n"
	// maxLine bounds the Info and the Trailer.
	maxLine = 64 << 10
	// maxWindow bounds the memory that a file may ask for when it is read.
	maxWindow = 64 << 20
)

// Info says what a backup holds.
type Info struct {
	Version   int    `json:"version"`   // of the format
	CreatedAt int64  `json:"createdAt"` // when it was begun, milliseconds since the epoch: everything acknowledged before is in it
	ClusterID string `json:"clusterId"`
	Node      string `json:"node"`    // server id of the node that made it
	Program   string `json:"program"` // its version
	Index     uint64 `json:"index"`   // up to which of the log the state holds everything
	Term      uint64 `json:"term"`
	Time      int64  `json:"time"`    // of the log there, milliseconds since the epoch
	Entries   uint64 `json:"entries"` // published so far
	Format    int    `json:"format"`  // replicated format number
	Digest    string `json:"digest"`  // running digest, hexadecimal
	// SealedDataKey is the cluster's data key, sealed under the cluster's secret;
	// SealedUnder is the public name of that secret.
	SealedDataKey []byte `json:"sealedDataKey"`
	SealedUnder   string `json:"sealedUnder"`
	StateBytes    int64  `json:"stateBytes"` // length of the state's stream
}

// Trailer closes a backup.
type Trailer struct {
	Rows   string `json:"rows"`   // digest of the state's rows, hexadecimal
	SHA256 string `json:"sha256"` // of everything before the trailer, hexadecimal
}
