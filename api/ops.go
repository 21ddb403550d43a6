package api

import (
	"net/http"
	"strings"

	"github.com/gofiber/fiber/v2"

	"github.com/commons-cluster/commons/api/wire"
)

// getLive serves GET /livez: the process runs and answers.
func getLive(c *call) error {
	return c.answerText(http.StatusOK, contentText, "ok\n")
}

// getReady serves GET /readyz: one line per check, or JSON where it is asked for.
func getReady(c *call) error {
	checks := c.srv.backend.Checks()
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
	if status != http.StatusOK {
		c.out.Header.Set(fiber.HeaderRetryAfter, wire.RetryAfterUnavailable)
	}
	if !c.wantsJSON() {
		return c.answerText(status, contentText, lines.String())
	}
	var body wire.Object
	if status != http.StatusOK {
		body = (&wire.Error{Code: wire.CodeNotReady, Message: "This node does not serve yet.", Issues: issues}).Object()
	}
	body = append(body, wire.Field{"ready", status == http.StatusOK}, wire.Field{"checks", list})
	return c.answerObject(status, body)
}

// getStatus serves GET /status.
func getStatus(c *call) error {
	return c.answer(http.StatusOK, func(dst []byte) ([]byte, error) { return wire.AppendJSON(dst, c.srv.backend.Status()), nil })
}

// getMetrics serves GET /metrics.
func getMetrics(c *call) error {
	c.srv.exposition(c.rctx)
	return nil
}

// wantsJSON reports whether the client asked for JSON rather than text.
func (c *call) wantsJSON() bool {
	return strings.Contains(c.header(fiber.HeaderAccept), contentJSON)
}

// answerText sets status and a body that is ready.
func (c *call) answerText(status int, contentType, body string) error {
	resp := c.out
	resp.SetStatusCode(status)
	resp.Header.SetContentType(contentType)
	resp.SetBodyString(body)
	return nil
}

// answerObject sets status and a JSON object.
func (c *call) answerObject(status int, body wire.Object) error {
	return c.answer(status, func(dst []byte) ([]byte, error) { return body.AppendJSON(dst), nil })
}
