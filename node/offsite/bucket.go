package offsite

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

const (
	// partBytes is the size of the parts of an upload, of which one is in memory. A store takes
	// 10,000 parts, so that a backup may have 156 GiB.
	partBytes = 16 << 20
	attempts  = 4           // of a request that the service does not answer, or answers with 5xx
	stall     = time.Minute // how long a connection may make no progress
)

// bucket is a Store in an S3-compatible bucket.
type bucket struct {
	core         *minio.Core
	name, prefix string
}

func openBucket(name, prefix string, a Access) (Store, error) {
	endpoint, err := a.endpoint()
	if err != nil {
		return nil, err
	}
	k, err := a.key()
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableCompression, transport.ResponseHeaderTimeout = true, stall
	dial := transport.DialContext
	if a.Dial != nil {
		dial = a.Dial
	}
	transport.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return steadyConn{c}, nil
	}
	core, err := minio.NewCore(endpoint.Host, &minio.Options{
		Creds: credentials.NewStaticV4(k.id, k.secret, k.token), Secure: endpoint.Scheme == "https",
		Region: a.Region, Transport: transport, MaxRetries: attempts,
	})
	if err != nil {
		return nil, fmt.Errorf("the bucket for backups: %w", err)
	}
	return &bucket{core, name, prefix}, nil
}

// steadyConn gives each step of a connection a separate deadline.
type steadyConn struct{ net.Conn }

func (c steadyConn) Read(p []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(stall)); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

// Write also moves the deadline of the answer, for which the connection waits meanwhile.
func (c steadyConn) Write(p []byte) (int, error) {
	if err := c.SetDeadline(time.Now().Add(stall)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

func (b *bucket) Put(ctx context.Context, name string, r io.Reader) error {
	size := int64(-1)
	if small, is := r.(*bytes.Reader); is {
		size = small.Size()
	}
	_, err := unlessHangs(ctx, func() (minio.UploadInfo, error) {
		return b.core.Client.PutObject(ctx, b.name, b.prefix+name, r, size, minio.PutObjectOptions{
			PartSize: partBytes, NumThreads: 1, ContentType: "application/octet-stream",
			SendContentMd5: true, DisableContentSha256: true, // as every service understands
		})
	})
	return explain("write", err)
}

func (b *bucket) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	body, _, _, err := b.core.GetObject(ctx, b.name, b.prefix+name, minio.GetObjectOptions{})
	if minio.ToErrorResponse(err).Code == minio.NoSuchKey {
		return nil, fmt.Errorf("read %s in the bucket: %w", name, fs.ErrNotExist)
	}
	return body, explain("read", err)
}

func (b *bucket) List(ctx context.Context) (found []Object, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for o := range b.core.ListObjectsIter(ctx, b.name, minio.ListObjectsOptions{Prefix: b.prefix, Recursive: true}) {
		if o.Err != nil {
			return nil, explain("list", o.Err)
		}
		if len(found) == MaxObjects {
			return nil, errTooMany
		}
		found = append(found, Object{strings.TrimPrefix(o.Key, b.prefix), o.Size, o.LastModified})
	}
	return found, nil
}

func (b *bucket) Delete(ctx context.Context, name string) error {
	return explain("delete", b.core.RemoveObject(ctx, b.name, b.prefix+name, minio.RemoveObjectOptions{}))
}

func (b *bucket) Abandon(ctx context.Context, name string) error {
	err := b.core.RemoveIncompleteUpload(ctx, b.name, b.prefix+name)
	if minio.ToErrorResponse(err).Code == minio.NoSuchUpload { // one ended meanwhile; others may be left
		err = b.core.RemoveIncompleteUpload(ctx, b.name, b.prefix+name)
	}
	return explain("end an unfinished upload", err)
}

const (
	credentialsHint = "check the key in --backup-credentials, and that it may write, read, list, delete, and abort multipart uploads"
	regionHint      = "name the region of the bucket with --backup-region"
)

// hints are remedies by the code of an S3 error.
var hints = map[string]string{
	"NoSuchBucket":                 "create the bucket, or correct its name",
	"AccessDenied":                 credentialsHint,
	"InvalidAccessKeyId":           credentialsHint,
	"SignatureDoesNotMatch":        credentialsHint,
	"ExpiredToken":                 credentialsHint,
	"AuthorizationHeaderMalformed": regionHint,
	"PermanentRedirect":            regionHint,
	"RequestTimeTooSkewed":         "correct the clock of this machine",
}

// explain adds the code and the remedy to an error of the service.
func explain(what string, err error) error {
	if err == nil {
		return nil
	}
	answer, answered := errors.AsType[minio.ErrorResponse](err)
	if timeout, is := errors.AsType[net.Error](err); is && timeout.Timeout() || errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("%s in the bucket: no progress: %w; check the service and the network", what, err)
	}
	if !answered {
		return fmt.Errorf("%s in the bucket: %w", what, err)
	}
	return fmt.Errorf("%s in the bucket: %w (%s); %s", what, err, answer.Code, cmp.Or(hints[answer.Code], "check the service, and repeat"))
}
