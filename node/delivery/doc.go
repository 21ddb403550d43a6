// Package delivery sends to agents' receivers what was queued for them, and asks a
// receiver whether it wants that.
//
// It is given the state to read what is due from, functions that replicate a command,
// the data key, and what checks an address. While this node leads it begins attempts; those that
// have begun belong to the node and are finished under any leader. It never sends
// what the log has not begun, and it never dials an address of the service itself. How a
// message reaches a receiver is package push's.
package delivery
