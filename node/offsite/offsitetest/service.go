// Package offsitetest is an S3-compatible service in the process of a test, and its faults.
package offsitetest

import (
	"encoding/xml"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/commons-cluster/commons/internal/must"
	"github.com/commons-cluster/commons/node/offsite"
)

// Bucket is the only bucket of the service.
const Bucket = "backups"

// The credentials that the service accepts.
const (
	KeyID  = "AKIDEXAMPLE"
	Secret = "wJalrXUtnFEMI-never-in-a-log"
)

// Service is a running service.
type Service struct {
	Endpoint string
	Backend  gofakes3.Backend
	Sound    http.Handler // the service without its fault

	mu    sync.Mutex
	fault func(w http.ResponseWriter, r *http.Request) (handled bool)
	parts []int64 // sizes of the bodies of requests
}

// New starts a service with an empty bucket.
func New(t testing.TB) *Service {
	t.Helper()
	var lc net.ListenConfig
	return Serve(t, must.Get(lc.Listen(t.Context(), "tcp", "127.0.0.1:0"))(t))
}

// Serve starts a service at a listener.
func Serve(t testing.TB, at net.Listener) *Service {
	t.Helper()
	s := &Service{Backend: s3mem.New()}
	must.Do(t, s.Backend.CreateBucket(Bucket))
	s.Sound = gofakes3.New(s.Backend, gofakes3.WithLogger(gofakes3.DiscardLog())).Server()
	server := &httptest.Server{Listener: at, Config: &http.Server{}} //nolint:gosec // its clients are the test's
	server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		fault := s.fault
		if r.Method == http.MethodPut {
			s.parts = append(s.parts, r.ContentLength)
		}
		s.mu.Unlock()
		if !strings.Contains(r.Header.Get("Authorization"), "Credential="+KeyID+"/") {
			Fail(w, http.StatusForbidden, "InvalidAccessKeyId")
			return
		}
		if fault == nil || !fault(w, r) {
			s.Sound.ServeHTTP(w, r)
		}
	})
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
	server.Start()
	t.Cleanup(func() {
		s.Break(nil)
		server.CloseClientConnections() // of requests that hang
		server.Close()
	})
	s.Endpoint = server.URL
	return s
}

// Break makes a fault handle requests; nil repairs the service.
func (s *Service) Break(fault func(w http.ResponseWriter, r *http.Request) (handled bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = fault
}

// LargestBody returns the size of the largest body that was sent to the service.
func (s *Service) LargestBody() (largest int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.parts {
		largest = max(largest, n)
	}
	return largest
}

// Fail answers a request with an error of S3.
func Fail(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, "<Error><Code>%s</Code><Message>%s of the test</Message></Error>", code, code)
}

// Access returns the access to the service, with its credentials in a file.
func (s *Service) Access(t testing.TB) offsite.Access {
	t.Helper()
	file := filepath.Join(t.TempDir(), "credentials")
	must.Do(t, os.WriteFile(file, []byte("[default]\naws_access_key_id = "+KeyID+"\naws_secret_access_key="+Secret+"\n"), 0o600))
	return offsite.Access{Endpoint: s.Endpoint, Region: "us-east-1", Credentials: file}
}

// Names returns the names of all objects.
func (s *Service) Names(t testing.TB) (names []string) {
	t.Helper()
	listed := must.Get(s.Backend.ListBucket(Bucket, &gofakes3.Prefix{}, gofakes3.ListBucketPage{}))(t)
	for _, o := range listed.Contents {
		names = append(names, o.Key)
	}
	return names
}

// Unfinished returns the names of the objects of which the service keeps parts.
func (s *Service) Unfinished(t testing.TB) (names []string) {
	t.Helper()
	w := httptest.NewRecorder()
	s.Sound.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/"+Bucket+"?uploads", nil))
	var listed gofakes3.ListMultipartUploadsResult
	must.Do(t, xml.Unmarshal(w.Body.Bytes(), &listed))
	for _, u := range listed.Uploads {
		names = append(names, u.Key)
	}
	return names
}

// Hang takes a request, and does not answer it.
func Hang(_ http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err == nil {
		<-r.Context().Done()
	}
}

// Describe sets the headers that a service sends with every object.
func Describe(w http.ResponseWriter) {
	w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
	w.Header().Set("ETag", `"test"`)
}

// Cut sends the first bytes of a body, and then closes the connection.
func Cut(w http.ResponseWriter, _ *http.Request, body io.Reader, first int64) {
	Describe(w)
	w.Header().Set("Content-Length", strconv.FormatInt(first+1, 10))
	_, _ = io.CopyN(w, body, first) // the client sees that the rest is missing
	panic(http.ErrAbortHandler)     //nolint:forbidigo // the server of net/http takes it for the end of the connection
}
