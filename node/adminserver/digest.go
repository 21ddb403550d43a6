package adminserver

import (
	"context"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/commons-cluster/commons/cluster"
	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/snapshot"
	"github.com/commons-cluster/commons/node/admin"
	"github.com/commons-cluster/commons/node/backup"
)

const (
	digestWait     = 5 * time.Second  // bounds the wait for a node to reach the index of a comparison
	digestRounds   = 8                // of a comparison, each at a later index, because a node had passed the former one
	digestPatience = 20 * time.Second // the default time of a server in a comparison: it hashes some 125,000 entries a second of CPU
	digestTimeout  = 10 * time.Minute // the maximum that the operator may set
)

// digestAt returns the digest of this node, stopped at an index.
func (a *Server) digestAt(ctx context.Context, request admin.DigestRequest) (admin.Digest, error) {
	id, index := a.cfg.ServerID, request.Index
	waiting, stop := context.WithTimeout(ctx, digestWait)
	defer stop()
	view, err := a.cfg.Machine.ViewAt(waiting, index)
	switch {
	case errors.Is(err, fsm.ErrPassed):
		return admin.Digest{}, rejectf(http.StatusGone, "%s is at index %d and was not stopped at %d; repeat", id, a.cfg.Machine.Applied(), index)
	case err != nil:
		return admin.Digest{}, rejectf(http.StatusServiceUnavailable, "%s is at index %d and did not reach %d in time", id, a.cfg.Machine.Applied(), index)
	}
	defer view.Release()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(a.cfg.Work, cancel)() // the state cannot be closed meanwhile
	rows, err := view.RowDigest(ctx)
	if err != nil {
		return admin.Digest{}, rejectf(http.StatusServiceUnavailable, "%s: %v", id, err)
	}
	digest := view.Digest()
	return admin.Digest{ID: id, Index: index, Digest: hex.EncodeToString(digest[:]), Rows: hex.EncodeToString(rows[:])}, nil
}

