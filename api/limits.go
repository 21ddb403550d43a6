package api

import "time"

// The limits of requests and connections. The limits of entries are in fsm.
const (
	// maxHeaderBytes bounds the request line and the headers together: a body of
	// maxQueryBody code points, percent-encoded in a URL, must fit.
	maxHeaderBytes = 32 << 10
	// maxQueryBody is the longest entry body, in code points, that a GET may write.
	maxQueryBody = 1500
	// maxScannedItems is how many items of a list are searched for credentials.
	maxScannedItems = 64
	// MaxConnections is the most connections that are served at once.
	MaxConnections = 16384
	// maxForwarded is how many hops of an X-Forwarded-For are looked at.
	maxForwarded = 32
)

// The times of a connection and of a request.
const (
	// readTimeout is how long a client may take to send one request.
	readTimeout = 10 * time.Second
	// idleTimeout is how long a connection may wait for its next request.
	idleTimeout = 75 * time.Second
	// waitTimeout is how long a read waits for an index or for the leader.
	waitTimeout = 5 * time.Second
	// joinTimeout is how long a call waits at a node that is about to join a cluster.
	joinTimeout = 10 * time.Second
	// verifyTimeout is how long a registration waits for the check of a receiver: a
	// leader that goes away while it asks has a successor that asks again.
	verifyTimeout = 12 * time.Second
	// proposeTimeout ends a write whose backend does not answer. The backend's
	// own limit is shorter and knows the outcome better.
	proposeTimeout = 15 * time.Second
	// staleAfter is the silence of the leader from which answers say that they
	// may be stale.
	staleAfter = time.Second
	// minAcceptPause and maxAcceptPause bound the pause after a connection could
	// not be taken, as when the process may open no more; acceptLogEvery is how
	// often that is logged.
	minAcceptPause = 5 * time.Millisecond
	maxAcceptPause = time.Second
	acceptLogEvery = 10 * time.Second
)
