package health

import (
	"errors"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/node/admin"
)

func TestParseReserve(t *testing.T) {
	const disk = 100 << 30
	for text, want := range map[string]uint64{
		"": 0, "0": 0, "512KiB": 512 << 10, "256MiB": 256 << 20, "2GiB": 2 << 30, "1TiB": 1 << 40, "5%": 5 << 30, "0%": 0,
	} {
		check.Equal(t, must.Get(ParseReserve(text))(t).of(disk), want, "the reserve %q", text)
	}
	for _, text := range []string{"5", "MiB", "-1MiB", "1.5GiB", "99%", "%", "5 GiB", "99999999999999MiB"} {
		check.Fails(ParseReserve(text))(t, "parse %q", text)
	}
}

// TestLowDiskStaysLow: free space that swings around the reserve does not make a
// node change its mind each time.
func TestLowDiskStaysLow(t *testing.T) {
	const mib = 1 << 20
	var d Disk
	for i, step := range []struct {
		free uint64
		low  bool
	}{{2000 * mib, false}, {800 * mib, false}, {799 * mib, true}, {801 * mib, true}, {899 * mib, true}, {900 * mib, false}, {801 * mib, false}, {0, true}} {
		d = d.measured(step.free, 10000*mib, Reserve{bytes: 800 * mib})
		check.Equal(t, d.Low, step.low, "step %d: low with %s free", i, admin.BytesText(step.free))
	}
}

// TestRoomLeavesTheReserve: what is kept for a follower leaves the reserve alone.
func TestRoomLeavesTheReserve(t *testing.T) {
	for name, tt := range map[string]struct {
		free, reserve uint64
		err           error
		want          uint64
	}{
		"plenty":            {free: 100 << 30, reserve: 1 << 30, want: 99 << 30},
		"below the reserve": {free: 1 << 20, reserve: 1 << 30, want: 0},
		"no reserve":        {free: 5 << 20, want: 5 << 20},
		"not known":         {err: errors.New("no answer"), want: 0},
	} {
		h := New(Config{})
		h.cfg.DiskSpace = func() (free, size uint64, err error) { return tt.free, 100 << 30, tt.err }
		if tt.reserve > 0 {
			h.disk.Store(&Disk{Free: tt.free, Reserve: tt.reserve})
		}
		check.Equal(t, h.Room(), tt.want, "%s: bytes of room", name)
	}
}

// TestCheckReserve: it measures at once, and knows a disk that was low as watchDisk does.
func TestCheckReserve(t *testing.T) {
	const size = 100 << 30
	for _, tt := range []struct {
		name, reserve string
		free          uint64
		wasLow        bool
		err           error
		full          bool
	}{
		{name: "plenty", reserve: "1GiB", free: 2 << 30},
		{name: "below the reserve", reserve: "1GiB", free: 1 << 20, full: true},
		{name: "just above it", reserve: "1GiB", free: 1<<30 + 1},
		{name: "just above it again", reserve: "1GiB", free: 1<<30 + 1, wasLow: true, full: true},
		{name: "no reserve", reserve: "0", free: 0},
		{name: "not known", reserve: "1GiB", err: errors.New("no answer")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := New(Config{Reserve: tt.reserve, DataDir: "/data", DiskSpace: func() (uint64, uint64, error) { return tt.free, size, tt.err }})
			if tt.wasLow {
				h.disk.Store(&Disk{Low: true})
			}
			err := h.CheckReserve()
			must.Equal(t, err != nil, tt.full, "the disk is full: %v", err)
			if tt.full && !strings.Contains(err.Error(), "1.0 GiB are reserved; make room in /data") {
				t.Errorf("the reason is %q", err)
			}
		})
	}
}
