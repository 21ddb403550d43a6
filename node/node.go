package node

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/commons-cluster/commons/api"
	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/cluster"
	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/outbox"
	"github.com/commons-cluster/commons/node/admin"
	"github.com/commons-cluster/commons/node/adminserver"
	"github.com/commons-cluster/commons/node/certificate"
	"github.com/commons-cluster/commons/node/config"
	"github.com/commons-cluster/commons/node/consensus"
	"github.com/commons-cluster/commons/node/datakey"
	"github.com/commons-cluster/commons/node/delivery"
	"github.com/commons-cluster/commons/node/health"
	"github.com/commons-cluster/commons/node/limit"
	"github.com/commons-cluster/commons/node/logstore"
	"github.com/commons-cluster/commons/node/membership"
	"github.com/commons-cluster/commons/node/memory"
	"github.com/commons-cluster/commons/node/offline"
	"github.com/commons-cluster/commons/node/offsite"
	"github.com/commons-cluster/commons/node/pace"
	"github.com/commons-cluster/commons/node/propose"
	"github.com/commons-cluster/commons/node/purge"
	"github.com/commons-cluster/commons/node/push"
	"github.com/commons-cluster/commons/node/usage"
)

// Node is one running node. Methods are safe for concurrent use.
type Node struct {
	cfg         config.Config
	logger      *slog.Logger
	logs        adminserver.Logs // behind logger
	started     time.Time
	process     string // random id of this process
	descriptors health.Descriptors

	identity cluster.Identity
	secrets  *cluster.Secrets
	book     *cluster.Book
	machine  *fsm.Machine
	log      *logstore.Store
	dataKey  *datakey.Keeper
	streams  *consensus.Snapshots
	port     *cluster.Port
	pipeline *propose.Pipeline
	usage    *usage.Counter

	httpListener  net.Listener
	httpsListener net.Listener        // nil without a certificate
	certificate   *certificate.Keeper // nil without HTTPS
	httpAdvertise string
	server        *api.Server
	serving       atomic.Pointer[api.Server] // server, for what may need it before it is there

	gossip    *cluster.Gossip
	gossiping atomic.Pointer[cluster.Gossip] // gossip, for what may need it before it is there
	hadState  bool                           // there was Raft state when the node started
	raft      *consensus.Raft
	members   *membership.Membership
	health    *health.Health
	pacer     pace.Pacer
	delivery  *delivery.Service
	admin     *adminserver.Server
	purge     *purge.Worker
	backups   *offsite.Schedule
	verifier  *offsite.Verifier
	registry  *prometheus.Registry

	caughtUp chan struct{} // closed once the node has what was acknowledged before its start
	stopping atomic.Bool   // the node ends, or has ended

	workCtx context.Context
	endWork context.CancelFunc
	workers sync.WaitGroup

	undo    []func(ending) error // the undoing of each step of the start, oldest first
	begun   chan struct{}        // closed when Start returns
	failure atomic.Pointer[error]
	done    chan struct{}
	err     error // why the node ended; read after done is closed
}

// Start validates the configuration and starts a node. It returns once the node listens on
// all its addresses; /readyz reports whether it is ready to serve. After an error, such as a
// *config.Error, everything is stopped again. ctx bounds the start only.
func Start(ctx context.Context, cfg config.Config, logger *slog.Logger) (*Node, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.Tuning = cfg.Tuning.WithDefaults()
	n := &Node{cfg: cfg, started: time.Now(), process: rand.Text(), begun: make(chan struct{}), done: make(chan struct{}), caughtUp: make(chan struct{})}
	if err := n.logs.Level.UnmarshalText([]byte(cfg.LogLevel)); err != nil {
		return nil, err
	}
	n.logger = slog.New(n.logs.Handler(logger.Handler()))
	n.pacer.Sleep = cfg.Tuning.Rest
	defer close(n.begun)
	n.workCtx, n.endWork = context.WithCancel(context.Background())
	for _, step := range []func() error{
		n.openDir, n.openState, n.openLog, n.openPort, n.openDelivery, n.openHTTP,
		n.openGossip, n.openRaft, n.openParts, n.openPrivate, n.startWorkers, n.serveHTTP,
	} {
		err := ctx.Err()
		if err == nil {
			err = step()
		}
		if err != nil {
			n.endWork()
			n.endOnce(func() { n.finish(ending{}, err) })
			return nil, n.err
		}
	}
	return n, nil
}

