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

// NotifyRules say which addresses events may be pushed to. The zero value takes
// hosts of the public internet on port 443.
type NotifyRules struct {
	// OwnHosts returns the names of this service itself as they are now, to which
	// nothing is pushed; nil is none.
	OwnHosts func() []string
	// Port may be named beside 443, for tests; 0 is none.
	Port uint16
	// Local lets names of local networks pass, for tests.
	Local bool
}

// Problem says what is wrong with an address that events are to be pushed to; ""
// is nothing. Where the name leads to is looked at each time that something is
// sent there.
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
	case r.owns(host):
		return "must name another host than this service"
	}
	return ""
}

// owns reports a name of this service itself.
func (r NotifyRules) owns(host string) bool {
	return r.OwnHosts != nil && slices.ContainsFunc(r.OwnHosts(), func(own string) bool {
		return strings.EqualFold(strings.TrimSuffix(own, "."), host)
	})
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

// badLabel reports a part of a host's name that DNS would not take.
func badLabel(label string) bool {
	const longest = 63
	if label == "" || len(label) > longest || label[0] == '-' || label[len(label)-1] == '-' {
		return true
	}
	return strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-") != ""
}

// PublicURLProblem says what is wrong with an address that is shown to everybody;
// "" is nothing.
func PublicURLProblem(s string) string {
	_, reason := parseHTTPS(s)
	return reason
}

// parseHTTPS reads an https address without credentials, or says what is wrong.
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
