package operator

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
func (o *Operator) serveSnapshot(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), adminTimeout)
	defer cancel()
	begun := o.cfg.Pipeline.Clocks().Corrected()
	export, err := o.exportState(ctx)
	if err != nil {
		o.reject(w, err)
		return
	}
	defer func() {
		if err := export.Close(); err != nil {
			o.cfg.Logger.WarnContext(ctx, "the copy of the state for a backup was not removed", "error", err)
		}
	}()
	w.Header().Set("Content-Type", "application/zstd")
	info := backup.Info{
		CreatedAt: begun.UnixMilli(), Node: o.cfg.ServerID, Program: o.cfg.Version,
		SealedUnder: cluster.SealedUnder(export.SealedDataKey),
	}
	start := time.Now()
	if err := backup.Write(steadyWriter{w, http.NewResponseController(w)}, export, info); err != nil {
		// The reader finds a backup without an end.
		o.cfg.Logger.WarnContext(r.Context(), "a backup was interrupted", "error", err)
		return
	}
	o.cfg.Logger.InfoContext(r.Context(), "sent a backup", "index", export.Index, "bytes", export.Size(),
		"took", time.Since(start).Round(time.Millisecond).String(), "by", cluster.PeerID(r.Context()))
}

// recordBackup has every node know when the newest backup that was saved was begun.
func (o *Operator) recordBackup(ctx context.Context, saved admin.SavedBackup) (answer struct{}, err error) {
	body := &command.RecordBackup{At: saved.CreatedAt}
	if err := command.Check(body); err != nil {
		return answer, rejectf(http.StatusBadRequest, "%v: give the createdAt of its header", err)
	}
	if _, _, err := o.cfg.Pipeline.Propose(ctx, command.Sender{}, body); err != nil {
		return answer, rejectf(http.StatusServiceUnavailable, "whether it was recorded is not known: %v", err)
	}
	o.cfg.Logger.InfoContext(ctx, "a backup was saved", "begun", time.UnixMilli(saved.CreatedAt).UTC().Format(time.RFC3339), "by", cluster.PeerID(ctx))
	return answer, nil
}

// exportState begins an export that holds everything acknowledged so far.
func (o *Operator) exportState(ctx context.Context) (*fsm.Export, error) {
	index, err := o.cfg.Pipeline.ReadIndex(ctx)
	if err != nil {
		return nil, rejectf(http.StatusServiceUnavailable, "no leader can say what belongs into the backup: %v; see `commons members`", err)
	}
	if err := o.cfg.Machine.Wait(ctx, index); err != nil {
		return nil, rejectf(http.StatusServiceUnavailable, "%s does not keep up with the leader; ask another node", o.cfg.ServerID)
	}
	export, err := o.cfg.Machine.Export()
	switch {
	case errors.Is(err, snapshot.ErrExporting):
		return nil, rejectf(http.StatusConflict, "%s makes a backup already; wait for it, or ask another node", o.cfg.ServerID)
	case err != nil:
		return nil, rejectf(http.StatusInternalServerError, "%v; ask another node", err)
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