// onEnd adds a function that undoes a step of the start.
func (n *Node) onEnd(undo func(ending) error) { n.undo = append(n.undo, undo) }

func (n *Node) openDir() (err error) {
	if n.descriptors, err = health.CountDescriptors(api.MaxConnections, n.logger); err != nil {
		return err
	}
	lock, err := cluster.LockDir(n.cfg.DataDir)
	if err != nil {
		return err
	}
	n.onEnd(func(ending) error { return lock.Release() })
	if err := errors.Join(offline.CheckNotLeft(n.cfg.DataDir), offline.CheckFinished(n.cfg.DataDir)); err != nil {
		return err
	}
	if n.identity, err = cluster.LoadIdentity(n.cfg.DataDir, n.cfg.NodeID); err != nil {
		return err
	}
	n.logger = n.logger.With("node", n.identity.ServerID)
	offline.CloseToOthers(n.cfg.DataDir, n.logger)
	if n.secrets, err = cluster.LoadSecrets(n.cfg.SecretFile); err != nil {
		return err
	}
	if n.cfg.TLSCert != "" {
		if n.certificate, err = certificate.Load(n.cfg.TLSCert, n.cfg.TLSKey, n.logger, time.Now); err != nil {
			return fmt.Errorf("load --tls-cert: %w", err)
		}
	}
	n.health = health.New(health.Config{
		Started: n.started, Version: n.cfg.Version, ServerID: n.identity.ServerID, DataDir: n.cfg.DataDir, Logger: n.logger, Abandon: n.abandon,
		Heartbeat: n.cfg.Heartbeat, HangTimeout: n.cfg.HangTimeout, Reserve: n.cfg.DiskReserve, HouseAgents: n.cfg.HouseAgents,
		Unanswered: n.cfg.Unanswered(), Certificate: n.certificate, SlowWrite: n.cfg.Tuning.SlowWrite,
		Around: n.cfg.Tuning.AroundWrite, DiskSpace: n.cfg.Tuning.DiskSpace, LogDropped: n.cfg.LogDropped,
	})
	n.book = cluster.OpenBook(filepath.Join(n.cfg.DataDir, offline.BookFile), n.logger)
	return nil
}

func (n *Node) openState() error {
	machine, err := fsm.Open(fsm.Options{
		Dir: filepath.Join(n.cfg.DataDir, offline.StateDir), Logger: n.logger,
		Observer: observer{n}, DeliveriesEnded: func(ended []outbox.DeliveryEnd) { n.delivery.Ended(ended) }, Fatal: n.fail, MaxFormat: n.cfg.Tuning.Format,
		MaxOpenFiles: n.descriptors.StateFiles, CacheBytes: memory.Cache(), FS: n.cfg.Tuning.StateFS, Pace: n.pacer.Begin,
	})
	if err != nil {
		return err
	}
	n.machine = machine
	n.streams = &consensus.Snapshots{SnapshotStore: machine.Snapshots()}
	n.onEnd(func(how ending) error {
		if how.crash {
			return machine.Abandon()
		}
		return machine.Close()
	})
	return nil
}

// observer passes applied commands on to the write path, which is created after the
// state is opened. Commands are applied only once Raft runs.
type observer struct{ n *Node }

func (o observer) Applied(boot command.BootID, seq uint64, r command.Result, index uint64) {
	o.n.health.Commands.Add(1)
	o.n.pipeline.Applied(boot, seq, r, index)
}

func (n *Node) openLog() error {
	log, err := offline.OpenLog(n.cfg.DataDir, &n.identity, n.machine, logstore.Options{
		Around: n.health.Watch, Free: n.cfg.Tuning.Free(), Fatal: n.fail, JournalBytes: n.cfg.Tuning.JournalBytes,
	})
	if err != nil {
		return err
	}
	n.log = log
	n.onEnd(func(ending) error { return log.Close() })
	if err := offline.CheckLog(n.cfg.DataDir, n.machine, log); err != nil {
		return err
	}
	founded, err := consensus.FoundedBy(log)
	if err != nil {
		return err
	}
	n.dataKey = datakey.New(datakey.Config{
		Machine: n.machine, Secrets: n.secrets, Logger: n.logger, Propose: n.proposeAsLeader,
		Joined:  func(id string) { n.port.Joined(id) },
		Servers: func(ctx context.Context) []admin.Server { return n.admin.ClusterReport(ctx).Servers },
	}, founded)
	n.hadState, err = raft.HasExistingState(log, log, n.streams)
	return err
}

