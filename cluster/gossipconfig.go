package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"
)

const (
	// DefaultGossipPort is meant where a join address names no port.
	DefaultGossipPort = 7946
	// MaxJoinAddrs bounds the join list.
	MaxJoinAddrs = 64

	defaultProbeInterval    = time.Second
	defaultProbeTimeout     = 500 * time.Millisecond
	defaultReclaimTime      = 5 * time.Second
	defaultPushPullInterval = 5 * time.Second
	defaultRejoinInterval   = 2 * time.Second
	defaultSettledInterval  = 30 * time.Second

	gossipInterval          = 100 * time.Millisecond
	gossipStreamTimeout     = 3 * time.Second
	gossipToTheDeadTime     = 30 * time.Second
	suspicionMult           = 3
	suspicionMaxTimeoutMult = 3
	awarenessMaxMultiplier  = 4
	updateTimeout           = 2 * time.Second
	autoPortAttempts        = 10
)

// GossipConfig says where gossip listens and whom it looks for. Durations of 0
// take their defaults; shorter ones serve tests.
type GossipConfig struct {
	// Name is this node's server id; it has to equal Meta.ServerID.
	Name string
	// Bind is the host:port for TCP and UDP; port 0 picks a free one.
	Bind string
	// Advertise is what others are to send to, completed as AdvertiseAddr
	// says. A host name is resolved once, at the start.
	Advertise string
	// Join lists host[:port] of other nodes. A name with several addresses
	// counts as all of them; this node's own address may be among them.
	Join []string
	// Known returns further addresses to look for members at, such as
	// Book.GossipAddrs; nil means none.
	Known func() []string
	// Secrets give the keys.
	Secrets *Secrets
	// Meta is what the node says about itself; see SetMeta.
	Meta Meta
	// Logger receives membership changes and rejections; nil discards them.
	Logger *slog.Logger

	ProbeInterval    time.Duration // between probes of one member; default 1 s
	ProbeTimeout     time.Duration // for an answer to a probe; default 500 ms
	ReclaimTime      time.Duration // from death until the name may have a new address; default 5 s
	PushPullInterval time.Duration // between full exchanges; default 5 s
	RejoinInterval   time.Duration // between attempts while somebody is missing; default 2 s
	SettledInterval  time.Duration // between attempts at addresses that answered; default 30 s

	// LookupHost replaces the host name lookup, for tests.
	LookupHost func(ctx context.Context, host string) ([]string, error)
}

func checkGossipConfig(cfg *GossipConfig) (encoded []byte, err error) {
	var problems []error
	if cfg.Name != cfg.Meta.ServerID {
		problems = append(problems, fmt.Errorf("name %q is not the server id %q of the metadata", cfg.Name, cfg.Meta.ServerID))
	}
	if len(cfg.Join) > MaxJoinAddrs {
		problems = append(problems, fmt.Errorf("%d join addresses, at most %d are allowed", len(cfg.Join), MaxJoinAddrs))
	}
	for _, addr := range cfg.Join {
		if host, _, err := splitAddr(addr); err != nil {
			problems = append(problems, fmt.Errorf("join %w", err))
		} else if host == "" {
			problems = append(problems, fmt.Errorf("join address %q has no host", addr))
		}
	}
	encoded, metaErr := cfg.Meta.Encode()
	problems = append(problems, metaErr)
	if cfg.Secrets == nil {
		problems = append(problems, errors.New("secrets are missing"))
	}
	if cfg.LookupHost == nil {
		cfg.LookupHost = net.DefaultResolver.LookupHost
	}
	if cfg.Secrets != nil && cfg.Secrets.LoopbackOnly() {
		problems = append(problems, checkAllLoopback(cfg.LookupHost, cfg.Bind, cfg.Advertise))
	}
	if err := errors.Join(problems...); err != nil {
		return nil, fmt.Errorf("gossip: %w", err)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	for _, d := range []struct {
		value *time.Duration
		def   time.Duration
	}{
		{&cfg.ProbeInterval, defaultProbeInterval},
		{&cfg.ProbeTimeout, defaultProbeTimeout},
		{&cfg.ReclaimTime, defaultReclaimTime},
		{&cfg.PushPullInterval, defaultPushPullInterval},
		{&cfg.RejoinInterval, defaultRejoinInterval},
		{&cfg.SettledInterval, defaultSettledInterval},
	} {
		if *d.value <= 0 {
			*d.value = d.def
		}
	}
	return encoded, nil
}
