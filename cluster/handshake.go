package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"
)

func (p *Port) serverHandshake(c *conn) (*tls.Conn, error) {
	keys := p.cfg.Secrets.current.Load()
	own, err := p.creds.certificate(keys)
	if err != nil {
		return nil, err
	}
	var peer verifiedPeer
	tc := tls.Server(c, &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{*own},
		ClientAuth:             tls.RequireAndVerifyClientCert,
		ClientCAs:              keys.pool,
		NextProtos:             []string{ProtocolHTTP, ProtocolRaft},
		SessionTicketsDisabled: true, // every connection is verified afresh
		VerifyConnection: func(cs tls.ConnectionState) (err error) {
			if peer, err = p.creds.verifyPeer(cs, keys); err == nil && cs.NegotiatedProtocol == "" {
				err = errors.New("it names no protocol")
			}
			return err
		},
	})
	ctx, cancel := context.WithTimeout(p.stop, HandshakeTimeout)
	defer cancel()
	if err := tc.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	ok := p.conns.establish(c, func(c *conn) {
		c.peer, c.cluster, c.protocol = peer.serverID, peer.clusterID, tc.ConnectionState().NegotiatedProtocol
		c.peerKeyID, c.ownKeyID = peer.keyID, keys.first().id
	})
	if !ok {
		return nil, fmt.Errorf("server %s has %d connections already, or was cut off", peer.serverID, MaxConnsPerPeer)
	}
	// This node's cluster may have changed since the check above.
	return tc, p.creds.checkCluster(peer.peerIdentity)
}

func (p *Port) logRejected(remote net.Addr, err error) {
	if p.stop.Err() != nil {
		return
	}
	if isBrokenOff(err) {
		p.logger.Debug("a connection to the private port ended before its handshake", "remote", remote, "error", err)
		return
	}
	host, _, splitErr := net.SplitHostPort(remote.String())
	if splitErr != nil {
		host = remote.String()
	}
	reason := explain(err)
	if suppressed, ok := p.rejected.Allow(host + " " + reason); ok {
		p.logger.Warn("rejected a connection to the private port", "remote", remote, "reason", reason, "suppressed", suppressed)
	}
}

// isBrokenOff reports whether a handshake ended because the connection closed, as after
// port checks and deaths of peers.
func isBrokenOff(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
		errors.Is(err, net.ErrClosed) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// explain returns the reason of a failed handshake for operators.
func explain(err error) string {
	var unknownCA x509.UnknownAuthorityError
	var notTLS tls.RecordHeaderError
	switch {
	case errors.As(err, &unknownCA):
		return "its certificate comes from another cluster secret"
	case errors.As(err, &notTLS):
		return "it does not speak TLS"
	case strings.HasSuffix(err.Error(), "tls: unknown certificate authority"), strings.HasSuffix(err.Error(), "tls: bad certificate"):
		return "it does not accept this node's certificate: another cluster secret, or another server was meant (" + err.Error() + ")"
	}
	return err.Error()
}

func (p *Port) clientHandshake(ctx context.Context, c *conn, serverID, protocol string, via any) (*tls.Conn, error) {
	keys := p.cfg.Secrets.current.Load()
	own, err := p.creds.certificate(keys)
	if err != nil {
		return nil, err
	}
	var peer verifiedPeer
	tc := clientTLS(c, own, keys, protocol, func(cs tls.ConnectionState) (err error) {
		if peer, err = p.creds.verifyPeer(cs, keys); err != nil {
			return err
		}
		if peer.serverID != serverID {
			return fmt.Errorf("server %s is there, not %s", peer.serverID, serverID)
		}
		if cs.NegotiatedProtocol != protocol {
			return fmt.Errorf("server %s does not speak %s", serverID, protocol)
		}
		return nil
	})
	if err := tc.HandshakeContext(ctx); err != nil {
		return nil, &handshakeError{err}
	}
	ok := p.conns.establish(c, func(c *conn) {
		c.peer, c.cluster, c.protocol, c.via = serverID, peer.clusterID, protocol, via
		c.peerKeyID, c.ownKeyID = peer.keyID, keys.first().id
	})
	if !ok {
		return nil, net.ErrClosed
	}
	// This node may have become part of a cluster since the check above.
	if err := p.creds.checkCluster(peer.peerIdentity); err != nil {
		return nil, &handshakeError{err}
	}
	return tc, nil
}

func clientTLS(raw net.Conn, own *tls.Certificate, keys *keyset, protocol string, verify func(tls.ConnectionState) error) *tls.Conn {
	return tls.Client(raw, &tls.Config{
		MinVersion: tls.VersionTLS13,
		// GetClientCertificate, unlike Certificates, also sends the certificate to
		// servers that would reject it: they can then log the peer and the reason.
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return own, nil },
		RootCAs:              keys.pool,
		ServerName:           certDNSName,
		NextProtos:           []string{protocol},
		VerifyConnection:     verify,
	})
}

// handshakeError is a failed TLS handshake with a message for operators.
type handshakeError struct{ err error }

func (e *handshakeError) Error() string { return explain(e.err) }

func (e *handshakeError) Unwrap() error { return e.err }

// credentials makes this node's certificate when the secrets or the cluster id change, or
// when it is too old.
type credentials struct {
	serverID  string
	clusterID func() string
	now       func() time.Time

	mu      sync.Mutex
	keyID   string
	who     peerIdentity
	madeAt  time.Time
	current *tls.Certificate
}

func (c *credentials) certificate(keys *keyset) (*tls.Certificate, error) {
	who := peerIdentity{clusterID: c.clusterID(), serverID: c.serverID}
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	ca := keys.first().ca
	if c.current != nil && c.keyID == ca.keyID && c.who == who && now.Sub(c.madeAt).Abs() < leafRenewAfter {
		return c.current, nil
	}
	cert, err := ca.issue(who, now)
	if err != nil {
		return nil, err
	}
	c.keyID, c.who, c.madeAt, c.current = ca.keyID, who, now, cert
	return cert, nil
}

type verifiedPeer struct {
	peerIdentity
	keyID string // secret that its certificate is under
}

func (c *credentials) checkCluster(who peerIdentity) error {
	if own := c.clusterID(); !sameCluster(own, who.clusterID) {
		return fmt.Errorf("server %s belongs to cluster %s, this node to cluster %s", who.serverID, who.clusterID, own)
	}
	return nil
}

// verifyPeer checks that the certificate names a node of this cluster. It runs after
// the TLS library's chain verification.
func (c *credentials) verifyPeer(cs tls.ConnectionState, keys *keyset) (verifiedPeer, error) {
	if len(cs.VerifiedChains) == 0 || len(cs.PeerCertificates) == 0 {
		return verifiedPeer{}, errors.New("it showed no certificate")
	}
	who, err := parseIdentity(cs.PeerCertificates[0])
	if err != nil {
		return verifiedPeer{}, err
	}
	if err := c.checkCluster(who); err != nil {
		return verifiedPeer{}, err
	}
	chain := cs.VerifiedChains[0]
	root := chain[len(chain)-1]
	for _, key := range keys.keys {
		if key.ca.cert.Equal(root) {
			return verifiedPeer{peerIdentity: who, keyID: key.id}, nil
		}
	}
	return verifiedPeer{}, errors.New("its certificate is under no accepted secret")
}
