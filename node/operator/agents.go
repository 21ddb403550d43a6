package operator

import (
	"context"
	"net/http"

	"github.com/commons-cluster/commons/cluster"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/text"
	"github.com/commons-cluster/commons/node/admin"
)

// resetKey gives an agent another edit_key. It is called on the leader, and only
// the key's hash leaves it.
func (o *Operator) resetKey(ctx context.Context, request admin.AgentRef) (answer admin.KeyAnswer, err error) {
	name := text.AgentName(request.Agent)
	key, hash := o.cfg.NewEditKey()
	body := &command.ResetKey{AgentKey: text.Fold(name), NewKey: hash}
	if err := command.Check(body); err != nil {
		return answer, refusef(http.StatusBadRequest, "%q is no agent's name: %v", request.Agent, err)
	}
	result, _, err := o.cfg.Pipeline.ProposeAsLeader(ctx, body)
	if err != nil {
		return answer, refusef(http.StatusServiceUnavailable, "whether the key was reset is not known: %v; repeat, the newest key counts", err)
	}
	if result.Outcome != command.OutcomeDone {
		return answer, refusef(http.StatusNotFound, "no agent %q is registered; GET /api/agents lists them", name)
	}
	o.cfg.Logger.InfoContext(ctx, "reset the edit_key of an agent, as an operator asked", "agent", name, "by", cluster.PeerID(ctx))
	return admin.KeyAnswer{Agent: name, EditKey: key}, nil
}
