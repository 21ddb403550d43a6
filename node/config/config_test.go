package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/node/push/pushtest"
)

// defaults returns the configuration of `commons serve` without flags.
func defaults(t *testing.T, args ...string) Config {
	t.Helper()
	var c Config
	p := must.Get(kong.New(&c))(t)
	must.Get(p.Parse(args))(t)
	return c
}

func TestDefaultsAreValid(t *testing.T) {
	c := defaults(t)
	c.NodeID = "n1" // the host name of a build machine may be anything
	must.Do(t, c.Validate())
	want := Config{
		NodeID: "n1", DataDir: "./data",
		HTTPAddr: "127.0.0.1:8080", ClusterAddr: "127.0.0.1:7000", GossipAddr: "127.0.0.1:7946",
		HTTPSAddr:       "127.0.0.1:8443",
		BootstrapExpect: 1, DeadServerThreshold: 10 * time.Minute, DiskReserve: "256MiB", WriteRate: 30, WriteBurst: 10, AddressProof: "on", Robots: "allow", AddressRejections: 20, AddressReadWork: 500_000,
		Heartbeat: 500 * time.Millisecond, HangTimeout: 5 * time.Second,
		RequestLog: 1, LogLevel: "info", LogFormat: "auto",
	}
	check.Diff(t, c, want, "defaults")
}

// TestLeaderLease: a leader waits nearly as long as those who would take its place.
func TestLeaderLease(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want time.Duration
	}{
		{nil, 400 * time.Millisecond},
		{[]string{"--heartbeat=300ms"}, 240 * time.Millisecond},
	} {
		c := defaults(t, tc.args...)
		c.NodeID = "n1"
		if err := c.Validate(); err != nil || c.LeaderLease() != tc.want {
			t.Errorf("%v: %v, want %v; %v", tc.args, c.LeaderLease(), tc.want, err)
		}
	}
}

func TestFlagsAndEnvironment(t *testing.T) {
	t.Setenv("COMMONS_JOIN", "a:1,b:2")
	t.Setenv("COMMONS_HEARTBEAT", "1s")
	t.Setenv("COMMONS_NODE_ID", "from-env")
	c := defaults(t, "--node-id=from-flag")
	check.Equal(t, c.NodeID, "from-flag", "NodeID of a flag, which goes before its variable,")
	if c.Heartbeat != time.Second || !reflect.DeepEqual(c.Join, []string{"a:1", "b:2"}) {
		t.Errorf("Heartbeat = %v, Join = %q from the environment", c.Heartbeat, c.Join)
	}
}

