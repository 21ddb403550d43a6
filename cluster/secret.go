package cluster

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"
)

// Limits of the secret file, and lengths of keys.
const (
	MinSecretBytes       = 32              // after trimming
	MaxSecrets           = 2               // in a file: the one in use, and one more that is accepted during a rotation
	MaxSecretFileBytes   = 8 << 10         // the size of a secret file
	SecretReloadInterval = 2 * time.Second // how often Watch reads the file again

	gossipKeyBytes = 32 // AES-256
	keyIDBytes     = 8

	// loopbackSecret is the secret of nodes without a secret file. It is public and
	// gives no protection: it only keeps the protocol the same. Nodes that use it are
	// confined to loopback addresses.
	loopbackSecret = "commons: the well-known secret of nodes bound to loopback addresses"
)

// Secrets holds everything derived from the cluster secret: the certificate
// authorities, the gossip keys and the sealing keys. It follows its file (see
// Reload and Watch) and is safe for concurrent use.
type Secrets struct {
	path     string
	loopback *secretKey // well-known key; it can always open its own sealed texts

	current  atomic.Pointer[keyset]
	reloadMu sync.Mutex

	subMu sync.Mutex
	subs  map[*func()]struct{}
}

// keyset is one generation of keys: the first is used, all are accepted.
type keyset struct {
	keys []*secretKey
	pool *x509.CertPool
}

type secretKey struct {
	id     string // public name of the secret, hex
	header []byte // of texts that are sealed under it
	ca     *authority
	gossip []byte
	seal   cipher.AEAD
}

// LoadSecrets reads the cluster secret from a file of at most MaxSecrets lines: the first
// secret is used, both are accepted. An empty path gives the well-known loopback secret (see
// LoopbackOnly). The error names every problem of the file and how to make a secret.
func LoadSecrets(path string) (*Secrets, error) {
	loopback, err := deriveKey([]byte(loopbackSecret))
	if err != nil {
		return nil, err
	}
	s := &Secrets{path: path, loopback: loopback, subs: make(map[*func()]struct{})}
	keys := []*secretKey{loopback}
	if path != "" {
		if _, keys, err = readSecretFile(path); err != nil {
			return nil, err
		}
	}
	s.current.Store(newKeyset(keys))
	return s, nil
}

// LoopbackOnly reports whether no secret file is in use. Everything then has to
// stay on loopback addresses, because the built-in secret is public.
func (s *Secrets) LoopbackOnly() bool { return s.path == "" }

// KeyIDs returns a public name of each secret, the one in use first. Equal
// names on two nodes mean equal secrets. A name reveals no part of a secret.
func (s *Secrets) KeyIDs() []string {
	keys := s.current.Load().keys
	ids := make([]string, len(keys))
	for i, k := range keys {
		ids[i] = k.id
	}
	return ids
}

// GossipKeys returns the AES-256 keys of gossip, the one to encrypt with first.
func (s *Secrets) GossipKeys() [][]byte {
	keys := s.current.Load().keys
	out := make([][]byte, len(keys))
	for i, k := range keys {
		out[i] = bytes.Clone(k.gossip)
	}
	return out
}

// Reload reads the secret file again. New handshakes, gossip and seals use the
// new secrets; established connections are replaced later. It reports whether
// the secrets changed. On an error the former secrets stay in use.
func (s *Secrets) Reload() (changed bool, err error) {
	if s.path == "" {
		return false, nil
	}
	s.reloadMu.Lock()
	defer s.reloadMu.Unlock()
	_, keys, err := readSecretFile(s.path)
	if err != nil {
		return false, err
	}
	next := newKeyset(keys)
	if slices.EqualFunc(next.keys, s.current.Load().keys, func(a, b *secretKey) bool { return a.id == b.id }) {
		return false, nil
	}
	s.current.Store(next)
	s.subMu.Lock()
	subs := slices.Collect(maps.Keys(s.subs))
	s.subMu.Unlock()
	for _, fn := range subs {
		(*fn)()
	}
	return true, nil
}

