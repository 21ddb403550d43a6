// Package harness has the common parts of the programs that test a built binary from
// outside (scripts/chaos, clients and others). It starts real nodes as processes on the
// loopback address, and calls them. It uses only the flags and the interfaces of the product.
//
// Every wait has a deadline and ends with the run (Eventually). A scenario ends at the
// first error that it gives to Must, as a test does with Fatal. A node has no write limits,
// unless its flags say otherwise. After a failure WriteLogs shows the end of each node's
// log. The logs are beside the data directories, in the directory of the run. Ports come
// from freeport and stay with a node over restarts.
package harness
