package node

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/commons-cluster/commons/api"
	"github.com/commons-cluster/commons/cluster"
	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/node/backup"
)

const (
	// backupStall is how long whoever takes a backup may stop reading.
	backupStall = time.Minute
	// recordTimeout bounds how long it takes to record that a backup was made.
	recordTimeout = 5 * time.Second
)

// serveSnapshot streams a backup of the state to an operator: everything that
// was acknowledged before the call.
func (n *Node) serveSnapshot(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), adminTimeout)
	defer cancel()
	begun := n.pipeline.Clocks().Corrected()
	export, err := n.exportState(ctx)
	if err != nil {
		n.refuse(w, err)
		return
	}
	defer func() {
		if err := export.Close(); err != nil {
			n.logger.WarnContext(ctx, "the copy of the state for a backup was not removed", "error", err)
		}
	}()
	w.Header().Set("Content-Type", "application/zstd")
	info := backup.Info{
		CreatedAt: time.Now().UnixMilli(), Node: n.identity.ServerID, Program: n.cfg.Version,
		SealedUnder: cluster.SealedUnder(export.SealedDataKey),
	}
	start := time.Now()
	if err := backup.Write(steadyWriter{w, http.NewResponseController(w)}, export, info); err != nil {
		// The reader finds a backup without an end.
		n.logger.WarnContext(r.Context(), "a backup was broken off", "error", err)
		return
	}
	n.recordBackup(r.Context(), begun)
	n.logger.InfoContext(r.Context(), "made a backup", "index", export.Index, "bytes", export.Size(),
		"took", time.Since(start).Round(time.Millisecond).String(), "by", cluster.PeerID(r.Context()))
}

// recordBackup has every node know when the newest backup was made. The backup is
// whole without this, and its reader waits for its end meanwhile.
func (n *Node) recordBackup(ctx context.Context, begun time.Time) {
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	if _, _, err := n.pipeline.Propose(ctx, api.Sender{}, &fsm.RecordBackup{At: begun.UnixMilli()}); err != nil {
		n.logger.WarnContext(ctx, "a backup was made, but not when: the alert on old backups does not know it", "error", err)
	}
}

// exportState begins an export that holds everything acknowledged so far.
func (n *Node) exportState(ctx context.Context) (*fsm.Export, error) {
	index, err := n.pipeline.ReadIndex(ctx)
	if err != nil {
		return nil, refusef(http.StatusServiceUnavailable, "no leader can say what belongs into the backup: %v; see `commons members`", err)
	}
	if err := n.machine.Wait(ctx, index); err != nil {
		return nil, refusef(http.StatusServiceUnavailable, "%s does not keep up with the leader; ask another node", n.identity.ServerID)
	}
	export, err := n.machine.Export()
	switch {
	case errors.Is(err, fsm.ErrExporting):
		return nil, refusef(http.StatusConflict, "%s makes a backup already; wait for it, or ask another node", n.identity.ServerID)
	case err != nil:
		return nil, refusef(http.StatusInternalServerError, "%v; ask another node", err)
	}
	return export, nil
}

// steadyWriter gives each write of a long answer time of its own.
type steadyWriter struct {
	http.ResponseWriter
	control *http.ResponseController
}

// Write writes a part of the answer.
func (w steadyWriter) Write(p []byte) (int, error) {
	if err := w.control.SetWriteDeadline(time.Now().Add(backupStall)); err != nil {
		return 0, err
	}
	return w.ResponseWriter.Write(p)
}
