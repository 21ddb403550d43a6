// Package memory bounds the memory of the process by that of its container or machine.
package memory

import (
	"io/fs"
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
)

const (
	// softShare and softOf are the part of the memory that Go's soft limit is.
	softShare, softOf = 3, 4
	// cacheOf is the part of the soft limit that the cache of the state is, within MinCache and
	// MaxCache.
	cacheOf = 4
	// MinCache is the smallest cache of the state, in bytes.
	MinCache = 64 << 20
	// MaxCache is the largest one. A larger one would repeat the system's cache of files.
	MaxCache = 512 << 20
)

// SetLimit sets Go's soft limit to a part of the memory of the container or machine, unless
// GOMEMLIMIT sets it.
func SetLimit() {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	if n := available(os.DirFS("/")); n > 0 {
		debug.SetMemoryLimit(n / softOf * softShare)
	}
}

// Limit returns Go's soft limit in bytes. 0 means no limit.
func Limit() int64 {
	if n := debug.SetMemoryLimit(-1); n < math.MaxInt64 {
		return n
	}
	return 0
}

// Cache returns the size of the cache of the state in bytes. It follows the soft limit.
func Cache() int64 { return min(max(Limit()/cacheOf, MinCache), MaxCache) }

// available returns the least of the machine's memory and the limits of the process's control
// groups (versions 1 and 2) in bytes, or 0 if they are unknown.
func available(root fs.FS) (least int64) {
	add := func(text string, unit int64) {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil && n > 0 && n <= math.MaxInt64/unit && (least == 0 || n*unit < least) {
			least = n * unit
		}
	}
	info, _ := fs.ReadFile(root, "proc/meminfo") // each file may be missing
	_, rest, _ := strings.Cut(string(info), "MemTotal:")
	total, _, _ := strings.Cut(rest, " kB")
	add(strings.TrimSpace(total), 1<<10)
	groups, _ := fs.ReadFile(root, "proc/self/cgroup")
	for line := range strings.Lines(string(groups)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) < 3 {
			continue
		}
		top, file := "sys/fs/cgroup", "memory.max"
		switch parts[1] {
		case "":
		case "memory":
			top, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		default:
			continue
		}
		// In a container, the path may be that outside of it: its groups are at the top.
		for at := path.Clean("/" + parts[2]); ; at = path.Dir(at) {
			limit, _ := fs.ReadFile(root, path.Join(top, at, file))
			add(strings.TrimSpace(string(limit)), 1)
			if at == "/" {
				break
			}
		}
	}
	return least
}
