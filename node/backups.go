package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync/atomic"

	"github.com/commons-cluster/commons/node/admin"
	"github.com/commons-cluster/commons/node/adminserver"
	"github.com/commons-cluster/commons/node/offline"
	"github.com/commons-cluster/commons/node/offsite"
)

func (n *Node) newVerifier() *offsite.Verifier {
	return &offsite.Verifier{
		Access: n.cfg.Access, Dir: filepath.Join(n.cfg.DataDir, offline.VerifyDir), ClusterID: n.dataKey.ClusterID, Plan: n.backupPlan,
		PurgedAt: func(index uint64) (uint64, error) {
			v := n.machine.View()
			defer v.Release()
			return v.PurgedUpTo(index)
		},
		Turn:    func(ctx context.Context) bool { return adminserver.VerifiesBackups(n.admin.ClusterReport(ctx)) },
		Restore: n.tryRestore, Pacer: &n.pacer, Logger: n.logger,
		Propose: n.proposeOwn,
	}
}

// restoreRoom is the free space on the disk that the check of a backup needs, as a multiple of its
// state.
const restoreRoom = 2

// tryRestore restores a backup beside the node's own state, and deletes the result.
func (n *Node) tryRestore(open func() (io.ReadCloser, error)) error {
	var unusable atomic.Pointer[error]
	o := offline.Offline{
		SecretFile: n.cfg.SecretFile,
		Open:       func(string) (io.ReadCloser, error) { return open() },
		Fatal:      func(err error) { unusable.Store(&err) },
	}
	info, err := o.Info("")
	if err != nil {
		return err
	}
	if room := n.health.Room(); uint64(info.StateBytes)*restoreRoom > room { //nolint:gosec // not negative
		return fmt.Errorf("a restore needs %s on the disk, and %s are free above its reserve", admin.BytesText(uint64(info.StateBytes)*restoreRoom), admin.BytesText(room)) //nolint:gosec // as above
	}
	_, err = offline.CheckRestore(o, "", filepath.Join(n.cfg.DataDir, offline.VerifyDir))
	if e := unusable.Load(); e != nil {
		err = errors.Join(err, *e)
	}
	return err
}

// backupPlan returns the replicated part of the schedule of backups.
func (n *Node) backupPlan() (p offsite.Plan, err error) {
	v := n.machine.View()
	defer v.Release()
	if p.Settings, err = v.Settings(); err != nil {
		return p, err
	}
	if p.Run, err = v.BackupRun(); err != nil {
		return p, err
	}
	p.Purges, err = v.Purged()
	return p, err
}
