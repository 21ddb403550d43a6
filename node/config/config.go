// Package config is the configuration of one node: its flags, their checks, and values that
// follow from them. It opens only the files that the flags name.
package config

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"reflect"
	"time"

	"github.com/commons-cluster/commons/api/guard"
	"github.com/commons-cluster/commons/cluster"
	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/node/membership"
	"github.com/commons-cluster/commons/node/offsite"
	"github.com/commons-cluster/commons/node/propose"
)

// Bounds of the configuration.
const (
	maxBootstrapExpect = 9 // voters; more only slow every write down
	minRaftTiming      = 10 * time.Millisecond
	maxRaftTiming      = time.Minute
	maxClockOffset     = 365 * 24 * time.Hour
	maxShutdownDelay   = time.Minute

	minHangTimeout = time.Second
	maxHangTimeout = time.Hour

	maxRequestLog = 100_000 // lines a second

	maxBound = 1 << 20 // the largest bound on the resources that strangers may use

	minDeadServerThreshold = time.Second
	maxDeadServerThreshold = 30 * 24 * time.Hour
)

// Config is the configuration of one node. Every field is a flag of `commons serve` and an
// environment variable, named by its tags. The help of a field without a default describes
// its zero value.
type Config struct {
	NodeID  string `name:"node-id" env:"COMMONS_NODE_ID" placeholder:"NAME" help:"Name of this node (default: the host name). Its server id adds a random suffix that is kept in the data directory."`
	DataDir string `name:"data-dir" env:"COMMONS_DATA_DIR" default:"./data" placeholder:"DIR" help:"Everything the node keeps. Locked against a second process."`

	HTTPAddr    string `name:"http-addr" env:"COMMONS_HTTP_ADDR" default:"127.0.0.1:8080" placeholder:"HOST:PORT" help:"Where the public HTTP service listens."`
	ClusterAddr string `name:"cluster-addr" env:"COMMONS_CLUSTER_ADDR" default:"127.0.0.1:7000" placeholder:"HOST:PORT" help:"Where the private port between nodes listens (TCP)."`
	GossipAddr  string `name:"gossip-addr" env:"COMMONS_GOSSIP_ADDR" default:"127.0.0.1:7946" placeholder:"HOST:PORT" help:"Where gossip listens (TCP and UDP)."`

	TLSCert      string `name:"tls-cert" env:"COMMONS_TLS_CERT" placeholder:"FILE" help:"Certificate of HTTPS with its chain (PEM), read again when it changes. HTTPS is off without it."`
	TLSKey       string `name:"tls-key" env:"COMMONS_TLS_KEY" placeholder:"FILE" help:"Private key of the certificate (PEM)."`
	HTTPSAddr    string `name:"https-addr" env:"COMMONS_HTTPS_ADDR" default:"127.0.0.1:8443" placeholder:"HOST:PORT" help:"Where the public service listens over TLS, with --tls-cert. --http-addr stays beside it, for balancers and probes."`
	HTTPRedirect bool   `name:"http-redirect" env:"COMMONS_HTTP_REDIRECT" help:"Send requests over plain HTTP to --public-url, which must be https://, except those for health and /metrics."`

	HTTPAdvertise    string `name:"http-advertise" env:"COMMONS_HTTP_ADVERTISE" placeholder:"HOST:PORT" help:"Public address that others get (default: the bound address)."`
	ClusterAdvertise string `name:"cluster-advertise" env:"COMMONS_CLUSTER_ADVERTISE" placeholder:"HOST:PORT" help:"Private address that the other nodes dial (default: the bound address)."`
	GossipAdvertise  string `name:"gossip-advertise" env:"COMMONS_GOSSIP_ADVERTISE" placeholder:"HOST:PORT" help:"Gossip address that the other nodes dial (default: the bound address)."`

	BootstrapExpect int      `name:"bootstrap-expect" env:"COMMONS_BOOTSTRAP_EXPECT" default:"1" placeholder:"N" help:"Number of voters that form the first configuration. With --join, 1 never forms one."`
	Join            []string `name:"join" env:"COMMONS_JOIN" sep:"," placeholder:"HOST:PORT" help:"Gossip addresses of other nodes. The node's own may be among them; a name with several addresses counts as all of them."`
	SecretFile      string   `name:"secret-file" env:"COMMONS_SECRET_FILE" placeholder:"FILE" help:"The cluster secret: one line of at least 32 bytes, or two while it is being changed. Without it the private ports bind to loopback only."`

	NonVoter            bool          `name:"non-voter" env:"COMMONS_NON_VOTER" help:"Never vote: a read replica, which takes every call and does not count for a majority. Needs --join."`
	DeadServerThreshold time.Duration `name:"dead-server-threshold" env:"COMMONS_DEAD_SERVER_THRESHOLD" default:"10m" placeholder:"DURATION" help:"How long a server is dead before the leader removes it, as long as three voters and a quorum stay; 0 keeps it."`

	AnswerBehind bool `name:"answer-behind" env:"COMMONS_ANSWER_BEHIND" help:"Answer as soon as the node has started, before it has heard from a leader: where a majority is lost. It may show what was purged while it was away."`

	DiskReserve string `name:"disk-reserve" env:"COMMONS_DISK_RESERVE" default:"256MiB" placeholder:"SIZE" help:"Free space, such as 512MiB or 5%, below which a node does not lead; when too few voters have more, writes are rejected. 0 turns this off."`

	WriteRate   int      `name:"write-rate" env:"COMMONS_WRITE_RATE" default:"30" placeholder:"N" help:"Writes a minute per sender and per agent; 0 turns the limit off."`
	WriteBurst  int      `name:"write-burst" env:"COMMONS_WRITE_BURST" default:"10" placeholder:"N" help:"Writes that may come at once per sender and per agent; 0 turns the limit off."`
	HouseAgents []string `name:"house-agents" env:"COMMONS_HOUSE_AGENTS" sep:"," placeholder:"NAME" help:"Names of the operator's own agents, which the operator has registered."`

	PublicURL string `name:"public-url" env:"COMMONS_PUBLIC_URL" placeholder:"URL" help:"Base of the addresses that agents are shown, such as https://commons.example (default: what each request was sent to; pushed events then hold only paths)."`

	OperatorName    string `name:"operator-name" env:"COMMONS_OPERATOR_NAME" placeholder:"NAME" help:"Who runs this place, a person or an organisation, as everybody is shown it."`
	OperatorContact string `name:"operator-contact" env:"COMMONS_OPERATOR_CONTACT" placeholder:"CONTACT" help:"Where everybody can write to whoever runs this place: a mail address, or an https:// address."`
	TermsURL        string `name:"terms-url" env:"COMMONS_TERMS_URL" placeholder:"URL" help:"Address of the terms of use, https://."`

	PushPort     int      `name:"push-port" env:"COMMONS_PUSH_PORT" default:"0" placeholder:"PORT" help:"Port that a notify_url may name beside 443, for tests. Rejected unless all the node's addresses are loopback."`
	PushCAFile   string   `name:"push-ca-file" env:"COMMONS_PUSH_CA_FILE" placeholder:"FILE" help:"Authorities of receivers' certificates (PEM) in place of the system's, for tests. Rejected as --push-port is."`
	PushAllowNet []string `name:"push-allow-net" env:"COMMONS_PUSH_ALLOW_NET" sep:"," placeholder:"NET" help:"Networks that receivers may be in although they are not public, for tests. Rejected as --push-port is."`

	Heartbeat   time.Duration `name:"heartbeat" env:"COMMONS_HEARTBEAT" default:"500ms" placeholder:"DURATION" help:"Time without a heartbeat after which a follower starts an election, and after which an election without a winner is repeated. A leader without a quorum steps down after four fifths of it."`
	HangTimeout time.Duration `name:"hang-timeout" env:"COMMONS_HANG_TIMEOUT" default:"5s" placeholder:"DURATION" help:"Time after which a write that does not come back from the disk ends the node, so that another can lead."`
	ClockOffset time.Duration `name:"clock-offset" env:"COMMONS_CLOCK_OFFSET" default:"0s" placeholder:"DURATION" help:"Shifts the node's clock, for tests. Rejected unless all its addresses are loopback."`

	ShutdownDelay time.Duration `name:"shutdown-delay" env:"COMMONS_SHUTDOWN_DELAY" default:"0s" placeholder:"DURATION" help:"How long a node that is asked to end serves on while /readyz says that it ends, for load balancers to notice."`

	TrustedProxies []string `name:"trusted-proxies" env:"COMMONS_TRUSTED_PROXIES" sep:"," placeholder:"NET" help:"Networks whose X-Forwarded-For is believed, such as 10.0.0.0/8."`
	AddressProof   string   `name:"address-proof" env:"COMMONS_ADDRESS_PROOF" default:"on" placeholder:"WHEN" help:"Whether the address that registered a name proves it, beside its edit_key: on, or off behind a balancer that passes no addresses."`
	Robots         string   `name:"robots" env:"COMMONS_ROBOTS" default:"allow" placeholder:"RULE" help:"What crawlers may read, as /robots.txt says: allow (all pages but searches), deny, or a file with a robots.txt of your own."`
	MetricsFrom    []string `name:"metrics-from" env:"COMMONS_METRICS_FROM" sep:"," placeholder:"NET" help:"Networks whose clients see /metrics (default: loopback, private and link-local ones)."`

	AddressRejections int `name:"address-rejections" env:"COMMONS_ADDRESS_REJECTIONS" default:"20" placeholder:"N" help:"Wrong calls and repeated writes a second that one address may send, a minute's worth at once; above it its writes get 429. 0 turns the limit off."`
	AddressReadWork   int `name:"address-read-work" env:"COMMONS_ADDRESS_READ_WORK" default:"500000" placeholder:"N" help:"Steps a second that searches may take for one address (a word or postings looked at), half a minute's worth at once; 0 turns the limit off."`

	RequestLog int `name:"request-log" env:"COMMONS_REQUEST_LOG" default:"1" placeholder:"N" help:"Requests logged a second at most, and as many failures; each line says how many were left out. 0 logs none."`

	offsite.Access `embed:""` // of the stores of backups

	LogLevel  string `name:"log-level" env:"COMMONS_LOG_LEVEL" default:"info" placeholder:"LEVEL" help:"debug, info, warn or error."`
	LogFormat string `name:"log-format" env:"COMMONS_LOG_FORMAT" default:"auto" placeholder:"FORMAT" help:"text, json, or auto: text on a terminal, else json."`

	Version    string        `kong:"-"` // of the program, shown to operators and other nodes
	Build      string        `kong:"-"` // distinguishes builds, also of one version; see api.Config
	LogDropped func() uint64 `kong:"-"` // returns the number of log lines that were dropped; nil if they are not counted
	Tuning     Tuning        `kong:"-"` // sizes and intervals that only tests change
}

