package offsite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/commons-cluster/commons/node/backup"
)

// directory is a Store in an existing directory, which may be mounted.
type directory string

const (
	// The modes of directories and files. Backups hold data that is never public.
	directoryMode, fileMode = 0o700, 0o600

	partial = ".partial" // ends the name of a file that is being written
	// lostAndFound is a directory at the top of many file systems that root alone can read.
	lostAndFound = "lost+found"
)

func (d directory) path(name string) string {
	return filepath.Join(string(d), filepath.FromSlash(name))
}

// abortGrace is how long a call of a store whose context ends may take to clean up.
const abortGrace = 500 * time.Millisecond

// unlessHangs returns the result of a call of a store, or an error soon after ctx ends: a service or a
// mounted directory may hang. The call then goes on by itself.
func unlessHangs[T any](ctx context.Context, call func() (T, error)) (value T, err error) {
	done := make(chan struct{})
	var result T
	var failed error
	go func() {
		defer close(done)
		result, failed = call()
	}()
	select {
	case <-done:
		return result, failed
	case <-ctx.Done():
	}
	select {
	case <-done:
		return result, failed
	case <-time.After(abortGrace):
		return value, ctx.Err()
	}
}

// Put gives the file its name when it is whole and on the disk.
func (d directory) Put(ctx context.Context, name string, r io.Reader) error {
	_, err := unlessHangs(ctx, func() (struct{}, error) { return struct{}{}, d.put(ctx, name, r) })
	return err
}

func (d directory) put(ctx context.Context, name string, r io.Reader) error {
	if err := d.check(); err != nil {
		return err
	}
	path := d.path(name)
	if err := os.MkdirAll(filepath.Dir(path), directoryMode); err != nil {
		return err
	}
	f, err := os.OpenFile(path+partial, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, fileMode)
	if err != nil {
		return err
	}
	return backup.ReplaceFile(path, f, func(w io.Writer) error {
		_, err := io.Copy(w, &endingReader{ctx, r})
		return err
	})
}

func (d directory) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	f, err := unlessHangs(ctx, func() (*os.File, error) { return os.Open(d.path(name)) })
	if err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{&endingReader{ctx, f}, f}, nil
}

func (d directory) List(ctx context.Context) ([]Object, error) {
	return unlessHangs(ctx, func() ([]Object, error) { return d.list(ctx) })
}

func (d directory) list(ctx context.Context) (found []Object, err error) {
	if err := d.check(); err != nil {
		return nil, err
	}
	err = fs.WalkDir(os.DirFS(string(d)), ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && name == lostAndFound && entry.IsDir() {
			return fs.SkipDir
		}
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		if len(found) == MaxObjects {
			return errTooMany
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) { // deleted, or renamed, meanwhile
			return ctx.Err()
		}
		if err == nil {
			found = append(found, Object{name, info.Size(), info.ModTime()})
		}
		return errors.Join(err, ctx.Err())
	})
	return found, err
}

// Delete removes the leftover of an interrupted Put, too.
func (d directory) Delete(ctx context.Context, name string) error {
	_, err := unlessHangs(ctx, func() (struct{}, error) {
		for _, path := range []string{d.path(name), d.path(name) + partial} {
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return struct{}{}, err
			}
		}
		return struct{}{}, nil
	})
	return err
}

// Abandon has no effect: Delete removes the leftover of an interrupted Put.
func (directory) Abandon(context.Context, string) error { return nil }

// check rejects a missing directory: it is not created, because it may not be mounted.
func (d directory) check() error {
	info, err := os.Stat(string(d))
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a directory", string(d))
	}
	if err != nil {
		return fmt.Errorf("%w; mount or create the directory, for the user that the node runs as", err)
	}
	return nil
}

// endingReader ends with the error of a context. A read that hangs is waited for.
type endingReader struct {
	ctx context.Context //nolint:containedctx // that of the call that reads
	r   io.Reader
}

func (r *endingReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}
