package cluster

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/memberlist"
	"golang.org/x/sync/errgroup"
)

const (
	hintPace        = 5 // rejoin intervals between attempts at known addresses
	maxJoinTargets  = 256
	joinConcurrency = 8
)

// strangerRounds is the number of rejoin intervals after the last contact for which a
// stranger is remembered. Each interval contacts every join address without a member.
const strangerRounds = 5

type stranger struct {
	Member
	at time.Time
}

// Stranger returns a member of another cluster that has one of the join addresses and
// was seen recently.
func (g *Gossip) Stranger() (Member, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.stranger
	return s.Member, g.listed[s.GossipAddr] && time.Since(s.at) < strangerRounds*g.cfg.RejoinInterval
}

// noteStranger keeps the newest member of another cluster that has a join address.
func (g *Gossip) noteStranger(meta Meta, addr string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.listed[addr] {
		g.stranger = stranger{Member{Meta: meta, GossipAddr: addr}, time.Now()}
	}
}

// joinLoop contacts possible members until gossip closes, and follows the advertised name.
func (g *Gossip) joinLoop() {
	for {
		if list := g.list.Load(); list != nil {
			g.joinAll(list, g.missingTargets())
		}
		select {
		case <-g.stop.Done():
			return
		case <-time.After(g.cfg.RejoinInterval):
		}
		if err := g.renew(); err != nil {
			g.logger.Error("gossip does not start at its new address, trying on", "address", g.own, "error", err)
		}
	}
}

// missingTargets returns the due addresses that belong to no live member.
func (g *Gossip) missingTargets() []string {
	targets, own := make(map[string]bool), g.address()
	add := func(addr netip.AddrPort) {
		reachable := !g.cfg.Secrets.LoopbackOnly() || addr.Addr().IsLoopback()
		if addr != own && reachable && len(targets) < maxJoinTargets {
			targets[addr.String()] = true
		}
	}
	for _, name := range g.cfg.Join {
		for _, addr := range g.lookupJoin(name) {
			add(addr)
		}
	}
	listed := maps.Clone(targets)
	if g.cfg.Known != nil {
		for _, text := range g.cfg.Known() {
			if addr, err := netip.ParseAddrPort(text); err == nil {
				add(addr)
			}
		}
	}
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.listed = listed
	for _, m := range g.members {
		delete(targets, m.GossipAddr)
	}
	for addr, until := range g.settled {
		if now.Before(until) {
			delete(targets, addr)
		} else {
			delete(g.settled, addr)
		}
	}
	for addr := range targets {
		if !listed[addr] {
			g.settled[addr] = now.Add(hintPace * g.cfg.RejoinInterval)
		}
	}
	return slices.Collect(maps.Keys(targets))
}

func (g *Gossip) lookupJoin(name string) []netip.AddrPort {
	host, port, err := splitAddr(name)
	if err != nil {
		return nil // package config has checked it
	}
	if port == 0 {
		port = DefaultGossipPort
	}
	ips, err := g.lookup(host)
	if err != nil {
		g.logJoinFailure(name, err)
		return nil
	}
	addrs := make([]netip.AddrPort, len(ips))
	for i, ip := range ips {
		addrs[i] = netip.AddrPortFrom(ip, port)
	}
	return addrs
}

func (g *Gossip) joinAll(list *memberlist.Memberlist, addrs []string) {
	var group errgroup.Group
	group.SetLimit(joinConcurrency)
	for _, addr := range addrs {
		group.Go(func() error {
			if g.stop.Err() != nil {
				return nil
			}
			if _, err := list.Join([]string{addr}); err != nil {
				g.logJoinFailure(addr, err)
				return nil
			}
			g.mu.Lock()
			defer g.mu.Unlock()
			g.settled[addr] = time.Now().Add(g.cfg.SettledInterval)
			return nil
		})
	}
	_ = group.Wait() // each failure is logged
}

func (g *Gossip) logJoinFailure(addr string, err error) {
	if g.stop.Err() != nil {
		return
	}
	if suppressed, ok := g.lines.Allow("join " + addr); ok {
		if strings.Contains(err.Error(), otherKey) {
			g.logger.Warn("a join address has another cluster secret; give this node the same with --secret-file, or take the address out of --join",
				"address", addr, "error", err, "suppressed", suppressed)
			return
		}
		g.logger.Info("no gossip with a join address yet, trying on", "address", addr, "error", err, "suppressed", suppressed)
	}
}
