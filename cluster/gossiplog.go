package cluster

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// gossipLog is the handler behind memberlist's logger. It passes everything on
// at debug level, and what an operator has to know as a throttled warning.
type gossipLog struct{ g *Gossip }

// Enabled takes everything; Handle decides.
func (l gossipLog) Enabled(context.Context, slog.Level) bool { return true }

// WithAttrs is not used by a standard logger.
func (l gossipLog) WithAttrs([]slog.Attr) slog.Handler { return l }

// WithGroup is not used by a standard logger.
func (l gossipLog) WithGroup(string) slog.Handler { return l }

// noteworthy are the beginnings of lines that show misconfiguration or
// strangers; memberlist's other errors are weather, and membership changes are
// logged from its events.
var noteworthy = []string{
	"Decrypt packet failed",
	"failed to receive",
	"discarding",
	"Failed push/pull merge",
	"Received invalid msgType",
	"Was able to connect to",
	"Too many pending",
	"handler queue full",
	"Remote node state size",
	"Error accepting TCP connection",
	"Error reading UDP packet",
}

// otherKey is in what memberlist says of a message that none of the keys opens. It
// passes errors on as texts.
const otherKey = "no installed keys could decrypt"

// Handle takes one line of the form "[LEVEL] memberlist: text".
func (l gossipLog) Handle(ctx context.Context, record slog.Record) error {
	_, text, found := strings.Cut(record.Message, "memberlist: ")
	if !found {
		text = record.Message
	}
	for _, kind := range noteworthy {
		if !strings.HasPrefix(text, kind) {
			continue
		}
		if strings.Contains(text, " EOF") {
			break // somebody hung up
		}
		suppressed, ok := l.g.lines.allow("memberlist " + kind + remoteHost(text))
		switch {
		case !ok:
		case strings.Contains(text, otherKey):
			l.g.logger.WarnContext(ctx, "rejected gossip that is encrypted with another key: the node that sends it, or this one, has another cluster secret; give both the same with --secret-file",
				"detail", text, "suppressed", suppressed)
		default:
			l.g.logger.WarnContext(ctx, "trouble in gossip", "detail", text, "suppressed", suppressed)
		}
		return nil
	}
	l.g.logger.DebugContext(ctx, "gossip", "detail", text)
	return nil
}

// remoteHost finds the "from=host:port" at the end of a line, without the port.
func remoteHost(text string) string {
	_, from, found := strings.Cut(text, "from=")
	if !found {
		return ""
	}
	if i := strings.LastIndexByte(from, ':'); i >= 0 {
		from = from[:i]
	}
	return from
}

const (
	logEvery    = time.Minute // per kind of line
	maxLogKinds = 256         // distinct kinds remembered
)

// throttle keeps strangers from filling the log: of each kind of line one is
// let through per logEvery.
type throttle struct {
	mu    sync.Mutex
	kinds map[string]*logKind
}

type logKind struct {
	last       time.Time
	suppressed int
}

// allow reports whether a line of the kind may be written now, and how many
// were held back since the last one.
func (t *throttle) allow(kind string) (suppressed int, ok bool) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.kinds == nil {
		t.kinds = make(map[string]*logKind)
	}
	k := t.kinds[kind]
	if k == nil {
		t.makeRoom(now)
		if len(t.kinds) >= maxLogKinds {
			kind = "" // all that do not fit share one kind
			k = t.kinds[kind]
		}
	}
	if k == nil {
		t.kinds[kind] = &logKind{last: now}
		return 0, true
	}
	if now.Sub(k.last) < logEvery {
		k.suppressed++
		return 0, false
	}
	suppressed = k.suppressed
	k.last, k.suppressed = now, 0
	return suppressed, true
}

func (t *throttle) makeRoom(now time.Time) {
	if len(t.kinds) < maxLogKinds {
		return
	}
	for kind, k := range t.kinds {
		if now.Sub(k.last) >= logEvery {
			delete(t.kinds, kind)
		}
	}
}