// Watch calls Reload every SecretReloadInterval until the context ends. It logs
// changes, and each new problem of the file once.
func (s *Secrets) Watch(ctx context.Context, logger *slog.Logger) {
	if s.path == "" {
		return
	}
	tick := time.NewTicker(SecretReloadInterval)
	defer tick.Stop()
	lastProblem := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		changed, err := s.Reload()
		switch {
		case err != nil && err.Error() != lastProblem:
			lastProblem = err.Error()
			logger.WarnContext(ctx, "secret file not reloaded, the former secrets stay in use", "error", err)
		case err == nil:
			lastProblem = ""
		}
		if changed {
			logger.InfoContext(ctx, "cluster secrets changed", "keys", s.KeyIDs())
		}
	}
}

// subscribe has fn called after each change of the secrets, until cancelled.
func (s *Secrets) subscribe(fn func()) (cancel func()) {
	s.subMu.Lock()
	defer s.subMu.Unlock()
	s.subs[&fn] = struct{}{}
	return func() {
		s.subMu.Lock()
		defer s.subMu.Unlock()
		delete(s.subs, &fn)
	}
}

func newKeyset(keys []*secretKey) *keyset {
	k := &keyset{keys: keys, pool: x509.NewCertPool()}
	for _, key := range keys {
		k.pool.AddCert(key.ca.cert)
	}
	return k
}

func (k *keyset) first() *secretKey { return k.keys[0] }

// accepts reports whether certificates under the named key are valid.
func (k *keyset) accepts(id string) bool {
	return slices.ContainsFunc(k.keys, func(key *secretKey) bool { return key.id == id })
}

// deriveKey expands one secret. The labels are part of the protocol between
// nodes: changing one separates the nodes that have it from those that do not.
func deriveKey(secret []byte) (*secretKey, error) {
	var problems []error
	expand := func(label string, size int) []byte {
		out, err := hkdf.Key(sha256.New, secret, nil, "commons/v1/"+label, size)
		problems = append(problems, err)
		return out
	}
	id := expand("key-id", keyIDBytes)
	seed := expand("ca-ed25519", caSeedBytes)
	gossip := expand("gossip-aes256", gossipKeyBytes)
	sealing := expand("seal-aes256gcm", sealKeyBytes)
	if err := errors.Join(problems...); err != nil {
		return nil, fmt.Errorf("derive keys from the cluster secret: %w", err)
	}
	name := hex.EncodeToString(id)
	ca, err := newAuthority(name, seed)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(sealing)
	if err != nil {
		return nil, fmt.Errorf("sealing key: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("sealing key: %w", err)
	}
	return &secretKey{id: name, header: append([]byte{sealVersion}, id...), ca: ca, gossip: gossip, seal: aead}, nil
}

const makeSecretHint = "make one with: commons secret generate --keep FILE"

// readSecretFile returns the distinct secrets of a file, and the key of each.
func readSecretFile(path string) (secrets [][]byte, keys []*secretKey, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("read the cluster secret: %w; %s", err, makeSecretHint)
	}
	defer func() { _ = f.Close() }() // read only
	data, err := io.ReadAll(io.LimitReader(f, MaxSecretFileBytes+1))
	if err != nil {
		return nil, nil, fmt.Errorf("read the cluster secret: %w", err)
	}
	secrets, problems := parseSecrets(data)
	if len(problems) > 0 {
		return nil, nil, fmt.Errorf("secret file %s: %s; %s", path, strings.Join(problems, "; "), makeSecretHint)
	}
	for _, secret := range secrets {
		key, err := deriveKey(secret)
		if err != nil {
			return nil, nil, err
		}
		keys = append(keys, key)
	}
	return secrets, keys, nil
}

