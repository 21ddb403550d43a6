package delivery

import (
	"context"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/commons-cluster/commons/node/loop"
)

const (
	// ownNamesInterval is how often the names are looked up that nodes advertise, and
	// ownNamesTimeout bounds how long that takes.
	ownNamesInterval = 10 * time.Second
	ownNamesTimeout  = 2 * time.Second
)

// OwnHosts are the hosts of this service: of its public URL, and of every live node.
func (s *Service) OwnHosts() []string {
	hosts := s.memberHosts()
	if u, err := url.Parse(s.cfg.PublicURL); err == nil && u.Hostname() != "" {
		hosts = append(hosts, u.Hostname())
	}
	return hosts
}

// memberHosts are the hosts that the live nodes advertise, names and addresses.
func (s *Service) memberHosts() (hosts []string) {
	members := s.cfg.Members()
	for i := range members {
		for _, at := range []string{members[i].HTTPAddr, members[i].ClusterAddr, members[i].GossipAddr} {
			if host, _, err := net.SplitHostPort(at); err == nil && !slices.Contains(hosts, host) {
				hosts = append(hosts, host)
			}
		}
	}
	return hosts
}

// ownAddress reports an address of this machine or of a node of the cluster. That of
// the public URL is none: a provider may have others' hosts there, too.
func (s *Service) ownAddress(addr netip.Addr) bool {
	if here, err := net.InterfaceAddrs(); err == nil {
		for _, a := range here {
			if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Unmap() == addr {
				return true
			}
		}
	}
	named := s.ownNames.Load()
	for _, host := range s.memberHosts() {
		if a, err := netip.ParseAddr(host); err == nil && a.Unmap() == addr {
			return true
		}
		if named != nil && slices.Contains((*named)[host], addr) {
			return true
		}
	}
	return false
}

// followOwnNames keeps what ownAddress knows of names up to date: while a
// connection is made there is no time to look them up.
func (s *Service) followOwnNames(ctx context.Context) {
	loop.Every(ctx, ownNamesInterval, s.lookUpOwnNames)
}

// lookUpOwnNames looks the names up that nodes advertise. One that DNS says nothing
// of leads where it led before.
func (s *Service) lookUpOwnNames(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, ownNamesTimeout)
	defer cancel()
	resolver := s.cfg.Resolver
	if resolver == nil {
		resolver = net.DefaultResolver
	}
	before := s.ownNames.Load()
	var mu sync.Mutex
	found := make(map[string][]netip.Addr)
	var lookups sync.WaitGroup
	for _, host := range s.memberHosts() {
		if _, err := netip.ParseAddr(host); err == nil {
			continue
		}
		lookups.Go(func() {
			addrs, err := resolver.LookupNetIP(ctx, "ip", host)
			for i := range addrs {
				addrs[i] = addrs[i].Unmap()
			}
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				found[host] = addrs
			} else if before != nil {
				found[host] = (*before)[host]
			}
		})
	}
	lookups.Wait()
	s.ownNames.Store(&found)
}