func (n *Node) openPort() (err error) {
	n.port, err = cluster.Listen(cluster.PortConfig{
		Addr: n.cfg.ClusterAddr, Advertise: n.cfg.ClusterAdvertise,
		ServerID: n.identity.ServerID, ClusterID: n.dataKey.ClusterID,
		Secrets: n.secrets, Resolve: n.resolve, Logger: n.logger,
		Network: n.cfg.Tuning.Network,
	})
	if err != nil {
		return err
	}
	n.onEnd(n.closePort)
	n.pipeline = propose.New(propose.Config{
		ServerID: n.identity.ServerID, Client: n.port.Client(), Logger: n.logger,
		Patience: n.cfg.Tuning.Patience,
		Clock:    n.cfg.Clock(), Assess: n.assess, Limiter: limit.New(n.writeLimit, time.Now),
	})
	n.usage = usage.New(usage.Config{
		Boot: n.pipeline.Boot(), Interval: n.cfg.Tuning.UsageInterval, Logger: n.logger, Now: n.pipeline.Clocks().Corrected,
		Rejected: func() bool { return n.health.Rejection() != nil }, Propose: n.proposeOwn,
	})
	return nil
}

// writeLimit returns the limits of writes: the replicated settings, or else the flags.
func (n *Node) writeLimit() (perMinute, burst int) {
	v := n.machine.View()
	defer v.Release()
	set, err := v.Settings()
	if err != nil { // apply finds it, too
		n.logger.Error("reading the settings failed", "error", err)
		set = command.DefaultSettings
	}
	return set.WriteLimit(n.cfg.WriteRate, n.cfg.WriteBurst)
}

// proposeOwn replicates a command of the node itself, without rate limits.
func (n *Node) proposeOwn(ctx context.Context, payload command.Payload) error {
	_, _, err := n.pipeline.Propose(ctx, command.Sender{}, payload)
	return err
}

// assess judges a command of this size for the leader.
func (n *Node) assess(payload command.Payload, bytes int) (standing command.Standing, repeated, fits bool) {
	v := n.machine.View()
	defer v.Release()
	standing, repeated, fits, err := v.Assess(payload, bytes, n.pipeline.Clocks().Corrected().UnixMilli())
	if err != nil { // apply finds it, too
		n.logger.Error("judging a command failed", "error", err)
	}
	return standing, repeated, fits || err != nil
}

// openDelivery creates the delivery service. The state has deliveries for it only once
// Raft runs.
func (n *Node) openDelivery() error {
	roots, err := n.cfg.PushRoots()
	if err != nil {
		return fmt.Errorf("authorities of receivers: %w", err)
	}
	if flags := n.cfg.PushFlags(); len(flags) > 0 {
		n.logger.Warn("FOR TESTS ONLY: what is pushed may reach addresses that are not public", "flags", flags)
	}
	n.delivery = delivery.New(delivery.Config{
		ServerID: n.identity.ServerID, Version: n.cfg.Version, PublicURL: n.cfg.PublicURL, Machine: n.machine, Client: n.port.Client(), Logger: n.logger,
		Push: push.Config{
			Check:    func(rawURL string) string { return n.notifyRules().Problem(rawURL) },
			Resolver: n.cfg.Tuning.Resolver, Timeout: n.cfg.Tuning.PushTimeout, Port: uint16(n.cfg.PushPort), Roots: roots, AllowNets: config.Networks(n.cfg.PushAllowNet),
		},
		Secret: n.dataKey.WebhookSecret, Known: n.dataKey.Known(),
		Members: n.liveMembers,
		Work:    n.workCtx, Go: n.workers.Go,
		Boot: n.pipeline.Boot(), Propose: n.proposeOwn,
		Stamp: n.pipeline.Clocks().Stamp, Now: n.pipeline.Clocks().Corrected,
		LeaderID: func() string { return n.raft.LeaderID() }, Leading: n.leading, UntilAnotherLeads: n.pipeline.UntilAnotherLeads,
	})
	return nil
}

// notifyRules say which addresses entries may be pushed to.
func (n *Node) notifyRules() op.NotifyRules {
	return op.NotifyRules{Port: uint16(n.cfg.PushPort), Local: len(n.cfg.PushAllowNet) > 0, OwnHosts: n.delivery.OwnHosts}
}