// compareDigests asks all servers of the configuration for their digest at one index
// that covers everything acknowledged so far. Under load it is a future index: ahead by
// twice the progress of the log during the round before.
func (a *Server) compareDigests(ctx context.Context, request admin.CompareRequest) (admin.Comparison, error) {
	patience := time.Duration(request.PatienceMillis) * time.Millisecond
	if patience <= 0 {
		patience = digestPatience
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var c admin.Comparison
	var last uint64
	for round := range digestRounds {
		index, err := a.cfg.Pipeline.ReadIndex(ctx)
		if err != nil {
			return c, rejectf(http.StatusServiceUnavailable, "no index to compare at: %v; see `commons members`, and repeat", err)
		}
		ahead := uint64(0)
		if round > 0 {
			ahead = 2 * (index - last)
		}
		last = index
		var passed bool
		c, passed = a.compareAt(ctx, index+ahead, round < digestRounds-1)
		if !passed && a.cfg.Machine.Applied() >= c.Index {
			break // else the load has ended before that index
		}
	}
	return c, nil
}

// compareAt asks all servers at the same time. It reports whether one of them had passed the
// index; if there is another round, the others are stopped then.
func (a *Server) compareAt(ctx context.Context, index uint64, again bool) (c admin.Comparison, passed bool) {
	servers := a.cfg.Raft.Servers()
	c = admin.Comparison{Index: index, Equal: true, Digests: make([]admin.Digest, len(servers))}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	var mu sync.Mutex
	for i, s := range servers {
		wg.Go(func() {
			id, request := string(s.ID), admin.DigestRequest{Index: index}
			var d admin.Digest
			var err error
			if id == a.cfg.ServerID {
				d, err = a.digestAt(ctx, request)
			} else {
				d, err = call[admin.Digest](ctx, a, id, admin.PathDigest, request)
			}
			if err != nil {
				d = admin.Digest{ID: id, Index: index, Error: err.Error()}
			}
			mu.Lock()
			defer mu.Unlock()
			c.Digests[i] = d
			if statusOf(err) == http.StatusGone {
				passed = true
				if again {
					cancel()
				}
			}
		})
	}
	wg.Wait()
	answered := slices.DeleteFunc(slices.Clone(c.Digests), func(d admin.Digest) bool { return d.Error != "" })
	for _, d := range answered {
		c.Equal = c.Equal && d.Digest == answered[0].Digest && d.Rows == answered[0].Rows
	}
	return c, passed
}

// backupStall is how long the receiver of a backup may stop reading: one that uploads it to a slow
// store does so for each part of 16 MiB.
const backupStall = 10 * time.Minute

// serveSnapshot streams a backup: everything that was acknowledged before the call. The
// operator's side reports to recordBackup that it was saved.
func (a *Server) serveSnapshot(w http.ResponseWriter, r *http.Request) {
	export, info, err := a.exportState(r.Context())
	if err != nil {
		a.reject(w, err)
		return
	}
	defer a.closeExport(r.Context(), export)
	w.Header().Set("Content-Type", "application/zstd")
	start := time.Now()
	if err := backup.Write(steadyWriter{w, http.NewResponseController(w)}, export, info); err != nil {
		// The reader notices that the end of the backup is missing.
		a.cfg.Logger.WarnContext(r.Context(), "a backup was interrupted", "error", err)
		return
	}
	a.cfg.Logger.InfoContext(r.Context(), "sent a backup", "index", export.Index, "bytes", export.Size(),
		"took", time.Since(start).Round(time.Millisecond).String(), "by", cluster.PeerID(r.Context()))
}

// Backup writes a backup: everything that was acknowledged before the call.
func (a *Server) Backup(ctx context.Context, w io.Writer) error {
	export, info, err := a.exportState(ctx)
	if err != nil {
		return err
	}
	defer a.closeExport(ctx, export)
	return backup.Write(w, export, info)
}

func (a *Server) closeExport(ctx context.Context, export *fsm.Export) {
	if err := export.Close(); err != nil {
		a.cfg.Logger.WarnContext(ctx, "the copy of the state for a backup was not removed", "error", err)
	}
}

// recordBackup replicates the start time of the newest saved backup.
func (a *Server) recordBackup(ctx context.Context, saved admin.SavedBackup) (answer struct{}, err error) {
	body := &command.RecordBackup{At: saved.CreatedAt}
	if err := command.Check(body); err != nil {
		return answer, rejectf(http.StatusBadRequest, "%v: give the createdAt of its header", err)
	}
	if _, _, err := a.cfg.Pipeline.Propose(ctx, command.Sender{}, body); err != nil {
		return answer, rejectf(http.StatusServiceUnavailable, "whether it was recorded is not known: %v", err)
	}
	v := a.cfg.Machine.View()
	defer v.Release()
	if last, err := v.LastBackup(); err == nil && a.cfg.Health.IsAhead(last) {
		return answer, rejectf(http.StatusConflict, "it counts one of %s, when the clocks were ahead, and counts backups by hand from then on; those of a schedule count at once",
			time.UnixMilli(last).UTC().Format(time.RFC3339))
	}
	a.cfg.Logger.InfoContext(ctx, "a backup was saved", "begun", time.UnixMilli(saved.CreatedAt).UTC().Format(time.RFC3339), "by", cluster.PeerID(ctx))
	return answer, nil
}

// exportState starts an export that holds everything acknowledged so far.
func (a *Server) exportState(ctx context.Context) (export *fsm.Export, info backup.Info, err error) {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	begun := a.cfg.Pipeline.Clocks().Corrected()
	index, err := a.cfg.Pipeline.ReadIndex(ctx)
	if err != nil {
		return nil, info, rejectf(http.StatusServiceUnavailable, "no leader can say what belongs into the backup: %v; see `commons members`", err)
	}
	if err := a.cfg.Machine.Wait(ctx, index); err != nil {
		return nil, info, rejectf(http.StatusServiceUnavailable, "%s does not keep up with the leader; ask another node", a.cfg.ServerID)
	}
	export, err = a.cfg.Machine.Export()
	switch {
	case errors.Is(err, snapshot.ErrExporting):
		return nil, info, rejectf(http.StatusConflict, "%s makes a backup already; wait for it, or ask another node", a.cfg.ServerID)
	case err != nil:
		return nil, info, rejectf(http.StatusInternalServerError, "%v; ask another node", err)
	}
	return export, backup.Info{
		CreatedAt: begun.UnixMilli(), Node: a.cfg.ServerID, Program: a.cfg.Version,
		SealedUnder: cluster.SealedUnder(export.SealedDataKey),
	}, nil
}

// steadyWriter gives each write of a long answer a separate deadline.
type steadyWriter struct {
	http.ResponseWriter
	control *http.ResponseController
}

func (w steadyWriter) Write(p []byte) (int, error) {
	if err := w.control.SetWriteDeadline(time.Now().Add(backupStall)); err != nil {
		return 0, err
	}
	return w.ResponseWriter.Write(p)
}
