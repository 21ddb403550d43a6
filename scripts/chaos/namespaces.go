package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/commons-cluster/commons/scripts/harness"
)

// Nodes have addresses in the range that is reserved for network benchmarks (RFC 2544).
// The last address is for the clients.
const (
	subnet      = "198.18.77."
	clientsHost = 254
	tunDevice   = "/dev/net/tun"
	maxPacket   = 64 << 10
	// queue is how many packets a path holds. Packets that do not fit are dropped.
	queue = 1000
)

// namespaces give each node its own network. A switch between them loses and delays
// packets and limits the bandwidth, for gossip as well: a tun device in each namespace
// hands the node's packets to this process.
type namespaces struct {
	id string // prefix of the names of all devices and namespaces

	mu      sync.Mutex
	ways    map[[2]string]*way
	devices map[string]io.ReadWriteCloser // by node; "" for the clients
	hosts   map[byte]string               // nodes by the last byte of their addresses
}

// way is the path from one node to another. Only namespaces changes its quality.
type way struct {
	quality
	packets chan packet
}

// packet is to arrive at a given time, and then occupies a path of limited bandwidth for
// a while.
type packet struct {
	data []byte
	at   time.Time
	took time.Duration
}

// newNamespaces makes the network of the clients.
func newNamespaces(ctx context.Context) (*namespaces, error) {
	s := &namespaces{
		id: fmt.Sprintf("ch%d-", os.Getpid()), ways: map[[2]string]*way{},
		devices: map[string]io.ReadWriteCloser{}, hosts: map[byte]string{},
	}
	if err := s.attach(ctx, "", clientsHost, ""); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// add makes a node's network, in which it runs when it is started.
func (s *namespaces) add(ctx context.Context, n *harness.Node, number int) error {
	space := s.id + n.Name
	if err := system(ctx, "ip", "netns", "add", space); err != nil {
		return err
	}
	if err := s.attach(ctx, n.Name, byte(number), space); err != nil {
		return err
	}
	n.Prefix = []string{"nsenter", "--net=/var/run/netns/" + space} // ip netns exec would keep disks mounted
	return system(ctx, "ip", "-n", space, "link", "set", "lo", "up")
}

// attach puts a device into a namespace, or into this process's own, and switches its
// packets.
func (s *namespaces) attach(ctx context.Context, node string, host byte, space string) error {
	name := s.id + "t" + strconv.Itoa(int(host))
	device, err := openTun(name)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.devices[node], s.hosts[host] = device, node
	s.mu.Unlock()
	ip := []string{"ip"}
	if space != "" {
		if err := system(ctx, "ip", "link", "set", name, "netns", space); err != nil {
			return err
		}
		ip = append(ip, "-n", space)
	}
	err = errors.Join(
		system(ctx, append(ip, "addr", "add", subnet+strconv.Itoa(int(host))+"/24", "dev", name)...),
		system(ctx, append(ip, "link", "set", name, "up")...))
	go s.read(node, device)
	return err
}

// openTun makes a device whose packets are read and written here. Closing its file
// removes it.
func openTun(name string) (*os.File, error) {
	fd, err := syscall.Open(tunDevice, syscall.O_RDWR|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", tunDevice, err)
	}
	const tunSetIff, ipOnly = 0x400454CA, 0x1001 // TUNSETIFF; IFF_TUN, IFF_NO_PI
	var request struct {
		name  [16]byte
		flags uint16
		_     [22]byte
	}
	copy(request.name[:len(request.name)-1], name)
	request.flags = ipOnly
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), tunSetIff, uintptr(unsafe.Pointer(&request))); errno != 0 { //nolint:gosec // as the kernel wants it
		return nil, errors.Join(fmt.Errorf("%s: %w", tunDevice, errno), syscall.Close(fd))
	}
	return os.NewFile(uintptr(fd), tunDevice), nil
}

// destination returns the last byte of the address that a packet is for.
func destination(packet []byte) (host byte, ok bool) {
	const header, version, address = 20, 4, 16
	if len(packet) < header || packet[0]>>4 != version {
		return 0, false // IPv6 looks for neighbours by itself
	}
	return packet[address+3], true
}

// read switches what a node sends until its device is closed.
func (s *namespaces) read(from string, device io.Reader) {
	buffer := make([]byte, maxPacket)
	for {
		n, err := device.Read(buffer)
		if err != nil {
			return
		}
		host, ok := destination(buffer[:n])
		s.mu.Lock()
		to, known := s.hosts[host]
		if ok && known {
			s.pass(from, to, buffer[:n])
		}
		s.mu.Unlock()
	}
}

// way returns the path from one node to another. The lock is held.
func (s *namespaces) way(from, to string) *way {
	w := s.ways[[2]string{from, to}]
	if w == nil {
		w = &way{packets: make(chan packet, queue)}
		s.ways[[2]string{from, to}] = w
		go carry(w.packets, s.devices[to])
	}
	return w
}

// pass queues a packet for its destination. The lock is held.
func (s *namespaces) pass(from, to string, data []byte) {
	w := s.way(from, to)
	if w.cut || w.loss > 0 && rand.Float64() < w.loss {
		return
	}
	p := packet{data: bytes.Clone(data), at: time.Now().Add(w.delay)}
	if w.jitter > 0 {
		p.at = p.at.Add(rand.N(w.jitter))
	}
	if w.bandwidth > 0 {
		p.took = time.Duration(len(data)) * time.Second / time.Duration(w.bandwidth)
	}
	select {
	case w.packets <- p:
	default: // a full queue drops
	}
}

// carry delivers packets in their order, each when it is due.
func carry(packets <-chan packet, to io.Writer) {
	var free time.Time // when a path of limited bandwidth accepts more
	for p := range packets {
		time.Sleep(time.Until(p.at))
		if p.took > 0 {
			if now := time.Now(); free.Before(now) {
				free = now
			}
			free = free.Add(p.took)
			time.Sleep(time.Until(free))
		}
		_, _ = to.Write(p.data) // a closed device accepts no packets
	}
}

// set changes the quality of the path from one node to another.
func (s *namespaces) set(from, to string, q quality) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.way(from, to).quality = q
}

// reset returns an error: a switch does not see connections.
func (s *namespaces) reset(string) error { return errNoConnections }

var errNoConnections = errors.New("the switch between namespaces knows no connections")

// runs is not needed: packets contain their source.
func (s *namespaces) runs(string, int) {}

// close removes everything again, also after a failure.
func (s *namespaces) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for node, device := range s.devices {
		_ = device.Close() // this removes the device
		if node != "" {
			complain(system(context.Background(), "ip", "netns", "del", s.id+node))
		}
	}
	for _, w := range s.ways {
		close(w.packets)
	}
	clear(s.ways)
	clear(s.devices)
	clear(s.hosts)
}
