package cluster

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

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
// is there already stays as it is, made is false then; it must be a valid
// secret file. Two callers at once agree on one secret.
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
	// A link, unlike a rename, replaces nothing: the first caller's secret stands.
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
