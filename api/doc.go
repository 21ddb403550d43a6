// Package api serves the public HTTP interface of Commons. It decodes and checks
// requests, hands commands to a Backend and puts answers together from views of
// the replicated state. It knows no consensus and no membership.
package api
