package freeport

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

// takeEnv makes the test binary a process that takes as many ports, prints them
// and lives until its input ends.
const takeEnv = "FREEPORT_TAKE"

func TestMain(m *testing.M) {
	n, err := strconv.Atoi(os.Getenv(takeEnv))
	if err != nil {
		os.Exit(m.Run())
	}
	for range n {
		port, err := Take(1)
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(port)
	}
	_, _ = bufio.NewReader(os.Stdin).ReadByte()
}

// TestNoPortTwice takes ports in several goroutines and several processes, which do not
// listen on them.
func TestNoPortTwice(t *testing.T) {
	const processes, goroutines, each = 3, 4, blockSize
	var mu sync.Mutex
	seen := map[int]string{}
	add := func(port int, by string) {
		mu.Lock()
		defer mu.Unlock()
		if other, taken := seen[port]; taken {
			t.Errorf("port %d was given to %s and to %s", port, other, by)
		}
		seen[port] = by
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	for p := range processes {
		cmd := exec.CommandContext(ctx, os.Args[0])
		cmd.Env = append(os.Environ(), takeEnv+"="+strconv.Itoa(goroutines*each))
		must.Get(cmd.StdinPipe())(t)
		out := must.Get(cmd.StdoutPipe())(t)
		must.Do(t, cmd.Start())
		t.Cleanup(func() {
			cancel()
			_ = cmd.Wait()
		})
		wg.Go(func() {
			lines := bufio.NewScanner(out)
			for range goroutines * each {
				if !lines.Scan() {
					t.Errorf("process %d ended early: %v", p, lines.Err())
					return
				}
				port, err := strconv.Atoi(lines.Text())
				if err != nil {
					t.Errorf("process %d: %s", p, lines.Text())
					return
				}
				add(port, fmt.Sprint("process ", p))
			}
		})
	}
	for g := range goroutines {
		wg.Go(func() {
			for range each {
				port, err := Take(1)
				if err != nil {
					t.Error(err)
					return
				}
				add(port, fmt.Sprint("goroutine ", g))
			}
		})
	}
	wg.Wait()
	check.Equal(t, len(seen), (processes+1)*goroutines*each, "ports")
}

func TestSuccessivePortsSkipTheBusy(t *testing.T) {
	const n = 3
	first, err := Take(n)
	for err == nil && pool.end-pool.next < 2*n {
		first, err = Take(n)
	}
	must.Do(t, err)
	busy := first + n + 1
	l := must.Get((&net.ListenConfig{}).ListenPacket(t.Context(), "udp", local(busy)))(t)
	defer l.Close()
	check.Equal(t, must.Get(Take(n))(t), busy+1, "with %d busy", busy)
}

func TestBlocksHaveAnEnd(t *testing.T) {
	for _, n := range []int{-1, 0, blockSize} {
		check.Fails(Take(n))(t, "take %d ports", n)
	}
}
