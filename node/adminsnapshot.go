package node

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/commons-cluster/commons/cluster"
	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/snapshot"
	"github.com/commons-cluster/commons/node/admin"
	"github.com/commons-cluster/commons/node/backup"
)

// backupStall is how long whoever takes a backup may stop reading.
const backupStall = time.Minute

// serveSnapshot streams a backup of the state to an operator: everything that
// was acknowledged before the call. Whether it was saved only the operator's side
// knows, which says so to recordBackup.
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
		CreatedAt: begun.UnixMilli(), Node: n.identity.ServerID, Program: n.cfg.Version,
		SealedUnder: cluster.SealedUnder(export.SealedDataKey),
	}
	start := time.Now()
	if err := backup.Write(steadyWriter{w, http.NewResponseController(w)}, export, info); err != nil {
		// The reader finds a backup without an end.
		n.logger.WarnContext(r.Context(), "a backup was broken off", "error", err)
		return
	}
	n.logger.InfoContext(r.Context(), "sent a backup", "index", export.Index, "bytes", export.Size(),
		"took", time.Since(start).Round(time.Millisecond).String(), "by", cluster.PeerID(r.Context()))
}

// recordBackup has every node know when the newest backup that was saved was begun.
func (n *Node) recordBackup(ctx context.Context, saved admin.SavedBackup) (answer struct{}, err error) {
	body := &command.RecordBackup{At: saved.CreatedAt}
	if err := command.Check(body); err != nil {
		return answer, refusef(http.StatusBadRequest, "%v: give the createdAt of its header", err)
	}
	if _, _, err := n.pipeline.Propose(ctx, command.Sender{}, body); err != nil {
		return answer, refusef(http.StatusServiceUnavailable, "whether it was recorded is not known: %v", err)
	}
	n.logger.InfoContext(ctx, "a backup was saved", "begun", time.UnixMilli(saved.CreatedAt).UTC().Format(time.RFC3339), "by", cluster.PeerID(ctx))
	return answer, nil
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
	case errors.Is(err, snapshot.ErrExporting):
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
