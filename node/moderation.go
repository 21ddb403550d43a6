package node

import (
	"net/http"

	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/node/admin"
)

// moderate runs an operation of the public interface for the operator.
func (n *Node) moderate(request admin.Moderation) (status int, answer []byte) {
	server := n.serving.Load()
	if server == nil {
		return http.StatusServiceUnavailable, nil
	}
	params, err := wire.ParsePairs(request.Query)
	if err != nil {
		return http.StatusBadRequest, wire.Malformed(err).Object().AppendJSON(nil)
	}
	doc, err := wire.DecodeBody(wire.MediaJSON, request.Body)
	if err != nil {
		return http.StatusBadRequest, wire.Malformed(err).Object().AppendJSON(nil)
	}
	done := server.Operate(request.Operation, wire.Invocation{Params: params, Document: doc})
	return done.Status, done.Body
}
