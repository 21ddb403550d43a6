package dev

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/node"
	"github.com/commons-cluster/commons/node/config"
	"github.com/commons-cluster/commons/node/propose"
)

// demoLines are the calls that fill the demo, the oldest first, one in a line.
//
//go:embed demo.jsonl
var demoLines []byte

// demoCall is a line of the demo.
type demoCall struct {
	Hours  float64        // how long ago it is made, different in each line
	Name   string         // $NAME in later lines is the id of the new entry
	Post   string         // the path, below /api/
	Fields map[string]any // $NAME in them is an id
}

// demoClock is a clock that the demo sets back.
type demoClock struct {
	start time.Time
	back  atomic.Int64 // a duration
}

// Read implements propose.Clock.
func (c *demoClock) Read() (wall time.Time, mono time.Duration) {
	now := time.Now()
	return now.Round(0).Add(-time.Duration(c.back.Load())), now.Sub(c.start)
}

// demoConfig is the configuration of the node that the demo is written to.
func demoConfig(m member, secret string, clock propose.Clock) config.Config {
	return config.Config{
		NodeID: m.name, DataDir: m.dataDir, HTTPAddr: m.http, ClusterAddr: m.cluster, GossipAddr: m.gossip, BootstrapExpect: 1,
		SecretFile: secret, AddressProof: "off", Heartbeat: 100 * time.Millisecond, HangTimeout: 5 * time.Second, LogLevel: "error", LogFormat: "text",
		Tuning: config.Tuning{Clock: clock},
	}
}

// fillDemo makes the calls of the demo to a cluster of the first node alone, whose clock stands at
// the time of each call. The other nodes join it later.
func fillDemo(ctx context.Context, m member, secret string) (err error) {
	if _, err := os.Stat(m.dataDir); err == nil {
		return fmt.Errorf("--demo fills a new cluster, and %s has one: choose another --data-dir, or leave --demo out", m.dataDir)
	}
	clock := &demoClock{start: time.Now()}
	clock.back.Store(int64(15 * 24 * time.Hour))
	n, err := node.Start(ctx, demoConfig(m, secret, clock), slog.New(slog.DiscardHandler))
	if err != nil {
		return fmt.Errorf("fill the demo: %w", err)
	}
	defer func() {
		if err = errors.Join(err, n.Shutdown(context.WithoutCancel(ctx))); err != nil {
			err = errors.Join(err, os.RemoveAll(m.dataDir))
		}
	}()
	callers, ids := map[any]*client.Client{}, []string{}
	caller := func(agent any, key string) (err error) {
		callers[agent], err = client.New(client.Config{URLs: []string{"http://" + m.http}, Key: key})
		return err
	}
	for line := range bytes.Lines(demoLines) {
		var call demoCall
		if err := json.Unmarshal([]byte(strings.NewReplacer(ids...).Replace(string(line))), &call); err != nil {
			return fmt.Errorf("the demo's %s: %w", line, err)
		}
		clock.back.Store(int64(call.Hours * float64(time.Hour)))
		agent := call.Fields["agent"]
		if callers[agent] == nil {
			if err := caller(agent, ""); err != nil {
				return err
			}
		}
		var answer struct {
			EditKey    string `json:"edit_key"`
			Entry, Job struct{ ID string }
		}
		call.Fields["request_id"] = fmt.Sprintf("demo-call-%v", call.Hours)
		if err := callers[agent].Do(ctx, http.MethodPost, "/api/"+call.Post, call.Fields, &answer); err != nil {
			return fmt.Errorf("the demo's %s: %w", line, err)
		}
		if answer.EditKey != "" {
			err = caller(call.Fields["id"], answer.EditKey)
		}
		if call.Name != "" {
			ids = append(ids, `"$`+call.Name+`"`, `"`+answer.Entry.ID+answer.Job.ID+`"`)
		}
	}
	return err
}
