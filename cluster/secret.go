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
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	// MinSecretBytes is the least length of a secret after trimming.
	MinSecretBytes = 32
	// MaxSecrets is how many secrets a file may hold: the one in use and one
	// more that is accepted, so that a secret can be rotated.
	MaxSecrets = 2
	// MaxSecretFileBytes bounds what is read of a secret file.
	MaxSecretFileBytes = 8 << 10
	// SecretReloadInterval is how often Watch reads the secret file again.
	SecretReloadInterval = 2 * time.Second

	gossipKeyBytes = 32 // AES-256
	keyIDBytes     = 8

	// loopbackSecret keys nodes without a secret file. It is public, so it
	// protects nothing; it only keeps the protocol the same. Nodes that use it
	// are confined to loopback addresses.
	loopbackSecret = "commons: the well-known secret of nodes bound to loopback addresses"
)

// Secrets holds everything derived from the cluster secret: the certificate
// authorities, the gossip keys and the sealing keys. It follows its file (see
// Reload and Watch) and is safe for concurrent use.
type Secrets struct {
	path     string
	loopback *secretKey // well-known key, always able to open what it sealed

	current  atomic.Pointer[keyset]
	reloadMu sync.Mutex

	subMu   sync.Mutex
	subs    map[int]func()
	nextSub int
}

// keyset is one generation of keys: the first is used, all are accepted.
type keyset struct {
	keys []*secretKey
	pool *x509.CertPool
}

// secretKey is what one secret gives.
type secretKey struct {
	id     string // public name of the secret, hex
	ca     *authority
	gossip []byte
	seal   cipher.AEAD
}

