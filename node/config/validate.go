package config

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/commons-cluster/commons/api"
	"github.com/commons-cluster/commons/cluster"
	"github.com/commons-cluster/commons/node/certificate"
	"github.com/commons-cluster/commons/node/health"
)

// Error lists all problems of a Config. Each names the flag and a remedy.
type Error struct{ Problems []string }

func (v *Error) Error() string {
	if len(v.Problems) == 1 {
		return "configuration: " + v.Problems[0]
	}
	return fmt.Sprintf("configuration: %d problems:\n  - %s", len(v.Problems), strings.Join(v.Problems, "\n  - "))
}

func (v *Error) addf(format string, args ...any) {
	v.Problems = append(v.Problems, fmt.Sprintf(format, args...))
}

// Validate returns nil, or a *Error with all problems.
func (c Config) Validate() error {
	v := &Error{}
	v.identity(c)
	addrs := v.addresses(c)
	v.loopback(c, addrs)
	v.membership(c)
	v.service(c)
	v.tls(c)
	if _, err := c.PushRoots(); err != nil {
		v.addf("--push-ca-file: %v", err)
	}
	v.networks("--push-allow-net", c.PushAllowNet)
	if err := c.Access.Check(); err != nil { //nolint:staticcheck // a configuration has no check of this name
		v.addf("%v", err)
	}
	if _, err := health.ParseReserve(c.DiskReserve); err != nil {
		v.addf("--disk-reserve: %q %v; write it as 256MiB, 2GiB or 5%%, or 0 for none", c.DiskReserve, err)
	}
	if len(v.Problems) > 0 {
		return v
	}
	return nil
}

func (v *Error) identity(c Config) {
	name, err := c.NodeID, error(nil)
	if name == "" {
		name, err = os.Hostname()
	}
	switch {
	case err != nil:
		v.addf("--node-id: the host has no name to take (%v); give one", err)
	case !validNodeName(name) && c.NodeID == "":
		v.addf("--node-id: the host name %q cannot be a node's name; give one of letters, digits, '.', '_' and '-', at most %d long", name, cluster.MaxNodeNameLen)
	case !validNodeName(name):
		v.addf("--node-id: %q cannot be a node's name; use letters, digits, '.', '_' and '-', at most %d, beginning with a letter or digit", name, cluster.MaxNodeNameLen)
	}
	if c.DataDir == "" {
		v.addf("--data-dir: name a directory")
	}
}

// validNodeName reports whether name may stand in certificates, file names and logs.
func validNodeName(name string) bool {
	return cluster.CheckNodeName(name) == nil && !strings.ContainsRune("._-", rune(name[0]))
}

type address struct {
	flag            string // without the leading dashes: http, cluster or gossip
	bind, advertise string
	private         bool
}

// addresses checks the addresses one by one and returns those that can be read.
func (v *Error) addresses(c Config) []address {
	var good []address
	taken := map[string]string{}
	list := []address{
		{"http", c.HTTPAddr, c.HTTPAdvertise, false},
		{"cluster", c.ClusterAddr, c.ClusterAdvertise, true},
		{"gossip", c.GossipAddr, c.GossipAdvertise, true},
	}
	if c.TLSCert != "" {
		list = append(list, address{"https", c.HTTPSAddr, "", false})
	}
	for _, a := range list {
		host, port, err := splitAddr(a.bind)
		if err != nil {
			v.addf("--%s-addr: %q %v; write it as host:port, such as 127.0.0.1:8080", a.flag, a.bind, err)
			continue
		}
		if port != 0 {
			key := net.JoinHostPort(host, strconv.Itoa(port))
			if other, ok := taken[key]; ok {
				v.addf("--%s-addr: %s is already --%s-addr; give each its own port", a.flag, a.bind, other)
			}
			taken[key] = a.flag
		}
		if a.advertise == "" && unspecified(host) && a.flag != "https" {
			v.addf("--%s-advertise: needed because --%s-addr %s is every address of the host; give the host:port that others reach this node at", a.flag, a.flag, a.bind)
		}
		if a.advertise != "" && !v.advertise(a) {
			continue
		}
		good = append(good, a)
	}
	return good
}

func (v *Error) advertise(a address) bool {
	host, port, err := splitAddr(a.advertise)
	switch {
	case err != nil:
		v.addf("--%s-advertise: %q %v; write it as host:port", a.flag, a.advertise, err)
	case unspecified(host):
		v.addf("--%s-advertise: %q names no host that others could dial; give an address or a host name", a.flag, a.advertise)
	case port == 0:
		v.addf("--%s-advertise: %q names no port that others could dial; give it", a.flag, a.advertise)
	default:
		return true
	}
	return false
}