// GuardLimits returns the bounds on the resources that strangers may use, for a node with this
// number of connections for clients.
func (c Config) GuardLimits(connections int) guard.Limits {
	return guard.Limits{
		Connections: max(1, connections-guard.Beyond),
		Rejections:  cmp.Or(c.AddressRejections, guard.Unbounded), ReadWork: cmp.Or(c.AddressReadWork, guard.Unbounded),
	}
}

// NoAddressProof reports whether an address proves no name.
func (c Config) NoAddressProof() bool { return c.AddressProof == addressProofOff }

// Unanswered reports whether other machines can reach the public service of the node, but
// no operator is named who is responsible for it.
func (c Config) Unanswered() bool {
	public := !isLoopback(c.HTTPAddr) || c.TLSCert != "" && !isLoopback(c.HTTPSAddr) ||
		c.PublicURL != "" // as behind a balancer on the same machine
	return public && (c.OperatorName == "" || c.OperatorContact == "")
}

// Networks returns the networks of a flag; a single address is a network of one. Entries
// that cannot be parsed are left out: Validate reports them.
func Networks(list []string) []netip.Prefix {
	var nets []netip.Prefix
	for _, s := range list {
		if p, err := parseNetwork(s); err == nil {
			nets = append(nets, p)
		}
	}
	return nets
}

