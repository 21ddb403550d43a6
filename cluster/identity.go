package cluster

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// MaxNodeNameLen is the longest node name, in bytes.
	MaxNodeNameLen = 63
	// MaxServerIDLen is the longest server id: name, hyphen, suffix.
	MaxServerIDLen = MaxNodeNameLen + 1 + suffixChars

	suffixBytes = 5
	suffixChars = 8 // base 32 of suffixBytes

	identityFile    = "server-id.json"
	identityVersion = 1
	dataDirMode     = 0o700
)

// suffixEncoding avoids letters that are easily mistaken for digits.
var suffixEncoding = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// Identity is who a node is for as long as its data directory lives. A node
// with a wiped directory is another server under the same name.
type Identity struct {
	NodeName string // given by the operator
	ServerID string // node name, hyphen, random suffix
	LogID    string // of the Raft log that belongs to it; "" while it has none
}

type identityRecord struct {
	Version  int    `json:"version"`
	NodeName string `json:"nodeName"`
	ServerID string `json:"serverId"`
	LogID    string `json:"logId,omitempty"`
}

// CheckNodeName returns an error unless the name is 1 to MaxNodeNameLen ASCII
// letters, digits, dots, underscores and hyphens.
func CheckNodeName(name string) error {
	if name == "" || len(name) > MaxNodeNameLen {
		return fmt.Errorf("node name %q has %d characters, 1 to %d are allowed", name, len(name), MaxNodeNameLen)
	}
	if i := strings.IndexFunc(name, func(r rune) bool { return !isNameRune(r) }); i >= 0 {
		return fmt.Errorf("node name %q: only letters, digits, '.', '_' and '-' are allowed", name)
	}
	return nil
}

// ValidServerID reports whether id has the form of a server id.
func ValidServerID(id string) bool {
	return id != "" && len(id) <= MaxServerIDLen && strings.IndexFunc(id, func(r rune) bool { return !isNameRune(r) }) < 0
}

func isNameRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-'
}

// LoadIdentity returns the identity kept in the data directory, or makes one
// there. An empty nodeName means the kept name, else the host name. A name that
// contradicts the kept one, and a damaged file, are errors: neither may quietly
// turn one server into another.
func LoadIdentity(dir, nodeName string) (Identity, error) {
	if nodeName != "" {
		if err := CheckNodeName(nodeName); err != nil {
			return Identity{}, err
		}
	}
	path := filepath.Join(dir, identityFile)
	data, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return makeIdentity(dir, nodeName)
	case err != nil:
		return Identity{}, fmt.Errorf("read the server id: %w", err)
	}
	var kept identityRecord
	if err := json.Unmarshal(data, &kept); err != nil || kept.Version != identityVersion ||
		CheckNodeName(kept.NodeName) != nil || !ValidServerID(kept.ServerID) {
		return Identity{}, fmt.Errorf("%s is damaged or from a newer version; restore it, or empty the whole data directory so that the node joins as a new server", path)
	}
	if nodeName != "" && nodeName != kept.NodeName {
		return Identity{}, fmt.Errorf("this node is to be %q but its data directory %s belongs to %q (server id %s); use that name, or another data directory",
			nodeName, dir, kept.NodeName, kept.ServerID)
	}
	return Identity{NodeName: kept.NodeName, ServerID: kept.ServerID, LogID: kept.LogID}, nil
}

func makeIdentity(dir, nodeName string) (Identity, error) {
	if nodeName == "" {
		host, err := os.Hostname()
		if err != nil {
			return Identity{}, fmt.Errorf("no node name given and the host name is unknown: %w", err)
		}
		nodeName = hostNodeName(host)
	}
	id := Identity{NodeName: nodeName, ServerID: nodeName + "-" + newSuffix()}
	if err := id.Keep(dir); err != nil {
		return Identity{}, err
	}
	return id, nil
}

func newSuffix() string {
	suffix := make([]byte, suffixBytes)
	_, _ = rand.Read(suffix) // never fails
	return suffixEncoding.EncodeToString(suffix)
}

