package cluster

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
)

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

// ErrSealedElsewhere is returned by Open for a text that none of the present
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

// Seal encrypts and authenticates plain under the secret in use. The context
// says what the text is for; Open needs the same one.
func (s *Secrets) Seal(plain []byte, context string) ([]byte, error) {
	key := s.current.Load().first()
	id, err := hex.DecodeString(key.id)
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	header := append([]byte{sealVersion}, id...)
	return key.seal.Seal(header, nil, plain, sealAAD(header, context)), nil
}

// Open reverses Seal. It accepts texts sealed under any secret in the file and
// under the well-known loopback secret, so that a node that started without a
// secret file keeps its data when it gets one. Errors: ErrSealedElsewhere, or a
// description of what is damaged.
func (s *Secrets) Open(sealed []byte, context string) ([]byte, error) {
	id, err := sealedKeyID(sealed)
	if err != nil {
		return nil, err
	}
	for _, key := range append(slices.Clone(s.current.Load().keys), s.loopback) {
		if key.id != id {
			continue
		}
		header, body := sealed[:sealHeaderBytes], sealed[sealHeaderBytes:]
		plain, err := key.seal.Open(nil, nil, body, sealAAD(header, context))
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

// SealDataKey seals a cluster's data key under the secret in use.
func (s *Secrets) SealDataKey(key []byte) ([]byte, error) { return s.Seal(key, dataKeyContext) }

// OpenDataKey reverses SealDataKey. Errors: those of Open.
func (s *Secrets) OpenDataKey(sealed []byte) ([]byte, error) { return s.Open(sealed, dataKeyContext) }

// NeedsReseal reports whether sealed is not under the secret in use. Whoever
// keeps it opens and seals it again before an older secret may go.
func (s *Secrets) NeedsReseal(sealed []byte) bool {
	id, err := sealedKeyID(sealed)
	return err != nil || id != s.current.Load().first().id
}

// SealedUnder returns the public name of the secret that a text is sealed under,
// as KeyIDs has it; "" for what is no sealed text.
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

func sealAAD(header []byte, context string) []byte {
	aad := make([]byte, 0, len(header)+len(context))
	aad = append(aad, header...)
	return append(aad, context...)
}
