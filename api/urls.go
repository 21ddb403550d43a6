package api

import (
	"net/url"
	"strings"

	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
)

// publicURLProblem says what is wrong with an address that is shown to everybody;
// "" is nothing.
func publicURLProblem(s string) string {
	_, why := parseHTTPS(s)
	return why
}

// parseHTTPS reads an https address without credentials, or says what is wrong.
func parseHTTPS(s string) (*url.URL, string) {
	if n := wire.Count(s); n > command.MaxURL {
		return nil, "may have at most " + itoa(command.MaxURL) + " characters; this one has " + itoa(n)
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