// tls checks the pair of HTTPS, and where plain HTTP is sent.
func (v *Error) tls(c Config) {
	switch {
	case c.TLSCert == "" && c.TLSKey != "":
		v.addf("--tls-cert: --tls-key %s has no certificate; give both, or neither for plain HTTP", c.TLSKey)
	case c.TLSCert != "" && c.TLSKey == "":
		v.addf("--tls-key: --tls-cert %s has no private key; give both, or neither for plain HTTP", c.TLSCert)
	case c.TLSCert != "":
		if _, err := certificate.Load(c.TLSCert, c.TLSKey, slog.New(slog.DiscardHandler), time.Now); err != nil {
			v.addf("--tls-cert: %v", err)
		}
	}
	if c.HTTPRedirect && !strings.HasPrefix(c.PublicURL, "https://") {
		v.addf("--http-redirect: requests are sent to --public-url, and %q is not https://; give it as https://commons.example", c.PublicURL)
	}
}

// loopback checks what is allowed on loopback addresses only.
func (v *Error) loopback(c Config, addrs []address) {
	var open []string // flags with an address that is not loopback
	for _, a := range addrs {
		for _, f := range []struct{ suffix, value string }{{"addr", a.bind}, {"advertise", a.advertise}} {
			if f.value == "" || isLoopback(f.value) {
				continue
			}
			open = append(open, fmt.Sprintf("--%s-%s %s", a.flag, f.suffix, f.value))
			if c.SecretFile == "" && a.private {
				v.addf("--%s-%s: without --secret-file the private ports stay on loopback, and %s is not; give a secret file, or an address such as 127.0.0.1:7000",
					a.flag, f.suffix, f.value)
			}
		}
	}
	if c.ClockOffset != 0 && len(open) > 0 {
		v.addf("--clock-offset: for tests on loopback addresses only, and this node has %s; leave it out", strings.Join(open, ", "))
	}
	for _, flag := range c.PushFlags() {
		if len(open) > 0 {
			v.addf("--%s: for tests on loopback addresses only, and this node has %s; leave it out", flag, strings.Join(open, ", "))
		}
	}
}

func (v *Error) membership(c Config) {
	if c.NonVoter && len(c.Join) == 0 {
		v.addf("--non-voter: a node without a vote is nothing without others; give their gossip addresses with --join")
	}
	if len(c.Join) > cluster.MaxJoinAddrs {
		v.addf("--join: %d addresses are more than %d; a few are enough, gossip finds the others", len(c.Join), cluster.MaxJoinAddrs)
	}
	for _, j := range c.Join {
		if !strings.Contains(j, ":") && j != "" {
			continue // a host; its port is cluster.DefaultGossipPort
		}
		host, port, err := splitAddr(j)
		switch {
		case err != nil:
			v.addf("--join: %q %v; write gossip addresses as host:port, separated by commas", j, err)
		case unspecified(host) || port == 0:
			v.addf("--join: %q cannot be dialled; give a host and a port", j)
		}
	}
	if c.SecretFile != "" {
		if _, err := cluster.LoadSecrets(c.SecretFile); err != nil {
			v.addf("--secret-file: %v", err)
		}
	}
}

// The values of --address-proof.
const (
	addressProofOn  = "on"
	addressProofOff = "off"
)

func (v *Error) service(c Config) {
	if c.WriteRate < 0 {
		v.addf("--write-rate: %d is negative; give writes a minute, or 0 for no limit", c.WriteRate)
	}
	if c.WriteBurst < 0 {
		v.addf("--write-burst: %d is negative; give a number of writes, or 0 for no limit", c.WriteBurst)
	}
	v.ranges(c)
	for _, f := range []struct {
		flag, value string
		check       func(string) error
	}{
		{"public-url", c.PublicURL, api.CheckPublicURL},
		{"operator-name", c.OperatorName, api.CheckOperatorName},
		{"operator-contact", c.OperatorContact, api.CheckOperatorContact},
		{"terms-url", c.TermsURL, api.CheckTermsURL},
	} {
		if f.value == "" {
			continue
		}
		if err := f.check(f.value); err != nil {
			v.addf("--%s: %q %v", f.flag, f.value, err)
		}
	}
	v.oneOf("address-proof", c.AddressProof, addressProofOn, addressProofOff)
	v.oneOf("log-level", c.LogLevel, "debug", "info", "warn", "error")
	v.oneOf("log-format", c.LogFormat, "text", "json", "auto")
	for _, s := range c.HouseAgents {
		if strings.TrimSpace(s) == "" {
			v.addf("--house-agents: an empty name; separate names by single commas")
		}
	}
	if _, err := c.RobotsText(); err != nil {
		v.addf("--robots: %v; use allow, deny, or a file of at most %d bytes", err, maxRobots)
	}
	v.networks("--trusted-proxies", c.TrustedProxies)
	v.networks("--metrics-from", c.MetricsFrom)
}

