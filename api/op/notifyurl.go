package op

import (
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
)

// httpsPort is the only port to which entries are pushed.
const httpsPort = "443"

// localNames end the names of hosts that are not on the public internet.
var localNames = []string{
	"alt", "arpa", "corp", "home", "internal", "intranet", "invalid", "lan", "local", "localdomain", "localhost",
	"onion", "private", "test",
}

// NotifyRules restrict the addresses that events may be pushed to. The zero value allows
// hosts of the public internet on port 443.
type NotifyRules struct {
	// OwnHosts returns the present host names of this service, which are rejected. nil means
	// no names.
	OwnHosts func() []string
	// Port is a port that is allowed beside 443, for tests, or 0.
	Port uint16
	// Local allows names of local networks, for tests.
	Local bool
}

// Problem returns the error message for the address of a receiver, or "". The address that the
// name resolves to is checked at each delivery.
func (r NotifyRules) Problem(s string) string {
	u, reason := parseHTTPS(s)
	if reason != "" {
		return reason
	}
	if !r.takesPort(u) {
		reason := "must be on port " + httpsPort
		if r.Port != 0 {
			reason += " or " + strconv.Itoa(int(r.Port))
		}
		return reason
	}
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	labels := strings.Split(host, ".")
	last := labels[len(labels)-1]
	_, notAddress := netip.ParseAddr(host)
	switch {
	// A last label of digits is read as part of an address, in many spellings.
	case notAddress == nil, strings.Trim(last, "0123456789") == "" && last != "", strings.HasPrefix(last, "0x"):
		return "must name its host, not an address"
	case slices.ContainsFunc(labels, badLabel):
		return "must name its host in letters, digits and hyphens; write an international name in its xn-- form"
	case !r.Local && (len(labels) < 2 || slices.Contains(localNames, last)):
		return "must name a host on the public internet"
	case r.OwnHosts != nil && slices.ContainsFunc(r.OwnHosts(), func(own string) bool { return strings.EqualFold(strings.TrimSuffix(own, "."), host) }):
		return "must name another host than this service"
	}
	return ""
}

// takesPort reports whether the address is on a port that may be used.
func (r NotifyRules) takesPort(u *url.URL) bool {
	switch port := u.Port(); port {
	case "":
		return !strings.HasSuffix(u.Host, ":")
	case httpsPort:
		return true
	default:
		return r.Port != 0 && port == strconv.Itoa(int(r.Port))
	}
}

// badLabel reports whether a part of a host name is invalid in DNS.
func badLabel(label string) bool {
	const longest = 63
	if label == "" || len(label) > longest || label[0] == '-' || label[len(label)-1] == '-' {
		return true
	}
	return strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-") != ""
}

// PublicURLProblem returns the error message for an address that everybody sees, or "".
func PublicURLProblem(s string) string {
	_, reason := parseHTTPS(s)
	return reason
}

// parseHTTPS reads an https address without credentials, or returns an error message.
func parseHTTPS(s string) (*url.URL, string) {
	if n := wire.Count(s); n > command.MaxURL {
		return nil, "may have at most " + strconv.Itoa(command.MaxURL) + " characters; this one has " + strconv.Itoa(n)
	}
	const scheme = "https://"
	if len(s) < len(scheme) || !strings.EqualFold(s[:len(scheme)], scheme) {
		return nil, "must start with https://"
	}
	u, err := url.Parse(s)
	switch {
	case err != nil, u.Hostname() == "", strings.ContainsAny(s, " \t\n\\"):
		return nil, "must be a well-formed address"
	case u.User != nil:
		return nil, "must not hold a user name or password"
	}
	return u, ""
}
