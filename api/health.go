package api

import (
	"net/http"
	"strings"

	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/api/wire"
)

// HeaderProcess is the header of /readyz with a random id of the process. The private port shows
// the same id, so that an operator's program can tell whether both ports are of one node. It
// changes at each start, and shows strangers no server id.
const HeaderProcess = "X-Commons-Process"

// getReady serves GET /readyz: one line per check, or JSON.
func getReady(x *exchange) error {
	checks := x.Env.Backend.Checks()
	status := http.StatusOK
	var lines strings.Builder
	list := make([]wire.Object, len(checks))
	var issues []wire.Issue
	for i, check := range checks {
		mark := "[+] "
		if !check.OK {
			mark = "[-] "
			status = http.StatusServiceUnavailable
			issues = append(issues, wire.Issue{check.Name, check.Detail})
		}
		lines.WriteString(mark + check.Name + ": " + check.Detail + "\n")
		list[i] = wire.Object{{"name", check.Name}, {"ok", check.OK}, {"detail", check.Detail}}
	}
	x.Out.Set(HeaderProcess, x.Env.Backend.Process())
	if status != http.StatusOK {
		x.Out.Set(op.HeaderRetryAfter, wire.RetryAfterUnavailable)
	}
	if !strings.Contains(x.Header(op.HeaderAccept), op.ContentJSON) {
		return x.AnswerText(status, op.ContentText, lines.String())
	}
	var body wire.Object
	if status != http.StatusOK {
		body = (&wire.Error{Code: wire.CodeNotReady, Message: "This node does not serve yet.", Issues: issues}).Object()
	}
	body = append(body, wire.Field{"ready", status == http.StatusOK}, wire.Field{"checks", list})
	return x.AnswerObject(status, body)
}

// getMetrics serves GET /metrics: to operators, because it shows versions, disks, and how near
// the bounds are.
func getMetrics(x *exchange) error {
	if x.Origin().Proxied || !x.http.clients.measure(x.Sender()) {
		return &wire.Error{
			Code:    wire.CodeNotFound,
			Message: "Measurements are for operators, and this address is in none of their networks (those of the flag --metrics-from of the node, by default loopback and private ones), or the request came through a proxy that --trusted-proxies does not name.",
			Issues:  []wire.Issue{{"path", "is not served to this address"}},
		}
	}
	text, err := Exposition(x.http.cfg.Registry)
	if err != nil {
		return err
	}
	return x.AnswerText(http.StatusOK, string(metricsFormat), string(text))
}
