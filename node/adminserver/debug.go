package adminserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime/pprof"
	"time"

	"github.com/commons-cluster/commons/cluster"
	"github.com/commons-cluster/commons/node/admin"
	"github.com/commons-cluster/commons/node/loop"
)

const (
	// maxDebugFile bounds each file of a node in a debug bundle: together, in base64, they
	// stay below cluster.MaxAnswerBytes.
	maxDebugFile   = 512 << 10
	maxProfileTime = 20 * time.Second // bounds the duration of a CPU profile
)

// debug returns a server's part of a debug bundle: of this server, or of the named one.
// It contains no secrets. Its log names agents and the hosts of receivers.
func (a *Server) debug(ctx context.Context, request admin.DebugRequest) (admin.DebugAnswer, error) {
	if request.ID != "" && request.ID != a.cfg.ServerID {
		return call[admin.DebugAnswer](ctx, a, request.ID, admin.PathDebug, request)
	}
	sources := []struct {
		name string
		give func() ([]byte, error)
	}{
		{"report.json", func() ([]byte, error) { return json.MarshalIndent(a.report(), "", "  ") }},
		{"config.json", func() ([]byte, error) { return json.MarshalIndent(a.cfg.Flags, "", "  ") }},
		{"metrics.txt", a.cfg.Metrics},
		{"log.jsonl", func() ([]byte, error) { return []byte(a.cfg.Logs.Kept()), nil }},
		{"goroutines.txt", func() ([]byte, error) { return profile("goroutine", 1) }},
		{"heap.pprof", func() ([]byte, error) { return profile("heap", 0) }},
		{"cpu.pprof", func() ([]byte, error) { return processorProfile(ctx, request.CPUMillis) }},
	}
	answer := admin.DebugAnswer{ID: a.cfg.ServerID}
	for _, s := range sources {
		data, err := s.give()
		if err == nil && len(data) > maxDebugFile {
			err = fmt.Errorf("it has %d bytes, more than the %d that a bundle takes", len(data), maxDebugFile)
		}
		file := admin.DebugFile{Name: s.name, Data: data}
		if err != nil {
			file.Data, file.Error = nil, err.Error()
		}
		answer.Files = append(answer.Files, file)
	}
	return answer, nil
}

// profile returns one of Go's profiles. They contain functions and numbers, never the
// contents of memory.
func profile(name string, form int) ([]byte, error) {
	var out bytes.Buffer
	err := pprof.Lookup(name).WriteTo(&out, form)
	return out.Bytes(), err
}

func processorProfile(ctx context.Context, millis int64) ([]byte, error) {
	if millis <= 0 {
		return nil, errors.New("it was not asked for; --cpu gives the time, such as 5s")
	}
	var out bytes.Buffer
	if err := pprof.StartCPUProfile(&out); err != nil {
		return nil, err
	}
	loop.Pause(ctx, min(time.Duration(millis)*time.Millisecond, maxProfileTime))
	pprof.StopCPUProfile()
	return out.Bytes(), ctx.Err()
}

// logLevel changes the level of a server's log, if the call names one, and returns it.
func (a *Server) logLevel(ctx context.Context, request admin.LogLevel) (answer admin.LogLevel, err error) {
	if request.ID != "" && request.ID != a.cfg.ServerID {
		return call[admin.LogLevel](ctx, a, request.ID, admin.PathLogLevel, request)
	}
	level := &a.cfg.Logs.Level
	before := level.Level()
	if request.Level != "" {
		if err := level.UnmarshalText([]byte(request.Level)); err != nil {
			return answer, rejectf(http.StatusBadRequest, "%q is no level; use debug, info, warn or error", request.Level)
		}
		// Logged at a level that is written both before and after the change.
		a.cfg.Logger.Log(ctx, max(before, level.Level()), "changed the level of the log, as an operator asked",
			"from", before, "to", level.Level(), "by", cluster.PeerID(ctx))
	}
	return admin.LogLevel{ID: a.cfg.ServerID, Level: level.Level().String()}, nil
}