// resolve returns the address of a server's private port, from gossip or from the
// address book.
func (n *Node) resolve(serverID string) (addr string, ok bool) {
	if g := n.gossiping.Load(); g != nil {
		if m, ok := g.Member(serverID); ok {
			return m.ClusterAddr, true
		}
	}
	return n.book.Resolve(serverID)
}

// meta is this node's gossip metadata.
func (n *Node) meta(fresh, leaving bool) cluster.Meta {
	return cluster.Meta{
		ServerID: n.identity.ServerID, NodeName: n.identity.NodeName,
		ClusterAddr: n.port.AdvertiseAddr(), HTTPAddr: n.httpAdvertise, Version: n.cfg.Version, Format: n.cfg.Tuning.Format,
		ClusterID: n.dataKey.ClusterID(), Expect: n.cfg.BootstrapExpect, Fresh: fresh, NonVoter: n.cfg.NonVoter, Slow: n.health.Slow(), DiskLow: n.health.DiskLow(), Leaving: leaving,
	}
}

// liveMembers returns the members that gossip knows. It returns nil before gossip runs.
func (n *Node) liveMembers() []cluster.Member {
	if g := n.gossiping.Load(); g != nil {
		return g.Members()
	}
	return nil
}

func (n *Node) leading() bool { return n.pipeline.Stats().Leading }

// proposeAsLeader replicates a command while this node leads.
func (n *Node) proposeAsLeader(ctx context.Context, body command.Payload) error {
	_, _, err := n.pipeline.ProposeAsLeader(ctx, body)
	return err
}

func (n *Node) openHTTP() (err error) {
	listen := n.cfg.Tuning.Network.WithDefaults(net.KeepAliveConfig{}).Listen
	if n.httpListener, err = listen(n.workCtx, "tcp", n.cfg.HTTPAddr); err != nil {
		return fmt.Errorf("public HTTP: %w", err)
	}
	n.onEnd(func(ending) error {
		_ = n.httpListener.Close() // the server has closed it when it has run
		return nil
	})
	if n.certificate != nil {
		if n.httpsListener, err = listen(n.workCtx, "tcp", n.cfg.HTTPSAddr); err != nil {
			return fmt.Errorf("public HTTPS: %w", err)
		}
		n.onEnd(func(ending) error {
			_ = n.httpsListener.Close() // as above
			return nil
		})
	}
	n.httpAdvertise, err = cluster.AdvertiseAddr(n.cfg.HTTPAdvertise, n.httpListener.Addr())
	return err
}

func (n *Node) openGossip() (err error) {
	interval := n.cfg.Tuning.ProbeInterval
	n.gossip, err = cluster.StartGossip(cluster.GossipConfig{
		Bind: n.cfg.GossipAddr, Advertise: n.cfg.GossipAdvertise,
		Join: n.cfg.Join, Known: n.book.GossipAddrs, Secrets: n.secrets, Meta: n.meta(!n.hadState, false), Logger: n.logger, Network: n.cfg.Tuning.Network,
		ProbeInterval: interval, ProbeTimeout: interval / 2, RejoinInterval: 2 * interval, PushPullInterval: 5 * interval,
	})
	if err != nil {
		return err
	}
	n.gossiping.Store(n.gossip)
	n.onEnd(n.closeGossip)
	return nil
}

func (n *Node) openRaft() (err error) {
	n.raft, err = consensus.Start(consensus.Config{
		ServerID: n.identity.ServerID, Heartbeat: n.cfg.Heartbeat, Lease: n.cfg.LeaderLease(),
		TrailingBytes: n.cfg.Tuning.TrailingBytes, SnapshotBytes: n.cfg.Tuning.SnapshotBytes,
		Machine: n.machine.FSM(), RestoreOnStart: n.machine.RestoreOnStart(), Log: n.log, Snapshots: n.streams,
		Stream: n.port.StreamLayer(), Logger: n.logger, Ending: n.stopping.Load,
		Hooks: consensus.Hooks{
			Around: n.health.Watch, Stored: func(took time.Duration) { n.health.Stored(took); n.pacer.Wrote(took) }, Failed: n.health.LogFailed, Founded: n.dataKey.Join, Restored: n.restored,
			Abandon: func(err error) {
				if !errors.Is(err, consensus.ErrRejects) {
					err = fmt.Errorf("%w; make the disk of %s writable, and start the node again", err, n.cfg.DataDir)
				}
				n.abandon(err)
			},
			Covered: n.covered,
		},
	})
	if err != nil {
		return err
	}
	n.onEnd(func(ending) error { return n.raft.Stop() })
	n.pipeline.Start(n.raft, n.log, propose.FromMachine(n.machine))
	n.onEnd(func(ending) error { n.pipeline.Close(); return nil })
	return nil
}

