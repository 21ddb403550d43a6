package api

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/commons-cluster/commons/fsm"
)

// httpsPort is the only port to which entries are pushed.
const httpsPort = "443"

// localNames end the names of hosts that are not on the public internet.
var localNames = []string{
	"alt", "arpa", "corp", "home", "internal", "intranet", "invalid", "lan", "local", "localdomain", "localhost",
	"onion", "private", "test",
}

// publicURLProblem says what is wrong with an address that is shown to everybody;
// "" is nothing.
func publicURLProblem(s string) string {
	_, why := parseHTTPS(s)
	return why
}

// parseHTTPS reads an https address without credentials, or says what is wrong.
func parseHTTPS(s string) (*url.URL, string) {
	if n := count(s); n > fsm.MaxURL {
		return nil, "may have at most " + itoa(fsm.MaxURL) + " characters; this one has " + itoa(n)
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

// notifyURLProblem says what is wrong with an address that entries are to be
// pushed to; "" is nothing. Where the name leads to is looked at each time that
// something is sent there.
func notifyURLProblem(s string) string {
	u, why := parseHTTPS(s)
	if why != "" {
		return why
	}
	if port := u.Port(); port != "" && port != httpsPort || strings.HasSuffix(u.Host, ":") {
		return "must be on port 443"
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
	case len(labels) < 2 || slices.Contains(localNames, last):
		return "must name a host on the public internet"
	}
	return ""
}

// badLabel reports a part of a host's name that DNS would not take.
func badLabel(label string) bool {
	const longest = 63
	if label == "" || len(label) > longest || label[0] == '-' || label[len(label)-1] == '-' {
		return true
	}
	return strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-") != ""
}
