package health

import (
	"fmt"
	"log/slog"
	"syscall"

	"github.com/commons-cluster/commons/fsm"
)

const (
	// minDescriptors is how many files and connections a process has to be allowed
	// for a node to run in it.
	minDescriptors = 256
	// reservedDescriptors are kept for what is not a client's connection, where
	// the limit allows it: the files of two states while a snapshot is received,
	// the log, the private port, gossip, and receivers.
	reservedDescriptors = 2*fsm.DefaultMaxOpenFiles + otherDescriptors
	// otherDescriptors are those that are not for the files of states: of a small
	// reserve a third.
	otherDescriptors = 560
)

// Descriptors says how the files and connections that the process may open are
// divided. Whatever opens one above the limit fails, also the log and the state.
type Descriptors struct {
	limit       int
	Connections int // of clients
	StateFiles  int
}

// divide divides a limit: half of a small one is for what keeps the node alive, and
// all that is not reserved of a large one is for clients.
func divide(limit uint64, maxClients int) (Descriptors, error) {
	if limit < minDescriptors {
		return Descriptors{}, fmt.Errorf("this process may open %d files and connections, a node needs %d; raise the limit with `ulimit -n`, LimitNOFILE of systemd, or nofile of the container engine",
			limit, minDescriptors)
	}
	total := int(min(limit, uint64(maxClients+reservedDescriptors))) // more is of no use
	reserved := min(total/2, reservedDescriptors)
	others := min(reserved/3, otherDescriptors)
	return Descriptors{total, total - reserved, min((reserved-others)/2, fsm.DefaultMaxOpenFiles)}, nil
}

// CountDescriptors divides the limit of this process; maxClients is how many connections
// of clients are of use. Go has raised it to the hard one
// when the process began.
func CountDescriptors(maxClients int, logger *slog.Logger) (Descriptors, error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return Descriptors{}, fmt.Errorf("reading the limit of open files: %w", err)
	}
	d, err := divide(limit.Cur, maxClients)
	if err != nil {
		return d, err
	}
	logger.Info("open files and connections", "limit", limit.Cur, "clients", d.Connections, "state", d.StateFiles, "others", d.limit-d.Connections-d.StateFiles)
	return d, nil
}