// covered returns the index up to which the state is complete.
func (n *Node) covered() uint64 {
	index, _, err := n.machine.Covers()
	if err != nil {
		n.logger.Error("reading the position of the state failed", "error", err)
	}
	return index
}

// restored is called when a snapshot was installed, which proves that the disk is
// writable.
func (n *Node) restored() {
	n.health.LogWritable()
	v := n.machine.View()
	defer v.Release()
	n.pipeline.Recheck(v)
}

func (n *Node) openParts() (err error) {
	n.members = membership.New(membership.Config{
		ServerID: n.identity.ServerID, Expect: n.cfg.BootstrapExpect, Join: n.cfg.Join, NonVoter: n.cfg.NonVoter,
		Heartbeat: n.cfg.Heartbeat, DeadFor: n.cfg.DeadServerThreshold, Timing: n.cfg.Tuning.Timing,
		Raft: n.raft, Machine: n.machine, Gossip: n.gossip, Book: n.book, Client: n.port.Client(), Logger: n.logger,
		ClusterID: n.dataKey.ClusterID, Meta: n.meta, Leading: n.leading, Fail: n.fail, Propose: n.proposeAsLeader, CheckDisk: n.health.CheckReserve,
	})
	n.health.Connect(health.Sources{
		Raft: n.raft, Machine: n.machine, Gossip: n.gossip, Members: n.members, Pipeline: n.pipeline, HTTPAddr: n.HTTPAddr(),
		ClusterID: n.dataKey.ClusterID, Stopping: n.stopping.Load, Joined: n.dataKey.IsKnown,
	})
	n.purge = &purge.Worker{
		Machine: n.machine, Raft: n.raft, Streams: n.streams, Log: n.log, Logger: n.logger, Gather: n.cfg.Tuning.PurgeGather,
		Others: func(ctx context.Context) uint64 { return n.admin.LeastApplied(ctx) },
		Turn: func(ctx context.Context, purge uint64) bool {
			return adminserver.ErasesNext(n.admin.ClusterReport(ctx), purge)
		},
		Discard: func() error { return n.verifier.Discard() },
		Forget: func() {
			if server := n.serving.Load(); server != nil {
				server.Forget()
			}
		},
	}
	if n.registry, err = n.health.NewRegistry(append(n.delivery.Collectors(), n.purge.Collectors()...)...); err != nil {
		return err
	}
	n.admin = adminserver.New(adminserver.Config{
		ServerID: n.identity.ServerID, NodeName: n.identity.NodeName, Process: n.process, Version: n.cfg.Version, DataDir: n.cfg.DataDir,
		HTTPAddr: n.httpAdvertise, PrivateAddr: n.port.AdvertiseAddr(), Started: n.started,
		Raft: n.raft, Machine: n.machine, Gossip: n.gossip, Members: n.members, Health: n.health, Pipeline: n.pipeline,
		Secrets: n.secrets, Client: n.port.Client(), Logger: n.logger, Logs: &n.logs, Metrics: func() ([]byte, error) { return api.Exposition(n.registry) }, Flags: n.cfg.Flags(),
		Work: n.workCtx, ClusterID: n.dataKey.ClusterID, LastHeard: n.port.LastHeard, Requests: n.requests, NewEditKey: op.NewEditKey, NewRecoveryKey: op.NewRecoveryKey, Moderate: n.moderate, Purges: n.purge.Status, Store: n.cfg.Access, Shutdown: n.Shutdown,
	})
	n.backups = &offsite.Schedule{
		Access: n.cfg.Access, ClusterID: n.dataKey.ClusterID, Plan: n.backupPlan, Now: n.pipeline.Clocks().Corrected,
		Backup: n.admin.Backup, Purged: n.admin.PurgeList, Propose: n.proposeAsLeader, ListEvery: n.cfg.Tuning.PurgeGather, Pacer: &n.pacer, Logger: n.logger,
	}
	n.verifier = n.newVerifier()
	return nil
}

func (n *Node) requests() uint64 {
	if server := n.serving.Load(); server != nil {
		return server.Requests()
	}
	return 0
}

