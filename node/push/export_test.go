package push

import (
	"net/http"
	"time"
)

// MaxQuotaKeys is how many hosts and senders are remembered.
const MaxQuotaKeys = maxQuotaKeys

// SetTimeout makes tests of hanging receivers short.
func (c *Client) SetTimeout(d time.Duration) { c.timeout = d }

// HasProxy reports whether something decides over a proxy.
func (c *Client) HasProxy() bool {
	t, ok := c.http.Transport.(*http.Transport)
	return !ok || t.Proxy != nil
}
