package memory

import (
	"runtime/debug"
	"testing"
	"testing/fstest"

	"github.com/commons-cluster/commons/internal/check"
)

func TestAvailable(t *testing.T) {
	t.Parallel()
	const machine = "MemTotal:       2097152 kB\nMemFree: 5 kB\n"
	for name, test := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"unknown": {nil, 0},
		"machine": {map[string]string{"proc/meminfo": machine}, 2 << 30},
		"no limit in a group": {map[string]string{
			"proc/meminfo": machine, "proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "max\n",
		}, 2 << 30},
		"version 2, the group above has less": {map[string]string{
			"proc/meminfo": machine, "proc/self/cgroup": "0::/a/b\n",
			"sys/fs/cgroup/a/b/memory.max": "1073741824\n", "sys/fs/cgroup/a/memory.max": "536870912\n",
		}, 512 << 20},
		"version 2 in a container": {map[string]string{
			"proc/meminfo": machine, "proc/self/cgroup": "0::/docker/1\n", "sys/fs/cgroup/memory.max": "1073741824\n",
		}, 1 << 30},
		"version 1": {map[string]string{
			"proc/meminfo": machine, "proc/self/cgroup": "5:cpu,cpuacct:/x\n4:memory:/docker/1\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "268435456\n",
		}, 256 << 20},
		"version 1 without a limit": {map[string]string{
			"proc/meminfo": machine, "proc/self/cgroup": "4:memory:/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
		}, 2 << 30},
		"malformed": {map[string]string{"proc/meminfo": "MemTotal: many kB\n", "proc/self/cgroup": "0:\n", "sys/fs/cgroup/memory.max": "-1"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := fstest.MapFS{}
			for path, text := range test.files {
				root[path] = &fstest.MapFile{Data: []byte(text)}
			}
			check.Equal(t, available(root), test.want, "available bytes")
		})
	}
}

// TestLimits changes the limit of the process.
func TestLimits(t *testing.T) { //nolint:paralleltest // the limit belongs to the process
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	for limit, want := range map[int64]int64{100 << 20: MinCache, 1 << 30: 256 << 20, 1 << 40: MaxCache} {
		debug.SetMemoryLimit(limit)
		check.Equal(t, Cache(), want, "the cache of a limit of %d bytes", limit)
	}
	t.Setenv("GOMEMLIMIT", "1GiB")
	debug.SetMemoryLimit(1 << 30)
	SetLimit()
	check.Equal(t, Limit(), 1<<30, "the limit of GOMEMLIMIT")
	t.Setenv("GOMEMLIMIT", "")
	debug.SetMemoryLimit(1 << 40)
	if SetLimit(); Limit() == 1<<40 || Limit() < 1<<20 {
		t.Errorf("the limit is %d bytes", Limit())
	}
}
