package push

import "net/http"

// MaxQuotaKeys is how many hosts and senders have an allowance of their own, and
// SharedQuotas how many allowances the others share.
const (
	MaxQuotaKeys = maxQuotaKeys
	SharedQuotas = sharedQuotas
)

// Hosts is how many allowances of hosts are remembered, and Senders how many of
// senders.
func (q *Quota) Hosts() int   { return q.hosts.size() }
func (q *Quota) Senders() int { return q.senders.size() }

func (t *quotaTable) size() int { return len(t.own) + len(t.shared) }

// HasProxy reports whether something decides over a proxy.
func (c *Client) HasProxy() bool {
	t, ok := c.http.Transport.(*http.Transport)
	return !ok || t.Proxy != nil
}
