package operator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"time"
)

// profileHeaderTimeout bounds how long a request for a profile may take to say
// what it wants.
const profileHeaderTimeout = 5 * time.Second

// ServeProfiles serves Go's profiles at an address until the server is closed. The
// address is a loopback one: profiles show what is in memory.
func ServeProfiles(ctx context.Context, addr string, logger *slog.Logger) (*http.Server, error) {
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("profiles: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: profileHeaderTimeout}
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			logger.ErrorContext(ctx, "profiles are not served any more", "error", err)
		}
	}()
	logger.InfoContext(ctx, "serving profiles", "url", "http://"+listener.Addr().String()+"/debug/pprof/")
	return server, nil
}
