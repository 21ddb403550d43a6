package node

import (
	"crypto/x509"
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/commons-cluster/commons/node/push"
)

// maxCAFile bounds what is read of a file of authorities, in bytes.
const maxCAFile = 1 << 20

// pushFlags returns the flags that are set and only for tests.
func (c Config) pushFlags() []string {
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

func (v *validation) push(c Config) {
	if c.PushPort < 0 || c.PushPort > math.MaxUint16 {
		v.addf("--push-port: %d is out of range; give 1 to %d", c.PushPort, math.MaxUint16)
	}
	if _, err := c.pushRoots(); err != nil {
		v.addf("--push-ca-file: %v", err)
	}
	for _, s := range c.PushAllowNet {
		if _, err := parseNetwork(s); err != nil {
			v.addf("--push-allow-net: %q is neither a network such as 127.0.0.0/8 nor an address", s)
		}
	}
}

// pushRoots returns the authorities of receivers' certificates; nil is the system's.
func (c Config) pushRoots() (*x509.CertPool, error) {
	if c.PushCAFile == "" {
		return nil, nil
	}
	data, err := os.ReadFile(c.PushCAFile)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if len(data) > maxCAFile || !roots.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("%s: %w", c.PushCAFile, errors.New("holds no certificate in PEM form"))
	}
	return roots, nil
}

// openPush makes what sends to receivers.
func (n *Node) openPush() error {
	roots, err := n.cfg.pushRoots()
	if err != nil {
		return fmt.Errorf("authorities of receivers: %w", err)
	}
	if flags := n.cfg.pushFlags(); len(flags) > 0 {
		n.logger.Warn("FOR TESTS ONLY: what is pushed may reach addresses that are not public", "flags", flags)
	}
	agent := "Commons/" + n.cfg.Version
	if n.cfg.PublicURL != "" {
		agent += " (+" + n.cfg.PublicURL + "/docs)"
	}
	n.receivers = push.NewClient(push.Config{
		Check: n.notifyRules().Problem, Own: n.ownAddress, UserAgent: agent,
		// Receivers hold the times of messages against their own clocks.
		Now:      func() time.Time { return n.pipeline.Clocks().Corrected() },
		Resolver: n.cfg.Tuning.Resolver,
		Port:     uint16(n.cfg.PushPort), Roots: roots, AllowNets: parseNetworks(n.cfg.PushAllowNet),
	})
	n.deliveries = newDeliverer(newPushMetrics())
	n.makeEvent = n.event
	n.verifying = make(chan struct{}, maxVerifying)
	n.verifications = push.NewQuota(func() time.Time { return n.pipeline.Clocks().Corrected() })
	return nil
}
