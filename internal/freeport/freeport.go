// Package freeport hands out ports of loopback for servers that tests start,
// stop and start again on the same address.
//
// A port that was free a moment ago may be taken a moment later: by another
// test, by another test process, or by the system for an outgoing connection.
// So a process takes whole blocks of ports, which lie below those that the
// system gives to outgoing connections, holds each block by listening on its
// first port for as long as the process lives, and never gives a port out twice.
package freeport

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

const (
	lowest    = 10_000
	highest   = 32_000 // below /proc/sys/net/ipv4/ip_local_port_range of Linux
	blockSize = 200    // how many ports a process takes at a time
)

// ErrNone means that every block is held by a process.
var ErrNone = errors.New("no free ports between " + strconv.Itoa(lowest) + " and " + strconv.Itoa(highest))

var pool struct {
	sync.Mutex

	next, end int // ports of the current block that were not given out
	held      []net.Listener
}

// Take returns the first of n successive ports that are free for TCP and UDP and
// that no other call is given, in any process, as long as this one lives. It
// fails with ErrNone, or for an n that is no part of a block.
func Take(n int) (int, error) {
	if n < 1 || n >= blockSize {
		return 0, fmt.Errorf("%d successive ports: take 1 to %d", n, blockSize-1)
	}
	pool.Lock()
	defer pool.Unlock()
	for {
		for pool.next+n <= pool.end {
			first := pool.next
			busy := firstBusy(first, n)
			if busy < 0 {
				pool.next = first + n
				return first, nil
			}
			pool.next = busy + 1
		}
		if err := takeBlock(); err != nil {
			return 0, err
		}
	}
}

// Addr returns an address of loopback with a port that Take gives.
func Addr() (string, error) {
	port, err := Take(1)
	return local(port), err
}

// takeBlock holds a free block, starting at a random one, so that processes that start
// together seldom try the same.
func takeBlock() error {
	const blocks = (highest - lowest) / blockSize
	start := rand.IntN(blocks)
	for i := range blocks {
		first := lowest + (start+i)%blocks*blockSize
		l, err := net.Listen("tcp", local(first)) //nolint:noctx // held to the end of the process
		if err != nil {
			continue
		}
		pool.held = append(pool.held, l)
		pool.next, pool.end = first+1, first+blockSize
		return nil
	}
	return ErrNone
}

// firstBusy returns the first of n ports that is taken, or -1.
func firstBusy(first, n int) int {
	for port := first; port < first+n; port++ {
		if !free(port) {
			return port
		}
	}
	return -1
}

func free(port int) bool {
	tcp, err := net.Listen("tcp", local(port)) //nolint:noctx // ends at once
	if err != nil {
		return false
	}
	defer tcp.Close()
	udp, err := net.ListenPacket("udp", local(port)) //nolint:noctx // ends at once
	if err != nil {
		return false
	}
	return udp.Close() == nil
}

func local(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
