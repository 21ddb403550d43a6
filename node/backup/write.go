package backup

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"

	"github.com/commons-cluster/commons/fsm"
)

// Write writes a backup of an export. The fields of info that the export knows
// are filled in.
func Write(w io.Writer, e *fsm.Export, info Info) (err error) {
	z, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return fmt.Errorf("write backup: %w", err)
	}
	if err := writeParts(z, e, info); err != nil {
		return fmt.Errorf("write backup: %w", errors.Join(err, z.Close()))
	}
	if err := z.Close(); err != nil {
		return fmt.Errorf("write backup: %w", err)
	}
	return nil
}

func writeParts(w io.Writer, e *fsm.Export, info Info) error {
	info.Version, info.StateBytes = Version, e.Size()
	info.ClusterID, info.SealedDataKey = e.ClusterID, e.SealedDataKey
	info.Index, info.Term, info.Time = e.Index, e.Term, e.Time
	info.Entries, info.Format, info.Digest = e.Entries, e.Format, hex.EncodeToString(e.Rolling[:])
	sum := sha256.New()
	body := io.MultiWriter(w, sum)
	if _, err := io.WriteString(body, magic); err != nil {
		return err
	}
	if err := writeLine(body, info); err != nil {
		return err
	}
	n, err := io.Copy(body, e)
	if err != nil {
		return err
	}
	if n != info.StateBytes {
		return fmt.Errorf("the state has %d bytes, announced were %d", n, info.StateBytes)
	}
	rows, err := e.RowDigest()
	if err != nil {
		return err
	}
	return writeLine(w, Trailer{Rows: hex.EncodeToString(rows[:]), SHA256: hex.EncodeToString(sum.Sum(nil))})
}

func writeLine(w io.Writer, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(line, '\n'))
	return err
}
