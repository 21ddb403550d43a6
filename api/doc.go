// Package api is the transport of the public interface: the HTTP server, its routes, framing,
// streams, documents, and the doors to the other surfaces. The operations are in api/op. A node
// is an op.Backend here.
package api