func (v *Error) oneOf(flag, value string, known ...string) {
	if last := len(known) - 1; !slices.Contains(known, value) {
		v.addf("--%s: %q is unknown; use %s or %s", flag, value, strings.Join(known[:last], ", "), known[last])
	}
}

func (v *Error) networks(flag string, list []string) {
	for _, s := range list {
		if _, err := parseNetwork(s); err != nil {
			v.addf("%s: %q is neither a network such as 10.0.0.0/8 nor an address", flag, s)
		}
	}
}

// ranges checks the numbers and times that have bounds.
func (v *Error) ranges(c Config) {
	checkRange(v, "bootstrap-expect", c.BootstrapExpect, 1, maxBootstrapExpect, "the number of first voters, %v to %v, usually 1, 3 or 5")
	if c.DeadServerThreshold != 0 {
		checkRange(v, "dead-server-threshold", c.DeadServerThreshold, minDeadServerThreshold, maxDeadServerThreshold, "%v to %v, or 0 to keep dead servers")
	}
	checkRange(v, "clock-offset", c.ClockOffset, -maxClockOffset, maxClockOffset, "%[2]v at most, forward or back")
	checkRange(v, "hang-timeout", c.HangTimeout, minHangTimeout, maxHangTimeout, "%v to %v")
	checkRange(v, "heartbeat", c.Heartbeat, minRaftTiming, maxRaftTiming, "%v to %v")
	checkRange(v, "address-rejections", c.AddressRejections, 0, maxBound, "1 to %[2]v, or 0 for no limit")
	checkRange(v, "address-read-work", c.AddressReadWork, 0, maxBound, "1 to %[2]v, or 0 for no limit")
	checkRange(v, "shutdown-delay", c.ShutdownDelay, 0, maxShutdownDelay, "%v to %v, a little more than the load balancer needs to notice")
	checkRange(v, "request-log", c.RequestLog, 0, maxRequestLog, "lines a second, %v to %v")
	checkRange(v, "push-port", c.PushPort, 0, math.MaxUint16, "1 to %[2]v")
}

// checkRange checks that a value is between two others. give is the format of the remedy.
func checkRange[T cmp.Ordered](v *Error, flag string, value, least, most T, give string) {
	if value < least || value > most {
		v.addf("--%s: %v is out of range; give %s", flag, value, fmt.Sprintf(give, least, most))
	}
}

// splitAddr splits host:port; the port must be a number.
func splitAddr(addr string) (host string, port int, err error) {
	host, p, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, errors.New("is no address")
	}
	n, err := strconv.ParseUint(p, 10, 16)
	if err != nil {
		return "", 0, errors.New("has no port from 0 to 65535")
	}
	return host, int(n), nil
}

// unspecified reports whether host stands for every address of the machine.
func unspecified(host string) bool {
	if host == "" {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsUnspecified()
}

// isLoopback reports whether addr can be reached from this machine only. Of host
// names only localhost counts: others may mean something else later.
func isLoopback(addr string) bool {
	host, _, err := splitAddr(addr)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}

const maxCAFile = 1 << 20

// PushFlags returns the flags that are set and only for tests.
func (c Config) PushFlags() []string {
	var set []string
	if c.PushPort != 0 {
		set = append(set, "push-port")
	}
	if c.PushCAFile != "" {
		set = append(set, "push-ca-file")
	}
	if len(c.PushAllowNet) > 0 {
		set = append(set, "push-allow-net")
	}
	return set
}

// PushRoots returns the authorities of receivers' certificates. Nil means the system's.
func (c Config) PushRoots() (*x509.CertPool, error) {
	if c.PushCAFile == "" {
		return nil, nil
	}
	data, err := os.ReadFile(c.PushCAFile)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if len(data) > maxCAFile || !roots.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("%s: holds no certificate in PEM form", c.PushCAFile)
	}
	return roots, nil
}

const maxRobots = 64 << 10

// RobotsText returns the text of /robots.txt.
func (c Config) RobotsText() (string, error) {
	switch c.Robots {
	case "", "allow":
		return api.RobotsAllow, nil
	case "deny":
		return api.RobotsDeny, nil
	}
	text, err := os.ReadFile(c.Robots)
	if err != nil {
		return "", err
	}
	if len(text) > maxRobots {
		return "", fmt.Errorf("%s has %d bytes", c.Robots, len(text))
	}
	return string(text), nil
}