func TestValidate(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	must.Do(t, os.WriteFile(secret, []byte(strings.Repeat("s", 40)+"\n"), 0o600))
	authority := pushtest.NewAuthority(t).File()
	for _, tt := range []struct {
		name   string
		change func(c *Config)
		want   []string // a fragment per problem, in order
	}{
		{"open addresses with a secret", func(c *Config) {
			c.SecretFile, c.ClusterAddr, c.GossipAddr, c.HTTPAddr = secret, "10.0.0.1:7000", "10.0.0.1:7946", "10.0.0.1:80"
		}, nil},
		{"every address with advertise", func(c *Config) {
			c.SecretFile, c.ClusterAddr, c.GossipAddr, c.HTTPAddr = secret, "0.0.0.0:7000", ":7946", "[::]:80"
			c.ClusterAdvertise, c.GossipAdvertise, c.HTTPAdvertise = "n1:7000", "n1:7946", "n1.example:80"
		}, nil},
		{"every address without advertise", func(c *Config) {
			c.SecretFile, c.ClusterAddr, c.GossipAddr, c.HTTPAddr = secret, "0.0.0.0:7000", ":7946", "[::]:80"
		}, []string{"--http-advertise: needed", "--cluster-advertise: needed", "--gossip-advertise: needed"}},
		{"open http without a secret", func(c *Config) { c.HTTPAddr = "10.0.0.1:8080" }, nil},
		{"open private ports without a secret", func(c *Config) {
			c.ClusterAddr, c.GossipAdvertise = "10.0.0.1:7000", "n1:7946"
		}, []string{"--cluster-addr: without --secret-file", "--gossip-advertise: without --secret-file"}},
		{"localhost is loopback", func(c *Config) { c.ClusterAddr, c.GossipAddr = "localhost:7000", "[::1]:7946" }, nil},
		{"clock offset on loopback", func(c *Config) { c.ClockOffset = time.Hour }, nil},
		{"clock offset in the open", func(c *Config) {
			c.ClockOffset, c.HTTPAdvertise = -time.Hour, "commons.example:80"
		}, []string{"--clock-offset: for tests on loopback addresses only, and this node has --http-advertise commons.example:80"}},
		{"clock offset too far back", func(c *Config) { c.ClockOffset = -60 * 365 * 24 * time.Hour }, []string{"--clock-offset: -525600h0m0s is out of range; give 8760h0m0s at most"}},
		{"push for tests", func(c *Config) {
			c.PushPort, c.PushCAFile, c.PushAllowNet = 8443, authority, []string{"127.0.0.0/8", "::1"}
		}, nil},
		{"push for tests in the open", func(c *Config) {
			c.HTTPAddr, c.PushPort, c.PushCAFile, c.PushAllowNet = "10.0.0.1:8080", 8443, authority, []string{"127.0.0.1"}
		}, []string{
			"--push-port: for tests on loopback addresses only, and this node has --http-addr 10.0.0.1:8080", "--push-ca-file: for tests", "--push-allow-net: for tests",
		}},
		{"push nonsense", func(c *Config) {
			c.PushPort, c.PushCAFile, c.PushAllowNet = 70000, secret, []string{"localhost"}
		}, []string{"--push-port: 70000", "--push-ca-file: " + secret, `--push-allow-net: "localhost"`}},
		{"no authorities", func(c *Config) { c.PushCAFile = secret + ".none" }, []string{"--push-ca-file: "}},
		{"node name", func(c *Config) { c.NodeID = "-n/1" }, []string{"--node-id: \"-n/1\""}},
		{"long node name", func(c *Config) { c.NodeID = strings.Repeat("n", 64) }, []string{"--node-id"}},
		{"data dir", func(c *Config) { c.DataDir = "" }, []string{"--data-dir"}},
		{"addresses", func(c *Config) {
			c.HTTPAddr, c.ClusterAddr, c.GossipAddr = "8080", "127.0.0.1:http", "127.0.0.1:70000"
		}, []string{"--http-addr", "--cluster-addr", "--gossip-addr"}},
		{"one port twice", func(c *Config) { c.GossipAddr = c.ClusterAddr }, []string{"--gossip-addr: 127.0.0.1:7000 is already --cluster-addr"}},
		{"any port twice", func(c *Config) { c.GossipAddr, c.ClusterAddr = "127.0.0.1:0", "127.0.0.1:0" }, nil},
		{"advertised nonsense", func(c *Config) {
			c.HTTPAdvertise, c.ClusterAdvertise, c.GossipAdvertise = "n1", "0.0.0.0:7000", "127.0.0.1:0"
		}, []string{"--http-advertise", "--cluster-advertise", "--gossip-advertise"}},
		{"a non-voter alone", func(c *Config) { c.NonVoter = true }, []string{"--non-voter"}},
		{"disk reserve", func(c *Config) { c.DiskReserve = "2 bananas" }, []string{`--disk-reserve: "2 bananas" is no size; write it as 256MiB`}},
		{"request log", func(c *Config) { c.RequestLog = -1 }, []string{"--request-log: -1"}},
		{"hang timeout", func(c *Config) { c.HangTimeout = time.Millisecond }, []string{"--hang-timeout: 1ms"}},
		{"dead servers", func(c *Config) { c.DeadServerThreshold = time.Millisecond }, []string{"--dead-server-threshold: 1ms"}},
		{"expect", func(c *Config) { c.BootstrapExpect = 0 }, []string{"--bootstrap-expect"}},
		{"join", func(c *Config) { c.Join = []string{"a:1", "b", "", ":7946", "c:0"} }, []string{`""`, `":7946"`, `"c:0"`}},
		{"no secret file", func(c *Config) { c.SecretFile = secret + ".none" }, []string{"--secret-file: "}},
		{"heartbeat", func(c *Config) { c.Heartbeat = 0 }, []string{"--heartbeat"}},
		{"service", func(c *Config) {
			c.WriteRate, c.WriteBurst = -1, -2
			c.HouseAgents, c.TrustedProxies = []string{"a", " "}, []string{"10.0.0.0/8", "::1", "proxy"}
			c.MetricsFrom = []string{"10.0.0.0/33"}
			c.PublicURL, c.ShutdownDelay = "commons.example", -1
			c.OperatorName, c.OperatorContact, c.TermsURL = "a\nb", "nobody", "http://b.example"
			c.AddressProof = "no"
		}, []string{"--write-rate", "--write-burst", "--shutdown-delay", "--public-url", "--operator-name", "--operator-contact", "--terms-url", "--address-proof", "--house-agents", `"proxy"`, "--metrics-from"}},
		{"HTTPS without a key", func(c *Config) { c.TLSCert = secret }, []string{"--tls-key: "}},
		{"HTTPS without a certificate", func(c *Config) { c.TLSKey = secret }, []string{"--tls-cert: "}},
		{"HTTPS with another file", func(c *Config) { c.TLSCert, c.TLSKey, c.HTTPSAddr = secret, secret, ":8443" }, []string{"PEM"}},
		{"HTTPS at a port in use", func(c *Config) { c.TLSCert, c.TLSKey, c.HTTPSAddr = secret, secret, c.HTTPAddr }, []string{"--https-addr: ", "PEM"}},
		{"redirect to nowhere", func(c *Config) { c.HTTPRedirect = true }, []string{"--http-redirect: "}},
		{"redirect to HTTP", func(c *Config) { c.HTTPRedirect, c.PublicURL = true, "http://commons.example" }, []string{"--http-redirect: "}},
		{"redirect", func(c *Config) { c.HTTPRedirect, c.PublicURL = true, "https://commons.example" }, nil},
		{"no limits", func(c *Config) { c.WriteRate, c.WriteBurst = 0, 0 }, nil},
		{"logging", func(c *Config) { c.LogLevel, c.LogFormat = "loud", "xml" }, []string{"--log-level", "--log-format"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := defaults(t)
			c.NodeID = "n1"
			tt.change(&c)
			var got []string
			if err := c.Validate(); err != nil {
				var ce *Error
				if !errors.As(err, &ce) {
					t.Fatalf("error %v is no *Error", err)
				}
				got = ce.Problems
			}
			must.Equal(t, len(got), len(tt.want), "number of the problems\n%s\n", strings.Join(got, "\n"))
			for i := range got {
				check.Contains(t, got[i], tt.want[i], "problem")
			}
		})
	}
}

func TestTrustedNetworks(t *testing.T) {
	c := Config{TrustedProxies: []string{"10.1.2.3/8", "192.0.2.7", "::ffff:192.0.2.8", "2001:db8::/32", "x"}}
	var got []string
	for _, p := range Networks(c.TrustedProxies) {
		got = append(got, p.String())
	}
	want := []string{"10.0.0.0/8", "192.0.2.7/32", "192.0.2.8/32", "2001:db8::/32"}
	check.Diff(t, got, want, "networks")
}

// TestUnanswered holds which nodes are public without an operator who is responsible for them.
func TestUnanswered(t *testing.T) {
	for args, want := range map[string]bool{
		"":                                     false,
		"--http-addr=192.0.2.1:8080":           true,
		"--public-url=https://commons.example": true,
		"--http-addr=192.0.2.1:8080 --operator-name=A":                                true,
		"--http-addr=192.0.2.1:8080 --operator-name=A --operator-contact=a@b.example": false,
	} {
		c := defaults(t, strings.Fields(args)...)
		check.Equal(t, c.Unanswered(), want, "%s", args)
	}
}