// Keep writes the identity to the data directory, through to the disk.
func (id *Identity) Keep(dir string) error {
	data, err := json.Marshal(identityRecord{Version: identityVersion, NodeName: id.NodeName, ServerID: id.ServerID, LogID: id.LogID})
	if err == nil {
		err = WriteFileAtomic(filepath.Join(dir, identityFile), append(data, '\n'))
	}
	if err != nil {
		return fmt.Errorf("keep the server id: %w", err)
	}
	return nil
}

// hostNodeName turns a host name into a valid node name.
func hostNodeName(host string) string {
	name := strings.Map(func(r rune) rune {
		if isNameRune(r) {
			return r
		}
		return '-'
	}, host)
	if name == "" {
		name = "node"
	}
	return name[:min(len(name), MaxNodeNameLen)]
}

// LockFile is the name of the file in a data directory that a process locks.
const LockFile = "lock"

// DirLock is the exclusive hold of one process on a data directory.
type DirLock struct{ f *os.File }

// LockDir makes the directory if it is missing and locks it. The lock is released
// when the process ends, for any reason. The error names the directory and, if
// known, the process that holds it.
func LockDir(dir string) (*DirLock, error) {
	if err := os.MkdirAll(dir, dataDirMode); err != nil {
		return nil, fmt.Errorf("make the data directory: %w", err)
	}
	path := filepath.Join(dir, LockFile)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, fileMode)
	if err != nil {
		return nil, fmt.Errorf("lock the data directory: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		holder := lockHolder(f)
		_ = f.Close() // nothing was written
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("data directory %s is in use by another process%s; stop it or use another directory", dir, holder)
		}
		return nil, fmt.Errorf("lock the data directory %s: %w", dir, err)
	}
	// The process id is for the message above alone; the lock holds without it.
	if err := f.Truncate(0); err == nil {
		_, _ = fmt.Fprintf(f, "%d\n", os.Getpid())
	}
	return &DirLock{f: f}, nil
}

// Release gives the directory up. It is safe to call more than once.
func (l *DirLock) Release() error {
	err := l.f.Close()
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}

const maxPIDLen = 20

func lockHolder(f *os.File) string {
	buf := make([]byte, maxPIDLen)
	n, _ := f.ReadAt(buf, 0) // an empty file has no process id to show
	pid := strings.TrimSpace(string(buf[:n]))
	if pid == "" || strings.Trim(pid, "0123456789") != "" {
		return ""
	}
	return " (process " + pid + ")"
}

const fileMode = 0o600

// WriteFileAtomic replaces a file as a whole: after a crash it holds the former
// or the new content, never a part. It returns once the content is on disk. One
// writer at a time: the data directory is locked.
func WriteFileAtomic(path string, data []byte) error {
	temp := path + ".tmp"
	err := writeSynced(temp, data)
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		_ = os.Remove(temp) // the first error is the one to report
		return err
	}
	return SyncDir(filepath.Dir(path))
}

func writeSynced(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, fileMode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}

// SyncDir makes the names in a directory durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	if err := d.Sync(); err != nil {
		_ = d.Close() // the sync error says more
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	return d.Close()
}

const (
	caSeedBytes = ed25519.SeedSize

	// LeafBackdate is how long before its creation a certificate is already valid:
	// the clocks of two nodes may differ by that much.
	LeafBackdate = 7 * 24 * time.Hour
	// LeafValidity is how long after its creation a certificate stays valid.
	LeafValidity = 2 * 365 * 24 * time.Hour
	// leafRenewAfter is the age at which a new certificate is made, in either
	// direction of the clock.
	leafRenewAfter = 24 * time.Hour

	certDNSName      = "node.commons.internal" // same for all; the URI distinguishes nodes
	identityScheme   = "commons"
	noClusterID      = "-"
	subjectKeyIDSize = 20
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
	cert, err := sign(template, template, public, key)
	if err != nil {
		return nil, fmt.Errorf("make the cluster's certificate authority: %w", err)
	}
	return &authority{keyID: keyID, key: key, cert: cert}, nil
}

// sign makes a certificate as the template says.
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
		URIs:        []*url.URL{who.uri()},
	}
	leaf, err := sign(template, a.cert, public, a.key)
	if err != nil {
		return nil, fmt.Errorf("make a node certificate: %w", err)
	}
	return &tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key, Leaf: leaf}, nil
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

// credentials hands out this node's certificate. It makes a new one when the secrets
// or the cluster id change, or when the certificate is too old.
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