// openPrivate serves the private port. The port has verified that the caller is a node
// with the cluster's secret.
func (n *Node) openPrivate() error {
	inner := http.NewServeMux()
	n.admin.Handle(inner)
	n.delivery.Handle(inner)
	inner.Handle("/", n.pipeline.Handler())
	mux := http.NewServeMux()
	n.members.Handle(mux) // nodes that want to join call this, too
	mux.Handle("/", cluster.Members(n.dataKey.ClusterID, func(id string) bool { return consensus.Contains(n.raft.Servers(), id) }, inner))
	go func() {
		if err := n.port.Serve(mux); err != nil && !errors.Is(err, http.ErrServerClosed) {
			n.fail(fmt.Errorf("serving the private port: %w", err))
		}
	}()
	return nil
}

func (n *Node) startWorkers() error {
	for _, work := range []func(context.Context){
		n.watchLeadership, n.observeRaft, n.dataKey.Learn,
		n.members.Run, n.health.Run, n.usage.Run, n.delivery.Run, n.purge.Run, n.verifier.Run, n.catchUp,
		func(ctx context.Context) { n.raft.TakeSnapshots(ctx, n.health.Room) },
		func(ctx context.Context) { n.secrets.Watch(ctx, n.logger) },
		func(ctx context.Context) {
			if n.certificate != nil {
				n.certificate.Watch(ctx)
			}
		},
	} {
		n.workers.Go(func() { work(n.workCtx) })
	}
	n.onEnd(n.stopWorkers)
	return nil
}

func (n *Node) serveHTTP() (err error) {
	robots, err := n.cfg.RobotsText()
	if err != nil {
		return fmt.Errorf("read --robots: %w", err)
	}
	n.server, err = api.New(api.Config{
		Config: op.Config{
			Backend: &backend{n}, Logger: n.logger, Counter: n.usage, Now: n.pipeline.Clocks().Corrected,
			Limits:    n.cfg.GuardLimits(n.descriptors.Connections),
			Patience:  n.cfg.Tuning.Patience,
			Build:     n.cfg.Build,
			WriteRate: n.cfg.WriteRate, WriteBurst: n.cfg.WriteBurst, Unlimited: n.cfg.WriteRate == 0 || n.cfg.WriteBurst == 0,
			ClaimTTL: n.cfg.Tuning.ClaimTTL, HouseAgents: n.cfg.HouseAgents,
			NoAddressProof: n.cfg.NoAddressProof(), Notify: n.notifyRules(),
		},
		Operator: api.Operator{Name: n.cfg.OperatorName, Contact: n.cfg.OperatorContact, Terms: n.cfg.TermsURL},
		Robots:   robots, PublicURL: n.cfg.PublicURL, Redirect: n.cfg.HTTPRedirect,
		RequestLog: n.cfg.RequestLog, Registry: n.registry, NoteRead: n.health.NoteRead,
		TrustedProxies: config.Networks(n.cfg.TrustedProxies), MetricsFrom: config.Networks(n.cfg.MetricsFrom), NoteProxy: n.health.NoteProxy,
	})
	if err != nil {
		return err
	}
	n.serving.Store(n.server)
	n.onEnd(n.closeHTTP)
	go func() {
		if err := n.server.Serve(n.httpListener); err != nil {
			n.fail(fmt.Errorf("serving HTTP: %w", err))
		}
	}()
	https := ""
	if n.httpsListener != nil {
		https = n.HTTPSAddr()
		go func() {
			if err := n.server.ServeTLS(n.httpsListener, n.certificate.Get); err != nil {
				n.fail(fmt.Errorf("serving HTTPS: %w", err))
			}
		}()
	}
	n.logger.Info("listening", "http", n.HTTPAddr(), "https", https, "cluster", n.port.AdvertiseAddr(), "gossip", n.gossip.Addr(), "data", n.cfg.DataDir)
	return nil
}

// HTTPAddr returns the bound address of the public HTTP service.
func (n *Node) HTTPAddr() string { return n.httpListener.Addr().String() }

// HTTPSAddr returns the bound address of the public service over TLS, which must be on.
func (n *Node) HTTPSAddr() string { return n.httpsListener.Addr().String() }

// ServerID returns the node's id in the cluster.
func (n *Node) ServerID() string { return n.identity.ServerID }

// Machine returns the node's state machine.
func (n *Node) Machine() *fsm.Machine { return n.machine }

// Raft returns the node's Raft.
func (n *Node) Raft() *consensus.Raft { return n.raft }

// Members returns the node's part in the cluster.
func (n *Node) Members() *membership.Membership { return n.members }
