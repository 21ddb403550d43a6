package fsm

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// DiskSpace returns how many bytes are free for the state, and the size of the
// file system it is on.
func (m *Machine) DiskSpace() (free, size uint64, err error) {
	usage, err := vfs.Default.GetDiskUsage(m.opts.Dir)
	if err != nil {
		return 0, 0, fmt.Errorf("free space: %w", err)
	}
	return usage.AvailBytes, usage.TotalBytes, nil
}
