// Package harness is what the programs that test a built binary from outside have
// in common (scripts/blackbox, scripts/compose, scripts/firstuse, scripts/clients, scripts/hostile, scripts/chaos): it starts real
// nodes as processes on the loopback address, calls them, waits for what they
// should do, and keeps a record of what they acknowledged. It knows nothing of the
// product but its flags and its HTTP interface, and asserts nothing by itself.
//
// A run has a binary, a directory, and a context that ends it:
//
//	run := harness.NewRun(ctx, "bin/commons", dir)
//	defer run.End()                                // kills what still runs
//	c, err := run.NewCluster("main", 3)            // prepared, not started
//	c.Nodes[0].Flags["write-rate"] = "1200"        // any flag of `commons serve`
//	c.Nodes[0].Env = []string{"GOMEMLIMIT=256MiB"} // no other COMMONS_ variable reaches a node
//	err = c.Start()                                // ready, one leader, every node a voter
//	leader, others := c.Leader()
//	answer, err := leader.Publish(header, map[string]any{"body": "text"}, http.StatusCreated)
//	leader.Kill()                                  // by its process id; also Terminate, Signal
//	memory, err := others[0].Memory()              // resident bytes, from /proc (Linux)
//
// Call, Publish, List and Status call a node over HTTP. A Client does so with any
// base URL, and can be given a transport of its own. An answer with a status that
// was not wanted is a *RejectedError, which has the status and the code. Whatever
// waits has a deadline and ends with the run (Until, Eventually). A scenario ends at
// the first error that it gives to Must, as a test does with Fatal. Play runs named
// scenarios one after the other and prints them. A node has its write limits
// switched off, unless its flags say otherwise.
//
// Remote is a node that a container engine, or somebody else, runs.
//
// After a failure WriteLogs shows the end of each node's log; the logs are beside
// the data directories, in the directory of the run. Ports come from freeport and
// stay with a node over restarts.
package harness
