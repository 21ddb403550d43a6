package operator

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"

	"github.com/commons-cluster/commons/node/admin"
)

// moderate runs an operation of moderation for the operator, on this node as on any
// other.
func (o *Operator) moderate(_ context.Context, request admin.Moderation) (json.RawMessage, error) {
	status, answer := o.cfg.Moderate(request)
	if status == http.StatusOK {
		return answer, nil
	}
	return nil, rejectf(status, "%s", cmp.Or(admin.PublicError(answer), "this node does not serve yet; repeat, or ask another one"))
}