// LoadSecrets reads the cluster secret from a file of at most MaxSecrets lines:
// the first secret is used, both are accepted. Blank lines do not count. An
// empty path gives the well-known loopback secret (see LoopbackOnly). The error
// names every problem of the file and how to make a secret.
func LoadSecrets(path string) (*Secrets, error) {
	loopback, err := deriveKey([]byte(loopbackSecret))
	if err != nil {
		return nil, err
	}
	s := &Secrets{path: path, loopback: loopback, subs: make(map[int]func())}
	keys := []*secretKey{loopback}
	if path != "" {
		if keys, err = readSecretFile(path); err != nil {
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
// names on two nodes mean equal secrets; they reveal nothing else.
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

// Reload reads the secret file again. New handshakes, gossip and seals use what
// it now says; established connections are replaced later. It reports whether
// the secrets changed. On an error the former secrets stay in use.
func (s *Secrets) Reload() (changed bool, err error) {
	if s.path == "" {
		return false, nil
	}
	s.reloadMu.Lock()
	defer s.reloadMu.Unlock()
	keys, err := readSecretFile(s.path)
	if err != nil {
		return false, err
	}
	next := newKeyset(keys)
	if slices.EqualFunc(next.keys, s.current.Load().keys, func(a, b *secretKey) bool { return a.id == b.id }) {
		return false, nil
	}
	s.current.Store(next)
	s.subMu.Lock()
	subs := slices.Collect(maps.Values(s.subs))
	s.subMu.Unlock()
	for _, fn := range subs {
		fn()
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
	id := s.nextSub
	s.nextSub++
	s.subs[id] = fn
	return func() {
		s.subMu.Lock()
		defer s.subMu.Unlock()
		delete(s.subs, id)
	}
}

func newKeyset(keys []*secretKey) *keyset {
	k := &keyset{keys: keys, pool: x509.NewCertPool()}
	for _, key := range keys {
		k.pool.AddCert(key.ca.cert)
	}
	return k
}

// first is the key in use.
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
	id := hex.EncodeToString(expand("key-id", keyIDBytes))
	seed := expand("ca-ed25519", caSeedBytes)
	gossip := expand("gossip-aes256", gossipKeyBytes)
	sealing := expand("seal-aes256gcm", sealKeyBytes)
	if err := errors.Join(problems...); err != nil {
		return nil, fmt.Errorf("derive keys from the cluster secret: %w", err)
	}
	ca, err := newAuthority(id, seed)
	if err != nil {
		return nil, err
	}
	aead, err := newSealer(sealing)
	if err != nil {
		return nil, err
	}
	return &secretKey{id: id, ca: ca, gossip: gossip, seal: aead}, nil
}

const makeSecretHint = "make one with: commons secret generate --keep FILE"

func readSecretFile(path string) ([]*secretKey, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the cluster secret: %w; %s", err, makeSecretHint)
	}
	defer func() { _ = f.Close() }() // read only
	data, err := io.ReadAll(io.LimitReader(f, MaxSecretFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read the cluster secret: %w", err)
	}
	secrets, problems := parseSecrets(data)
	if len(problems) > 0 {
		return nil, fmt.Errorf("secret file %s: %s; %s", path, strings.Join(problems, "; "), makeSecretHint)
	}
	keys := make([]*secretKey, 0, len(secrets))
	for _, secret := range secrets {
		key, err := deriveKey(secret)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, nil
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

// SecretFile is a secret file that is being changed. Each change replaces the
// file as a whole: no node ever reads half of it.
type SecretFile struct {
	path  string
	lines [][]byte
	ids   []string
}

// OpenSecretFile reads a secret file. Its errors are those of LoadSecrets.
func OpenSecretFile(path string) (*SecretFile, error) {
	keys, err := readSecretFile(path)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the cluster secret: %w", err)
	}
	f := &SecretFile{path: path}
	f.lines, _ = parseSecrets(data) // it was read without a problem just now
	for _, key := range keys {
		f.ids = append(f.ids, key.id)
	}
	if len(f.ids) != len(f.lines) {
		return nil, fmt.Errorf("secret file %s is being changed by somebody else; repeat", path)
	}
	return f, nil
}

// IDs returns the public names of the secrets, as Secrets.KeyIDs does.
func (f *SecretFile) IDs() []string { return f.ids }

// Add adds a new secret that is accepted but not in use yet. note is called with
// its public name before the file changes. The file must hold one secret.
func (f *SecretFile) Add(note func(id string) error) error {
	if len(f.lines) != 1 {
		return errors.New("the secret file holds two secrets already")
	}
	line := []byte(NewSecret())
	key, err := deriveKey(line)
	if err != nil {
		return err
	}
	if err := note(key.id); err != nil {
		return err
	}
	return f.write([][]byte{f.lines[0], line}, []string{f.ids[0], key.id})
}

// Swap makes the other secret the one in use.
func (f *SecretFile) Swap() error {
	if len(f.lines) != MaxSecrets {
		return errors.New("the secret file holds one secret")
	}
	return f.write([][]byte{f.lines[1], f.lines[0]}, []string{f.ids[1], f.ids[0]})
}

// Drop removes the secret that is not in use. Backups may need it still: it is
// kept in the file of that name first (FormerSecretFile).
func (f *SecretFile) Drop() error {
	for i := 1; i < len(f.lines); i++ {
		if err := WriteFileAtomic(FormerSecretFile(f.path, f.ids[i]), append(bytes.Clone(f.lines[i]), '\n')); err != nil {
			return fmt.Errorf("keep the former secret: %w", err)
		}
	}
	return f.write(f.lines[:1], f.ids[:1])
}

// FormerSecretFile returns where the secret with the public name is kept that was
// dropped from a secret file.
func FormerSecretFile(path, id string) string { return path + ".former-" + id }

// write replaces the file, through to the disk. It keeps its mode and, where that is
// allowed, its owner.
func (f *SecretFile) write(lines [][]byte, ids []string) error {
	info, err := os.Stat(f.path)
	if err != nil {
		return fmt.Errorf("write the secret file: %w", err)
	}
	temp, err := writeTemp(f.path, append(bytes.Join(lines, []byte("\n")), '\n'))
	if err != nil {
		return fmt.Errorf("write the secret file: %w", err)
	}
	err = os.Chmod(temp, info.Mode().Perm())
	if owner, ok := info.Sys().(*syscall.Stat_t); ok {
		_ = os.Chown(temp, int(owner.Uid), int(owner.Gid)) // only root may give a file away
	}
	if err == nil {
		err = os.Rename(temp, f.path)
	}
	if err != nil {
		return fmt.Errorf("write the secret file: %w", errors.Join(err, os.Remove(temp)))
	}
	f.lines, f.ids = lines, ids
	if err := SyncDir(filepath.Dir(f.path)); err != nil {
		return fmt.Errorf("write the secret file: %w", err)
	}
	return nil
}

const (
	newSecretBytes = 48 // of randomness; 64 characters
	secretFileMode = 0o600
)

// NewSecret returns a new random secret, one line of text.
func NewSecret() string {
	secret := make([]byte, newSecretBytes)
	_, _ = rand.Read(secret) // never fails
	return base64.RawURLEncoding.EncodeToString(secret)
}

// KeepSecretFile makes a secret file that only its owner can read. A file that
// exists already is not changed, and made is false then; it must be a valid
// secret file. Concurrent callers agree on one secret.
func KeepSecretFile(path string) (made bool, err error) {
	if _, err := os.Stat(path); err == nil {
		_, err := readSecretFile(path)
		return false, err
	} else if !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("make a secret file: %w", err)
	}
	temp, err := writeTemp(path, []byte(NewSecret()+"\n"))
	if err != nil {
		return false, fmt.Errorf("make a secret file: %w", err)
	}
	defer func() { err = errors.Join(err, os.Remove(temp)) }()
	// A link, unlike a rename, replaces nothing: the first caller's secret is kept.
	err = os.Link(temp, path)
	if errors.Is(err, fs.ErrExist) {
		_, err := readSecretFile(path)
		return false, err
	}
	if err == nil {
		err = SyncDir(filepath.Dir(path))
	}
	if err != nil {
		return false, fmt.Errorf("make a secret file: %w", err)
	}
	return true, nil
}

// writeTemp writes data to a new file beside path and returns its name.
func writeTemp(path string, data []byte) (name string, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(secretFileMode), f.Sync(), f.Close())
	if err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}

const (
	sealKeyBytes = 32 // AES-256
	// dataKeyBytes is the length of a cluster's data key.
	dataKeyBytes = 32
	// dataKeyContext names the purpose of the sealed data key.
	dataKeyContext = "commons data key"
	sealVersion    = 1
	// A sealed text is: version, id of the secret, then nonce, ciphertext and
	// tag as the AEAD lays them out.
	sealHeaderBytes = 1 + keyIDBytes
)

// ErrSealedElsewhere is returned by OpenDataKey for a text that none of the present
// secrets can open.
var ErrSealedElsewhere = errors.New("sealed under a secret that is not in the secret file")

func newSealer(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("sealing key: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("sealing key: %w", err)
	}
	return aead, nil
}

// SealDataKey encrypts and authenticates a cluster's data key under the secret in use.
func (s *Secrets) SealDataKey(plain []byte) ([]byte, error) {
	key := s.current.Load().first()
	id, err := hex.DecodeString(key.id)
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	header := append([]byte{sealVersion}, id...)
	return key.seal.Seal(header, nil, plain, sealAAD(header)), nil
}

// OpenDataKey reverses SealDataKey. It accepts keys sealed under any secret in the file
// and under the well-known loopback secret, so that a node that started without a
// secret file keeps its data when it gets one. Errors: ErrSealedElsewhere, or a
// description of what is damaged.
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

// NeedsReseal reports whether sealed is not under the secret in use. It must then be
// opened and sealed again before an older secret may be removed.
func (s *Secrets) NeedsReseal(sealed []byte) bool {
	return SealedUnder(sealed) != s.current.Load().first().id
}

// SealedUnder returns the public name of the secret that a text is sealed under,
// as KeyIDs returns it; "" for anything that is not a sealed text.
func SealedUnder(sealed []byte) string {
	id, err := sealedKeyID(sealed)
	if err != nil {
		return ""
	}
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