// parseSecrets returns the distinct secrets of a file, or all its problems.
func parseSecrets(data []byte) (secrets [][]byte, problems []string) {
	if len(data) > MaxSecretFileBytes {
		return nil, []string{fmt.Sprintf("it is longer than %d bytes", MaxSecretFileBytes)}
	}
	found := 0
	for i, line := range bytes.Split(data, []byte{'\n'}) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		found++
		if problem := checkSecretLine(line); problem != "" {
			problems = append(problems, fmt.Sprintf("line %d %s", i+1, problem))
			continue
		}
		if len(secrets) == 0 || !bytes.Equal(secrets[0], line) {
			secrets = append(secrets, line)
		}
	}
	if found == 0 {
		problems = append(problems, "it holds no secret")
	}
	if found > MaxSecrets {
		problems = append(problems, fmt.Sprintf("it has %d lines, at most %d are allowed", found, MaxSecrets))
	}
	return secrets, problems
}

func checkSecretLine(line []byte) string {
	if !utf8.Valid(line) || bytes.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) && r != '\t' }) {
		return "is not printable text"
	}
	if len(line) < MinSecretBytes {
		return fmt.Sprintf("has %d bytes, at least %d are needed", len(line), MinSecretBytes)
	}
	return ""
}

const (
	sealKeyBytes = 32 // AES-256
	dataKeyBytes = 32 // the length of a cluster's data key
	// dataKeyContext names the purpose of the sealed data key.
	dataKeyContext = "commons data key"
	sealVersion    = 1
	// A sealed text is: version, id of the secret, then nonce, ciphertext and
	// tag as the AEAD lays them out.
	sealHeaderBytes = 1 + keyIDBytes
)

// ErrSealedElsewhere is returned by OpenDataKey for a text that was sealed under an
// unknown secret.
var ErrSealedElsewhere = errors.New("sealed under a secret that is not in the secret file")

// SealDataKey encrypts and authenticates a cluster's data key under the secret in use.
func (s *Secrets) SealDataKey(plain []byte) []byte {
	key := s.current.Load().first()
	return key.seal.Seal(bytes.Clone(key.header), nil, plain, sealAAD(key.header))
}

// OpenDataKey reverses SealDataKey, under any secret in the file and under the well-known
// loopback secret: so a node that started without a secret file keeps its data when it gets
// one. It fails with ErrSealedElsewhere, or if the text is damaged.
func (s *Secrets) OpenDataKey(sealed []byte) ([]byte, error) {
	id, err := sealedKeyID(sealed)
	if err != nil {
		return nil, err
	}
	for _, key := range append(slices.Clone(s.current.Load().keys), s.loopback) {
		if key.id != id {
			continue
		}
		header, body := sealed[:sealHeaderBytes], sealed[sealHeaderBytes:]
		plain, err := key.seal.Open(nil, nil, body, sealAAD(header))
		if err != nil {
			return nil, errors.New("sealed text is damaged or was sealed for another purpose")
		}
		return plain, nil
	}
	return nil, ErrSealedElsewhere
}

// NewDataKey returns a random data key for a cluster.
func NewDataKey() []byte {
	key := make([]byte, dataKeyBytes)
	_, _ = rand.Read(key) // never fails
	return key
}

// SealedUnder returns the public name of the secret that a text is sealed under,
// as KeyIDs returns it; "" for anything that is not a sealed text.
func SealedUnder(sealed []byte) string {
	id, _ := sealedKeyID(sealed) // "" with an error
	return id
}

func sealedKeyID(sealed []byte) (string, error) {
	if len(sealed) < sealHeaderBytes {
		return "", fmt.Errorf("sealed text is cut off at %d bytes", len(sealed))
	}
	if sealed[0] != sealVersion {
		return "", fmt.Errorf("sealed text has version %d, this program knows %d", sealed[0], sealVersion)
	}
	return hex.EncodeToString(sealed[1:sealHeaderBytes]), nil
}

func sealAAD(header []byte) []byte { return append(bytes.Clone(header), dataKeyContext...) }
