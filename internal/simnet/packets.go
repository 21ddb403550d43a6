package simnet

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// packets is gossip's transport at one address.
type packets struct {
	*listener

	host    Host
	arrived chan *memberlist.Packet
	streams chan net.Conn
	accepts sync.WaitGroup
}

var _ memberlist.NodeAwareTransport = (*packets)(nil)

// Packets returns gossip's transport at an address.
func (h Host) Packets(at netip.AddrPort) (memberlist.NodeAwareTransport, error) {
	p := &packets{
		listener: h.listen(at.String()), host: h,
		arrived: make(chan *memberlist.Packet, backlog), streams: make(chan net.Conn),
	}
	h.net.mu.Lock()
	h.net.packets[p.at] = p
	h.net.mu.Unlock()
	p.accepts.Go(func() {
		for {
			c, err := p.Accept()
			if err != nil {
				return
			}
			select {
			case p.streams <- c:
			case <-p.done:
				_ = c.Close() // cannot fail
				return
			}
		}
	})
	return p, nil
}

func (p *packets) PacketCh() <-chan *memberlist.Packet { return p.arrived }
func (p *packets) StreamCh() <-chan net.Conn           { return p.streams }

func (*packets) FinalAdvertiseAddr(ip string, port int) (net.IP, int, error) {
	return net.ParseIP(ip), port, nil
}

// WriteTo sends a packet. One that is lost, or does not fit into the receiver's buffer, is
// gone, as with UDP. So are those from and to a stopped host.
func (p *packets) WriteTo(b []byte, to string) (time.Time, error) {
	now, n := time.Now(), p.host.net
	n.mu.Lock()
	l := n.link(p.host.name, hostOf(to))
	wait, lost := l.delay(len(b))
	lost = lost || n.holds(p.host.name, hostOf(to))
	n.mu.Unlock()
	if lost {
		return now, nil
	}
	data := slices.Clone(b)
	time.AfterFunc(wait, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if target := n.packets[to]; target != nil {
			select {
			case target.arrived <- &memberlist.Packet{Buf: data, From: p.Addr(), Timestamp: time.Now()}:
			default:
			}
		}
	})
	return now, nil
}

func (p *packets) WriteToAddress(b []byte, to memberlist.Address) (time.Time, error) {
	return p.WriteTo(b, to.Addr)
}

func (p *packets) DialTimeout(to string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return p.host.DialContext(ctx, "tcp", to)
}

func (p *packets) DialAddressTimeout(to memberlist.Address, timeout time.Duration) (net.Conn, error) {
	return p.DialTimeout(to.Addr, timeout)
}

func (p *packets) Shutdown() error {
	err := p.Close()
	p.host.net.mu.Lock()
	if p.host.net.packets[p.at] == p {
		delete(p.host.net.packets, p.at)
	}
	p.host.net.mu.Unlock()
	p.accepts.Wait()
	return err
}
