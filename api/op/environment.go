package op

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/commons-cluster/commons/api/guard"
	"github.com/commons-cluster/commons/api/textcache"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/text"
)

// Config configures the operations of a server.
type Config struct {
	// Backend answers for the node. Required.
	Backend Backend
	// Patience is how long calls wait for a leader and for an index. Zero means WaitTimeout.
	Patience time.Duration
	// NoAddressProof means that an address proves no name.
	NoAddressProof bool
	// Logger receives errors and a sample of the requests. Nil discards.
	Logger *slog.Logger
	// Limits limit the resources of each client address. Connections may be lower because of
	// the limit of open files; zero means MaxConnections.
	Limits guard.Limits
	// HouseAgents are the names of the operator's own agents.
	HouseAgents []string
	// WriteRate (per minute) and WriteBurst are the limit of writes that RateLimit-Policy
	// shows unless the settings of the cluster limit writes. Zero means the default.
	WriteRate, WriteBurst int
	// Unlimited means that the backend limits no writes, unless the settings do.
	Unlimited bool
	// ClaimTTL is how long a claim of a job lasts. Zero means DefaultClaimTTL.
	ClaimTTL time.Duration
	// Build identifies this build. Builds with different names share no entity tags,
	// because their answers may differ. "" means a name of this process alone.
	Build string
	// Notify restricts the addresses of receivers of pushed events.
	Notify NotifyRules
	// Counter is notified of every call. Nil is allowed.
	Counter Counter
	// Now is the clock for counting calls and detecting a since in the future. Nil means time.Now.
	Now func() time.Time
}

// The defaults of a Config.
const (
	DefaultWriteRate  = 30 // per minute
	DefaultWriteBurst = 10
	DefaultClaimTTL   = 24 * time.Hour

	// keptHomeTags bounds the entity tags of homes that are kept, in bytes.
	keptHomeTags = 1 << 20
)

// Environment is the part of a server that operations use.
type Environment struct {
	Config     // with its defaults
	Guard      *guard.Guard
	rejected   *prometheus.CounterVec // calls answered with an Error object, by code
	Panics     prometheus.Counter
	House      map[string]bool       // the operator's own agents, by folded name
	operations map[string]*Operation // by id
	News       news
	// HomeTags are the entity tags of homes, so that a call without news renders no home.
	HomeTags  *textcache.Cache
	ItemBytes atomic.Int64 // mean size of an item of the last list

	// Waits ends when the server stops, and ends all waiting calls.
	// Writes ends when the time for a graceful stop is over.
	Waits, Writes context.Context
}

// NewEnvironment returns the environment of a server. It registers the metrics of the
// operations and of the guard. The caller sets Waits and Writes.
func NewEnvironment(cfg *Config, registry prometheus.Registerer, table []Operation) (*Environment, error) {
	e := &Environment{
		Config: *cfg,
		Guard:  guard.New(cfg.Limits),
		rejected: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "commons_http_rejected_total",
			Help: "Calls of every surface that were answered with an Error object, by its code.",
		}, []string{"code"}),
		Panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "commons_http_panics_total",
			Help: "Requests whose handler panicked.",
		}),
		House:      make(map[string]bool, len(cfg.HouseAgents)),
		HomeTags:   textcache.New(keptHomeTags),
		operations: make(map[string]*Operation),
	}
	e.WriteRate = cmp.Or(cfg.WriteRate, DefaultWriteRate)
	e.WriteBurst = cmp.Or(cfg.WriteBurst, DefaultWriteBurst)
	e.Patience = cmp.Or(cfg.Patience, WaitTimeout)
	e.ClaimTTL = cmp.Or(cfg.ClaimTTL, DefaultClaimTTL)
	e.Build = cmp.Or(cfg.Build, rand.Text())
	e.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	if e.Now == nil {
		e.Now = time.Now
	}
	for _, name := range cfg.HouseAgents {
		e.House[text.Fold(text.AgentName(name))] = true
	}
	for i := range table {
		e.operations[table[i].ID] = &table[i]
	}
	e.News.watch = e.Backend.WatchEvents
	for _, code := range wire.Codes() {
		e.rejected.WithLabelValues(string(code)) // present from the start, at 0
	}
	for _, collector := range []prometheus.Collector{e.rejected, e.Panics, e.Guard} {
		if err := registry.Register(collector); err != nil {
			return nil, fmt.Errorf("register the metrics of operations: %w", err)
		}
	}
	return e, nil
}
