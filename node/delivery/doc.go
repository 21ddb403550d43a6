// Package delivery sends queued deliveries to agents' receivers, and verifies
// receivers.
//
// It receives the state, functions that replicate a command, the data key, and a check
// of addresses. It starts attempts while this node leads; the node finishes those that
// it started, also when another node leads by then. It sends nothing before the log
// records the start of the attempt, and it never dials an address of the service
// itself. Package push does the sending.
package delivery
