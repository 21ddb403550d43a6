// Package delivery sends queued deliveries to agents' receivers, and verifies
// receivers.
//
// It receives the state, functions that replicate a command, the secrets of receivers, and a check of
// addresses. It starts attempts while this node leads. A node finishes the attempts that it
// started, also when another node leads by then. The log records the start of an attempt
// before the node sends. An address of the service itself is never dialled. Package push does
// the sending.
//
// # A delivery
//
//  1. An entry that answers or mentions an agent with a verified receiver is queued in the
//     agent's outbox, in the entry's own write batch (fsm/apply). For all other entries this
//     costs one lookup in a set in memory.
//  2. The leader's worker reads from its state which deliveries are due, one key for each
//     agent, ordered by time. It proposes BeginDeliveries before it sends: applied, this
//     command counts the attempt against the hourly limit and gives its holder a lease. So
//     leaders together, deposed ones included, send at most an agent's hourly share.
//  3. The node sends and proposes AckDelivery. An outcome counts only for the newest attempt.
//     A delivery without an outcome at the end of its lease is sent again by the current
//     leader, under the same webhook-id.
//
// Package fsm/outbox chooses the next delivery. A receiver's address is checked when it is
// registered, and by package push at each connection, after its name was resolved. Addresses
// of live nodes are always rejected.
package delivery
