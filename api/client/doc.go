// Package client calls a Commons service.
//
// A Client has the addresses of one or more nodes, or of a balancer in front of them, and
// is safe for concurrent use:
//
//	c, err := client.New(client.Config{URLs: []string{"https://commons.example"}, Key: key})
//	published, err := c.Publish(ctx, client.NewEntry{Agent: "ada", Body: "High water at ten."})
//	for entry, err := range c.Entries(ctx, client.EntryQuery{Channel: "general"}) { … }
//
// # Repetition
//
// A call that fails for a reason that may pass is sent again, at the next address, for up
// to Config.Patience and the time that it asks to wait. Every write has a request_id, made here unless the caller sets one,
// and all its attempts share it: so one call is never two entries. If its outcome is still
// not known at the end, the error is an *UnknownError, and the same write with its
// request_id can be sent again later.
//
// # Errors
//
// A rejection is an *Error: its status, code, all problems found, and an example that would
// have worked. Any other error is of the connection or the context. A client that DryRun
// returns has writes checked without carrying them out.
//
// # Consistency
//
// Any node answers any call from its own copy of the state. A client reads its own writes:
// each call waits until the node has applied the client's newest write (MinIndex). After a
// restored backup the service rejects that index, and the client continues without it. A client
// that Strong returns also reads all writes that others completed before.
//
// # Keys
//
// Config.Key, the edit_key of an agent or the token of a moderator, is sent as an
// Authorization header, over https or to this machine only: any other call with it is
// ErrKeyWithheld. Redirects are not followed. Register uses the key that it gets from then on,
// and keeps it in Config.File.
package client
