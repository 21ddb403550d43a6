package adminserver

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/commons-cluster/commons/internal/check"
)

// answerTo is a response whose bytes go to a connection.
type answerTo struct{ net.Conn }

func (answerTo) Header() http.Header { return http.Header{} }
func (answerTo) WriteHeader(int)     {}

// TestReceiverOfBackupMayPause: a receiver that uploads a part of the backup to a slow store does not
// read meanwhile. One that reads no more is given up.
func TestReceiverOfBackupMayPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer func() { _ = near.Close() }()
		w := steadyWriter{answerTo{near}, http.NewResponseController(answerTo{near})}
		part := bytes.Repeat([]byte{1}, 1000)
		go func() {
			for range 3 {
				time.Sleep(5 * time.Minute)
				_, _ = io.CopyN(io.Discard, far, int64(len(part)))
			}
		}()
		for range 3 {
			_, err := w.Write(part)
			check.Err(t, err, nil, "write to a slow receiver")
		}
		_, err := w.Write(part)
		check.Err(t, err, os.ErrDeadlineExceeded, "write to a receiver that hangs")
	})
}
