// Package offsite keeps backups in a store outside the cluster: an S3-compatible bucket, or a
// mounted directory.
//
// The names of a cluster's objects begin with its id:
//
//	ID/TIME.commons              a backup, as package backup writes it
//	ID/TIME.commons.json         its Manifest; the backup counts once the manifest is complete
//	ID/TIME.INDEX.purged.json    the list of purges at an index of the log; the highest one counts
//
// Their times are those of the cluster's clocks, which may have been wrong: the order of backups and
// of lists is that of the log.
package offsite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/commons-cluster/commons/fsm/command"
)

// Store holds named objects.
type Store interface {
	// Put stores everything that r returns. After an error the object is absent, or as it was
	// before. If ctx ends, r may still be read, and the write may still complete.
	Put(ctx context.Context, name string, r io.Reader) error
	// Get returns an object. The error for a missing one is fs.ErrNotExist.
	Get(ctx context.Context, name string) (io.ReadCloser, error)
	// List returns the objects in no particular order. It is an error if there are more than
	// MaxObjects.
	List(ctx context.Context) ([]Object, error)
	// Delete deletes an object. A missing one is no error.
	Delete(ctx context.Context, name string) error
	// Abandon deletes the parts of an interrupted Put.
	Abandon(ctx context.Context, name string) error
}

// Object is a stored object.
type Object struct {
	Name     string
	Bytes    int64
	Modified time.Time // by the clock of the store
}

// MaxObjects bounds the objects of a store.
const MaxObjects = 10_000

var errTooMany = fmt.Errorf("the store has more than %d objects; give backups a prefix or a directory to themselves", MaxObjects)

// Access is how a node, or a command, reaches buckets. Credentials come from a file, or else
// from the environment.
type Access struct {
	Endpoint    string `name:"backup-endpoint" env:"COMMONS_BACKUP_ENDPOINT" placeholder:"URL" help:"Service of s3:// stores for backups: https://HOST, or http:// on loopback (default: https://s3.amazonaws.com)."`
	Region      string `name:"backup-region" env:"COMMONS_BACKUP_REGION" placeholder:"NAME" help:"Region of the bucket for backups (default: the one that the service names)."`
	Credentials string `name:"backup-credentials" env:"COMMONS_BACKUP_CREDENTIALS" placeholder:"FILE" help:"File with aws_access_key_id = …, aws_secret_access_key = … and perhaps aws_session_token = … for the bucket for backups; of several sections, the one that AWS_PROFILE names, or [default] (default: AWS_ACCESS_KEY_ID and so on of the environment)."`

	Dial func(ctx context.Context, network, addr string) (net.Conn, error) `kong:"-"` // nil means the system's network
}

// Check returns the problem of the endpoint, or nil.
func (a *Access) Check() error {
	_, err := a.endpoint()
	return err
}

const defaultEndpoint = "https://s3.amazonaws.com"

func (a *Access) endpoint() (*url.URL, error) {
	const remedy = "write it as https://HOST or https://HOST:PORT, without user, path and query; http:// is for loopback addresses"
	u, err := url.Parse(cmp.Or(a.Endpoint, defaultEndpoint))
	if err != nil { // which repeats the address
		return nil, errors.New("--backup-endpoint: not a URL; " + remedy)
	}
	ip, _ := netip.ParseAddr(u.Hostname())
	plain := u.Scheme == "http" && (u.Hostname() == "localhost" || ip.IsLoopback())
	if u.Scheme != "https" && !plain || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/")+u.RawQuery+u.Fragment != "" {
		return nil, errors.New("--backup-endpoint: not a service for backups; " + remedy)
	}
	return u, nil
}

// key is the credentials for a bucket.
type key struct{ id, secret, token string }

// key returns the credentials. Its errors do not repeat any part of them.
func (a *Access) key() (k key, err error) {
	from := "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
	lookup := os.Getenv
	if a.Credentials != "" {
		data, err := os.ReadFile(a.Credentials)
		if err != nil {
			return k, fmt.Errorf("--backup-credentials: %w", err)
		}
		if lookup, from, err = credentialsIn(string(data), os.Getenv("AWS_PROFILE")); err != nil {
			return k, fmt.Errorf("--backup-credentials: %s %w", a.Credentials, err)
		}
		from += a.Credentials
	}
	k = key{lookup("AWS_ACCESS_KEY_ID"), lookup("AWS_SECRET_ACCESS_KEY"), lookup("AWS_SESSION_TOKEN")}
	if k.id == "" || k.secret == "" {
		return k, fmt.Errorf("no credentials for the bucket: %s holds no key and secret; see --backup-credentials", from)
	}
	return k, nil
}

const defaultSection = "default" // of a file of credentials, also for lines before its first section

// credentialsIn returns the values of one section of a file of credentials, by their names in
// capital letters: of the section that profile names, or else of the default one. A file without
// sections counts as a whole. shown names the section in messages.
func credentialsIn(file, profile string) (lookup func(name string) string, shown string, err error) {
	section, divided, known := defaultSection, false, map[string]bool{}
	values := map[[2]string]string{} // by section and name
	for line := range strings.Lines(file) {
		line = strings.TrimSpace(line)
		name, value, assigned := strings.Cut(line, "=")
		switch {
		case strings.HasPrefix(line, "#"), strings.HasPrefix(line, ";"):
		case strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]"):
			section, divided = strings.TrimSpace(strings.Trim(line, "[]")), true
			known[section] = true
		case assigned:
			known[section] = true
			values[[2]string{section, strings.ToUpper(strings.TrimSpace(name))}] = strings.TrimSpace(value)
		}
	}
	wanted := defaultSection
	if divided {
		wanted = cmp.Or(profile, defaultSection)
		shown = "[" + wanted + "] of "
	}
	switch {
	case !divided, known[wanted]:
		return func(name string) string { return values[[2]string{wanted, name}] }, shown, nil
	case profile != "":
		return nil, "", fmt.Errorf("has no section [%s], which AWS_PROFILE names", profile)
	}
	return nil, "", fmt.Errorf("has no section [%s]; name another one with AWS_PROFILE", defaultSection)
}

const (
	bucketScheme    = "s3://"
	directoryScheme = "file://"
)

// IsURL reports whether the name of a backup is the address of a store, and not a file.
func IsURL(name string) bool {
	return strings.HasPrefix(name, bucketScheme) || strings.HasPrefix(name, directoryScheme)
}

// Open returns the store at an address. It does not connect to it.
func Open(address string, a Access) (Store, error) {
	if err := command.CheckBackupURL(address); err != nil {
		return nil, err
	}
	if dir, is := strings.CutPrefix(address, directoryScheme); is {
		return directory(dir), nil
	}
	bucket, prefix, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(address, bucketScheme), "/"), "/")
	if prefix != "" {
		prefix += "/"
	}
	return openBucket(bucket, prefix, a)
}
