package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// memoryEvery is how often a process's memory is looked at.
const memoryEvery = 500 * time.Millisecond

// anonymousMemory returns the anonymous resident memory of a process in MB: what it
// has allocated, without the files that it has mapped.
func anonymousMemory(pid int) (float64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			kb, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64)
			return kb / 1024, err
		}
	}
	return 0, errors.New("its status has no RssAnon")
}

// watchMemory looks at a process until ctx ends; the peak comes on the channel.
func watchMemory(ctx context.Context, pid int) <-chan float64 {
	peak := make(chan float64, 1)
	go func() {
		most := 0.0
		for {
			if now, err := anonymousMemory(pid); err == nil {
				most = max(most, now)
			}
			select {
			case <-ctx.Done():
				peak <- most
				return
			case <-time.After(memoryEvery):
			}
		}
	}()
	return peak
}
