package cluster

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"strings"
	"sync"
	"time"
)

const (
	caSeedBytes = ed25519.SeedSize

	// LeafBackdate is how far before its making a certificate becomes valid:
	// the clocks of two nodes may differ by that much.
	LeafBackdate = 7 * 24 * time.Hour
	// LeafValidity is how long after its making a certificate stays valid.
	LeafValidity = 2 * 365 * 24 * time.Hour
	// leafRenewAfter is the age at which a new certificate is made, in either
	// direction of the clock.
	leafRenewAfter = 24 * time.Hour

	certDNSName      = "node.commons.internal" // same for all; the URI distinguishes nodes
	identityScheme   = "commons"
	noClusterID      = "-"
	subjectKeyIDSize = 20
	serialBits       = 128
)

// authority is the certificate authority that one secret gives. All nodes with
// that secret have the same one.
type authority struct {
	keyID string // of the secret
	key   ed25519.PrivateKey
	cert  *x509.Certificate
}

func newAuthority(keyID string, seed []byte) (*authority, error) {
	key := ed25519.NewKeyFromSeed(seed)
	public := key.Public().(ed25519.PublicKey)
	ski := sha256.Sum256(public)
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "commons cluster " + keyID},
		SubjectKeyId:          ski[:subjectKeyIDSize],
		NotBefore:             time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC),
		NotAfter:              time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), // RFC 5280 4.1.2.5: none
		KeyUsage:              x509.KeyUsageCertSign,
		IsCA:                  true,
		BasicConstraintsValid: true,
		MaxPathLenZero:        true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, key)
	if err != nil {
		return nil, fmt.Errorf("make the cluster's certificate authority: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("make the cluster's certificate authority: %w", err)
	}
	return &authority{keyID: keyID, key: key, cert: cert}, nil
}

// issue makes a certificate, with a key of its own, for a server.
func (a *authority) issue(who peerIdentity, now time.Time) (*tls.Certificate, error) {
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a node certificate: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), serialBits))
	if err != nil {
		return nil, fmt.Errorf("make a node certificate: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: "commons node"},
		NotBefore:    now.Add(-LeafBackdate),
		NotAfter:     now.Add(LeafValidity),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:     []string{certDNSName},
		URIs:         []*url.URL{who.uri()},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, public, a.key)
	if err != nil {
		return nil, fmt.Errorf("make a node certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("make a node certificate: %w", err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, nil
}

// peerIdentity is what a certificate says about its bearer.
type peerIdentity struct {
	clusterID string // "" when the server belongs to no cluster yet
	serverID  string
}

// uri is the identity as commons://<cluster id or ->/<server id>.
func (p peerIdentity) uri() *url.URL {
	host := p.clusterID
	if host == "" {
		host = noClusterID
	}
	return &url.URL{Scheme: identityScheme, Host: host, Path: "/" + p.serverID}
}

func parseIdentity(cert *x509.Certificate) (peerIdentity, error) {
	if len(cert.URIs) != 1 {
		return peerIdentity{}, fmt.Errorf("its certificate has %d names, one is needed", len(cert.URIs))
	}
	u := cert.URIs[0]
	who := peerIdentity{clusterID: u.Host, serverID: strings.TrimPrefix(u.Path, "/")}
	if who.clusterID == noClusterID {
		who.clusterID = ""
	}
	if u.Scheme != identityScheme || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Host == "" || !ValidServerID(who.serverID) {
		return peerIdentity{}, fmt.Errorf("its certificate has the name %q, not that of a node", u.String())
	}
	return who, nil
}

// credentials hands out this node's certificate, made anew when the secrets or
// the cluster id change or it has aged.
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

// verifiedPeer is a peer whose certificate was accepted.
type verifiedPeer struct {
	peerIdentity
	keyID string // secret that its certificate is under
}

// checkCluster rejects a server of another cluster.
func (c *credentials) checkCluster(who peerIdentity) error {
	if own := c.clusterID(); !sameCluster(own, who.clusterID) {
		return fmt.Errorf("server %s belongs to cluster %s, this node to cluster %s", who.serverID, who.clusterID, own)
	}
	return nil
}

// verifyPeer checks what the TLS library does not: that the chain it verified
// names a node, and one of this cluster. It runs after chain verification.
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
