package node

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"time"
)

// profileHeaderTimeout bounds how long a request for a profile may take to say
// what it wants.
const profileHeaderTimeout = 5 * time.Second

// openPprof serves Go's profiles, where the configuration names an address. It
// is a loopback one: profiles show what is in memory.
func (n *Node) openPprof() error {
	if n.cfg.PprofAddr == "" {
		return nil
	}
	var lc net.ListenConfig
	listener, err := lc.Listen(n.workCtx, "tcp", n.cfg.PprofAddr)
	if err != nil {
		return fmt.Errorf("profiles: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: profileHeaderTimeout}
	n.onEnd(func(ending) error { return server.Close() })
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			n.logger.Error("profiles are not served any more", "error", err)
		}
	}()
	n.logger.Info("serving profiles", "url", "http://"+listener.Addr().String()+"/debug/pprof/")
	return nil
}
