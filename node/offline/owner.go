package offline

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// keepOwner returns a function for the end of a command that root runs on a data
// directory. It gives everything in the directory to the owner that the directory, or else
// its closest existing parent, has at the time of the call to keepOwner. Otherwise the
// user that the node runs as could not open the files.
func (o Offline) keepOwner(err *error) (atEnd func()) {
	if os.Geteuid() != 0 {
		return func() {}
	}
	uid, gid, unknown := ownerOf(o.DataDir)
	return func() {
		if unknown != nil {
			*err = errors.Join(*err, unknown)
			return
		}
		failed := filepath.WalkDir(o.DataDir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			return os.Lchown(path, uid, gid)
		})
		if failed != nil && !errors.Is(failed, fs.ErrNotExist) {
			*err = errors.Join(*err, fmt.Errorf("the data directory is complete, but not all of it belongs to user %d: %w; correct that with chown -R", uid, failed))
		}
	}
}

// ownerOf returns the owner of a directory, or of its closest existing parent.
func ownerOf(dir string) (uid, gid int, err error) {
	if dir, err = filepath.Abs(dir); err != nil {
		return 0, 0, err
	}
	info, err := os.Stat(dir)
	for errors.Is(err, fs.ErrNotExist) {
		dir = filepath.Dir(dir)
		info, err = os.Stat(dir)
	}
	if err != nil {
		return 0, 0, err
	}
	owner := info.Sys().(*syscall.Stat_t) // on Unix
	return int(owner.Uid), int(owner.Gid), nil
}
