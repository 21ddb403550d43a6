package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/commons-cluster/commons/internal/raw"
	"github.com/commons-cluster/commons/scripts/chaos/check"
	"github.com/commons-cluster/commons/scripts/harness"
)

const (
	// strangersScenario is the scenario of attacks from a few addresses, each for a while beside the
	// recorded clients, which call from another one.
	strangersScenario = "strangers"
	attackFor         = 3 * time.Second
	attackers         = 16 // addresses of an attack
	// heldEach is how many connections each address keeps open: about 5,000 in all.
	heldEach = 320
	// attackPause is the pause between two steps of an attacker: attacks and nodes share the
	// processor, and a mere flood is not what is tested.
	attackPause = 20 * time.Millisecond
	// memoryMB is the largest memory of a node during an attack, in MiB.
	memoryMB = 1024
	// longestSilence is how long the other clients may wait for any answer during an attack, in which
	// a busy machine may elect a leader.
	longestSilence = 5 * time.Second
	longestBody    = 4900 // code points
)

// stranger is an attacker, with a client that calls from its address.
type stranger struct {
	*http.Client
	dialer *net.Dialer
	node   *harness.Node
}

// attacks are what strangers do, by the name of the fault: the nth step of one of them.
var attacks = map[string]func(ctx context.Context, at stranger, n int){
	"abandon calls":           abandon,
	"hold calls that wait":    hold("GET /api/home?for=nobody&wait=60 HTTP/1.1\r\nHost: x\r\n\r\n"),
	"hold silent connections": hold(""),
	"send requests slowly":    hold("POST /api/entries HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n{"),
	"send long bodies slowly": hold("POST /api/entries HTTP/1.1\r\nHost: x\r\nContent-Length: 131072\r\n\r\n" + strings.Repeat(" ", 60<<10)),
	"read no answer":          hold(strings.Repeat("GET /api/entries?limit=100 HTTP/1.1\r\nHost: x\r\n\r\n", 4)),
	"search for many words": func(ctx context.Context, at stranger, n int) {
		_, _ = raw.Do(ctx, at.Client, http.MethodGet, at.node.URL+widePaths[n%len(widePaths)], "")
	},
	"send wrong writes": func(ctx context.Context, at stranger, n int) {
		at.publish(ctx, fmt.Sprintf("wrong%d", n), strings.Repeat("api_key secret token password ", 4000))
	},
	"publish rare code points": func(ctx context.Context, at stranger, n int) {
		at.publish(ctx, fmt.Sprintf("rare%d", n), rareHan())
	},
	"mention one agent": func(ctx context.Context, at stranger, n int) {
		at.publish(ctx, fmt.Sprintf("junk%d", n), fmt.Sprintf("@recorder, look at this: %d.", n))
	},
}

// widePaths are lists with the most values, words and candidates that a call may have.
var widePaths = func() []string {
	const values, excluded = 8, 60
	of := func(name string) string {
		query := make([]string, values)
		for i := range query {
			query[i] = fmt.Sprintf("&%s=value-%d", name, i)
		}
		return strings.Join(query, "")
	}
	paths := []string{
		"q=a", of("agent") + of("tag") + "&channel=general", "mode=any&q=a+b+c+d+e+f+g+h+i+j+k+l+m+n+o+p+",
		"q=%22the+a%22+%22a+the%22+-nothing", "q=" + strings.Repeat("-x+", excluded) + "&unanswered=1",
	}
	for i := range paths {
		paths[i] = "/api/entries?limit=100&" + strings.TrimPrefix(paths[i], "&")
	}
	return paths
}()

// strangersPlan is an event for each attack.
func strangersPlan() (plan []event) {
	for name := range attacks {
		plan = append(plan, event{For: attackFor, Fault: name, Target: cluster})
	}
	slices.SortFunc(plan, func(a, b event) int { return strings.Compare(a.Fault, b.Fault) })
	return inTurn(plan...)
}

// attackFault returns an attack as a fault, or a fault without a begin. Half of the attackers
// call one node, and the others all of them.
func attackFault(name string) fault {
	step := attacks[name]
	if step == nil {
		return fault{}
	}
	return fault{
		begin: func(b *testbed, _ []*harness.Node) {
			ctx, cancel := context.WithCancel(b.run.Ctx)
			var group sync.WaitGroup
			network := slices.IndexFunc(strangersPlan(), func(e event) bool { return e.Fault == name })
			for i := range attackers {
				dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, byte(16+network), byte(1+i))}, Timeout: time.Second}
				at := stranger{&http.Client{Timeout: harness.CallTimeout, Transport: &http.Transport{DialContext: dialer.DialContext}}, dialer, b.nodes[0]}
				if i%2 == 1 {
					at.node = b.nodes[i/2%len(b.nodes)]
				}
				group.Go(func() {
					for n := 0; ctx.Err() == nil; n++ {
						step(ctx, at, n)
						harness.Pause(ctx, attackPause)
					}
					at.CloseIdleConnections()
				})
			}
			b.undo[name] = func() error { cancel(); group.Wait(); return nil }
		},
		end: func(b *testbed, _ []*harness.Node) {
			harness.Must(b.repair(name))
			for _, n := range b.nodes {
				if held := harness.Got(harness.Memory(n.PID())).VmRSS >> 20; held > memoryMB {
					harness.Failf("%s holds %d MB, more than %d", n.Name, held, memoryMB)
				}
			}
		},
	}
}

// unbothered checks that no attack keeps the other clients waiting.
func (r *report) unbothered() check.Verdict {
	v := check.Verdict{Name: "strangers keep nobody waiting"}
	for _, e := range r.plan {
		if attacks[e.Fault] == nil || e.Note != "" {
			continue
		}
		v.Looked++
		if silent := max(e.Gap, e.ReadGap); silent > longestSilence {
			v.Add(fmt.Sprintf("%s: no answer for %v", e.Fault, silent))
		}
	}
	return v
}

// dial opens a connection from the stranger's address. It returns nil if that fails: the attack
// goes on.
func (at stranger) dial(ctx context.Context) net.Conn {
	conn, err := at.dialer.DialContext(ctx, "tcp", at.node.HTTP)
	if err != nil {
		return nil
	}
	_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
	return conn
}

// abandon asks for a wait and leaves.
func abandon(ctx context.Context, at stranger, _ int) {
	if conn := at.dial(ctx); conn != nil {
		_, _ = io.WriteString(conn, "GET /api/home?for=nobody&wait=60 HTTP/1.1\r\nHost: x\r\n\r\n")
		_ = conn.Close()
	}
}

// hold opens connections, sends a request on each, and leaves them open until the attack ends,
// without a read.
func hold(request string) func(context.Context, stranger, int) {
	return func(ctx context.Context, at stranger, n int) {
		if n > 0 {
			<-ctx.Done()
			return
		}
		for range heldEach {
			if conn := at.dial(ctx); conn != nil {
				context.AfterFunc(ctx, func() { _ = conn.Close() })
				_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
				_, _ = io.WriteString(conn, request)
			}
		}
	}
}

func (at stranger) publish(ctx context.Context, agent, body string) {
	entry := harness.Got(json.Marshal(map[string]string{"agent": agent, "body": body}))
	_, _ = raw.Do(ctx, at.Client, http.MethodPost, at.node.URL+"/api/entries", string(entry))
}

// rareHan returns a text of rare Chinese characters: bigrams that no other entry has.
func rareHan() string {
	body := make([]rune, longestBody)
	for i := range body {
		body[i] = 0x20000 + rand.Int32N(40000) //nolint:gosec // no secret
	}
	return string(body)
}