func parseNetwork(s string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(s); err == nil {
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	return p.Masked(), err
}

// Defaults of Tuning.
const (
	defaultSnapshotBytes     = 64 << 20
	defaultTrailingBytes     = 32 << 20
	defaultReconcileInterval = time.Second
	defaultStableFor         = 3 * time.Second
	defaultGoneFor           = 10 * time.Second
	defaultProbeInterval     = time.Second
	defaultPurgeGather       = time.Minute
	defaultUsageInterval     = 5 * time.Second
)

// Tuning holds sizes and intervals that are constants of the product and that
// only tests change. The zero value of a field is its default.
type Tuning struct {
	SnapshotBytes int64 // of log since the last snapshot start the next one
	TrailingBytes int64 // of log stay behind a snapshot, for followers that lag a little
	JournalBytes  int64 // of a file of the log's journal at first; zero means the default of logstore
	membership.Timing
	ProbeInterval time.Duration // the time between gossip's probes of a member
	// PurgeGather is the time for which purges are collected before they are erased, and before
	// their list is uploaded to the store of backups again.
	PurgeGather   time.Duration
	ClaimTTL      time.Duration // how long a claim of a job lasts. Zero means the default of api
	UsageInterval time.Duration // the time between two folds of the counts of calls into the log
	Resolver      *net.Resolver // of the names of receivers; nil means the system's
	// PushTimeout bounds one exchange with a receiver. Zero means the default of push.
	PushTimeout time.Duration
	// AroundWrite runs each transaction of the log, and each write of the state, which it must
	// make. Its error is that of the transaction. Nil means a plain call.
	AroundWrite func(what string, do func() error) error
	// Patience is how long writes and strong reads wait for a leader, if that is longer than
	// the default.
	Patience time.Duration
	// SlowWrite is the duration of a write of the log that is late, for a node that is slow
	// by its disk alone. Zero means that late timers make a node slow, too.
	SlowWrite time.Duration
	Rest      func(time.Duration)                   // replaces the sleep of background work; nil means time.Sleep
	Clock     propose.Clock                         // nil means the system's, shifted by ClockOffset
	DiskSpace func() (free, size uint64, err error) // of the disk, in bytes; nil asks the system
	Format    int                                   // the newest format that the node supports
	Network   cluster.Network                       // replaces the system's
	StateFS   fsm.FS                                // the file system of the state; nil means the system's
}

// WithDefaults returns t with every zero field set.
func (t Tuning) WithDefaults() Tuning {
	t.SnapshotBytes = cmp.Or(t.SnapshotBytes, defaultSnapshotBytes)
	t.TrailingBytes = cmp.Or(t.TrailingBytes, defaultTrailingBytes)
	t.ReconcileInterval = cmp.Or(t.ReconcileInterval, defaultReconcileInterval)
	t.StableFor = cmp.Or(t.StableFor, defaultStableFor)
	t.GoneFor = cmp.Or(t.GoneFor, defaultGoneFor)
	t.ProbeInterval = cmp.Or(t.ProbeInterval, defaultProbeInterval)
	t.PurgeGather = cmp.Or(t.PurgeGather, defaultPurgeGather)
	t.Format = cmp.Or(t.Format, command.MaxFormat)
	t.UsageInterval = cmp.Or(t.UsageInterval, defaultUsageInterval)
	return t
}

// LeaderLease returns how long a leader continues without a quorum. Followers wait for the
// heartbeat at least. If a leader gave up much sooner, the cluster would have no leader
// whenever a busy machine is late.
func (c *Config) LeaderLease() time.Duration {
	const share, of = 4, 5
	return c.Heartbeat * share / of
}

// Clock returns the node's own clock.
func (c Config) Clock() propose.Clock {
	if c.Tuning.Clock != nil {
		return c.Tuning.Clock
	}
	return propose.WallClock(c.ClockOffset)
}

// Free returns the function that reports the free bytes of the disk. Nil asks the system.
func (t Tuning) Free() func() uint64 {
	if t.DiskSpace == nil {
		return nil
	}
	return func() uint64 {
		free, _, err := t.DiskSpace()
		if err != nil {
			return 0
		}
		return free
	}
}

// Flags returns the value of each flag by its name. They contain no secrets, only the names
// of files with secrets.
func (c Config) Flags() map[string]string {
	flags := map[string]string{}
	values := reflect.ValueOf(c)
	for _, field := range reflect.VisibleFields(values.Type()) {
		if name := field.Tag.Get("name"); name != "" {
			flags[name] = fmt.Sprint(values.FieldByIndex(field.Index))
		}
	}
	return flags
}
