// Package harness has the common parts of the programs that test a built binary from
// outside (scripts/chaos, clients, replay and others). It starts real
// nodes as processes on the loopback address, and calls them. It uses only the flags and
// the interfaces of the product.
//
//	run := harness.NewRun(ctx, "bin/commons", dir)
//	defer run.End()                                // kills processes that still run
//	c := run.NewCluster("main", 3)                 // prepared, not started
//	c.Nodes[0].Flags["write-rate"] = "1200"        // any flag of `commons serve`
//	c.Nodes[0].Env = []string{"GOMEMLIMIT=256MiB"} // no other COMMONS_ variable reaches a node
//	c.Start()                                      // ready, one leader, every node a voter
//	leader, others := c.Leader()
//	published, err := leader.Publish(client.NewEntry{Body: "text"})
//	leader.Kill()                                  // by its process id; also Terminate, Signal
//	memory, err := others[0].Memory()              // resident bytes, from /proc (Linux)
//
// Every wait has a deadline and ends with the run (Eventually). A scenario ends at the
// first error that it gives to Must, as a test does with Fatal. A node has no write limits,
// unless its flags say otherwise. After a failure WriteLogs shows the end of each node's
// log. The logs are beside the data directories, in the directory of the run. Ports come
// from freeport and stay with a node over restarts.
package harness
