package cluster

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// SecretFile is a secret file. Each change replaces it atomically.
type SecretFile struct {
	path  string
	lines [][]byte
	ids   []string
}

// OpenSecretFile reads a secret file. Its errors are those of LoadSecrets.
func OpenSecretFile(path string) (*SecretFile, error) {
	lines, keys, err := readSecretFile(path)
	if err != nil {
		return nil, err
	}
	f := &SecretFile{path: path, lines: lines}
	for _, key := range keys {
		f.ids = append(f.ids, key.id)
	}
	return f, nil
}

// IDs returns the public names of the secrets, as Secrets.KeyIDs does.
func (f *SecretFile) IDs() []string { return f.ids }

// Add adds a new secret that is accepted but not yet in use. It calls note with the
// secret's public name before the file changes. The file must hold one secret.
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

// Swap exchanges the secret in use and the other one.
func (f *SecretFile) Swap() error {
	if len(f.lines) != MaxSecrets {
		return errors.New("the secret file holds one secret")
	}
	return f.write([][]byte{f.lines[1], f.lines[0]}, []string{f.ids[1], f.ids[0]})
}

// Drop removes the secret that is not in use. It first saves that secret in a file
// (FormerSecretFile), because older backups need it.
func (f *SecretFile) Drop() error {
	for i := 1; i < len(f.lines); i++ {
		if err := WriteFileAtomic(FormerSecretFile(f.path, f.ids[i]), append(bytes.Clone(f.lines[i]), '\n')); err != nil {
			return fmt.Errorf("keep the former secret: %w", err)
		}
	}
	return f.write(f.lines[:1], f.ids[:1])
}

// FormerSecretFile returns the path of the file with a dropped secret, by its public
// name.
func FormerSecretFile(path, id string) string { return path + ".former-" + id }

// write replaces the file, through to the disk. It keeps its mode and, where that is
// allowed, its owner.
func (f *SecretFile) write(lines [][]byte, ids []string) error {
	info, err := os.Stat(f.path)
	if err != nil {
		return fmt.Errorf("write the secret file: %w", err)
	}
	temp, err := os.CreateTemp(filepath.Dir(f.path), filepath.Base(f.path)+".*.tmp")
	if err == nil {
		err = ReplaceFile(f.path, temp, func(w io.Writer) error {
			_, err := w.Write(append(bytes.Join(lines, []byte("\n")), '\n'))
			if owner, ok := info.Sys().(*syscall.Stat_t); ok {
				_ = temp.Chown(int(owner.Uid), int(owner.Gid)) // only root may give a file away
			}
			return errors.Join(err, temp.Chmod(info.Mode().Perm()))
		})
	}
	if err != nil {
		return fmt.Errorf("write the secret file: %w", err)
	}
	f.lines, f.ids = lines, ids
	return nil
}

const newSecretBytes = 48 // of randomness; 64 characters

// NewSecret returns a new random secret, one line of text.
func NewSecret() string {
	secret := make([]byte, newSecretBytes)
	_, _ = rand.Read(secret) // never fails
	return base64.RawURLEncoding.EncodeToString(secret)
}

// KeepSecretFile makes a secret file that only its owner can read. It checks and keeps a
// file that exists, and made is false then. Concurrent callers agree on one secret.
func KeepSecretFile(path string) (made bool, err error) {
	if _, err := os.Stat(path); err == nil {
		_, _, err := readSecretFile(path)
		return false, err
	} else if !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("make a secret file: %w", err)
	}
	temp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp") // which only its owner can read
	if err != nil {
		return false, fmt.Errorf("make a secret file: %w", err)
	}
	defer func() { err = errors.Join(err, os.Remove(temp.Name())) }()
	_, err = temp.WriteString(NewSecret() + "\n")
	if err = errors.Join(err, temp.Sync(), temp.Close()); err == nil {
		// A link, unlike a rename, fails if the file exists: the first caller's secret wins.
		err = os.Link(temp.Name(), path)
	}
	if errors.Is(err, fs.ErrExist) {
		_, _, err := readSecretFile(path)
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
