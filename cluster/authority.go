package cluster

import (
	"cmp"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net/url"
	"strings"
	"time"
)

// The validity of certificates, and the names in them.
const (
	caSeedBytes = ed25519.SeedSize

	LeafBackdate = 7 * 24 * time.Hour       // validity before a certificate's creation: clocks may differ by that much
	LeafValidity = 2 * 365 * 24 * time.Hour // validity after it
	// leafRenewAfter is the age at which a new certificate is made, in either direction of
	// the clock.
	leafRenewAfter = 24 * time.Hour

	certDNSName      = "node.commons.internal" // same for all; the URI distinguishes nodes
	identityScheme   = "commons"
	noClusterID      = "-"
	subjectKeyIDSize = 20
)

// authority is the certificate authority that all nodes derive from a secret.
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
		NotAfter:              time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), // RFC 5280 4.1.2.5: no expiry
		KeyUsage:              x509.KeyUsageCertSign,
		IsCA:                  true,
		BasicConstraintsValid: true,
		MaxPathLenZero:        true,
	}
	cert, err := sign(template, template, public, key)
	if err != nil {
		return nil, fmt.Errorf("make the cluster's certificate authority: %w", err)
	}
	return &authority{keyID: keyID, key: key, cert: cert}, nil
}

func sign(template, parent *x509.Certificate, public ed25519.PublicKey, key ed25519.PrivateKey) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// issue makes a certificate with a new key for a server.
func (a *authority) issue(who peerIdentity, now time.Time) (*tls.Certificate, error) {
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a node certificate: %w", err)
	}
	template := &x509.Certificate{ // with a random serial number
		Subject:     pkix.Name{CommonName: "commons node"},
		NotBefore:   now.Add(-LeafBackdate),
		NotAfter:    now.Add(LeafValidity),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:    []string{certDNSName},
		URIs:        []*url.URL{{Scheme: identityScheme, Host: cmp.Or(who.clusterID, noClusterID), Path: "/" + who.serverID}},
	}
	leaf, err := sign(template, a.cert, public, a.key)
	if err != nil {
		return nil, fmt.Errorf("make a node certificate: %w", err)
	}
	return &tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key, Leaf: leaf}, nil
}

// peerIdentity is the identity in a peer's certificate: commons://<cluster id or ->/<server id>.
type peerIdentity struct {
	clusterID string // "" when the server belongs to no cluster yet
	serverID  string
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
	if u.Scheme != identityScheme || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Host == "" || !validServerID(who.serverID) {
		return peerIdentity{}, fmt.Errorf("its certificate has the name %q, not that of a node", u.String())
	}
	return who, nil
}
