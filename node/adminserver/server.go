package adminserver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/commons-cluster/commons/cluster"
	"github.com/commons-cluster/commons/fsm"
	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/text"
	"github.com/commons-cluster/commons/fsm/view"
	"github.com/commons-cluster/commons/node/admin"
	"github.com/commons-cluster/commons/node/backup"
	"github.com/commons-cluster/commons/node/consensus"
	"github.com/commons-cluster/commons/node/health"
	"github.com/commons-cluster/commons/node/membership"
	"github.com/commons-cluster/commons/node/offsite"
	"github.com/commons-cluster/commons/node/propose"
)

// Config holds the parts of a node that a Server uses.
type Config struct {
	ServerID, NodeName, Version, DataDir string
	HTTPAddr, PrivateAddr                string // that others get
	Process                              string // random id of this process
	Started                              time.Time

	Raft     *consensus.Raft
	Machine  *fsm.Machine
	Gossip   *cluster.Gossip
	Members  *membership.Membership
	Health   *health.Health
	Pipeline *propose.Pipeline
	Secrets  *cluster.Secrets
	Client   *http.Client // for the private ports of other nodes
	Logger   *slog.Logger
	Logs     *Logs             // behind Logger
	Flags    map[string]string // the node's configuration

	Work                       context.Context                 //nolint:containedctx // ends before the state is closed; bounds long reads of it
	ClusterID                  func() string                   // of this node, empty before it has one
	LastHeard                  func(serverID string) time.Time // when a server's bytes last arrived, or this node's start
	Requests                   func() uint64                   // public requests that were answered
	Metrics                    func() ([]byte, error)          // the answer of /metrics
	NewEditKey, NewRecoveryKey func() (key string, hash []byte)
	Moderate                   func(admin.Moderation) (status int, answer []byte) // an operation of moderation for the operator
	Purges                     func() (admin.Purges, error)                       // how far purged texts are erased from this node's disk
	Store                      offsite.Access                                     // of backups
	Shutdown                   func(context.Context) error
}

// Server answers operators. Its methods are safe for concurrent use.
type Server struct {
	cfg   Config
	pulse pulse
}

// New returns the Server of a running node.
func New(cfg Config) *Server { return &Server{cfg: cfg} }

const adminTimeout = 30 * time.Second // bounds one call of an operator, except those that stream

// passOnTimeout bounds a call that another node answers within adminTimeout. The
// timeout of the connection is longer.
const passOnTimeout = adminTimeout + 10*time.Second

// rejectf returns the error of a rejected call, with a remedy.
func rejectf(status int, format string, args ...any) error {
	return &admin.CallError{Status: status, Message: fmt.Sprintf(format, args...)}
}

// statusOf returns the status of a rejected call, or 0 for any other error.
func statusOf(err error) int {
	if rejected, ok := errors.AsType[*admin.CallError](err); ok {
		return rejected.Status
	}
	return 0
}

// Handle serves operators on the private port: callers have the cluster's secret and
// may do everything.
func (a *Server) Handle(mux *http.ServeMux) {
	mux.HandleFunc("POST "+admin.PathNode, serve(a, func(context.Context, struct{}) (admin.NodeReport, error) { return a.report(), nil }))
	mux.HandleFunc("POST "+admin.PathStatus, serve(a, func(context.Context, struct{}) (admin.Status, error) {
		return admin.Status{Process: a.cfg.Process, Membership: a.cfg.Members.Part()}, nil
	}))
	mux.HandleFunc("POST "+admin.PathCluster, serve(a, func(ctx context.Context, _ struct{}) (admin.ClusterReport, error) { return a.ClusterReport(ctx), nil }))
	mux.HandleFunc("POST "+admin.PathDigest, serveFor(a, digestTimeout, a.digestAt))
	mux.HandleFunc("POST "+admin.PathCompare, serveFor(a, digestTimeout, a.compareDigests))
	mux.HandleFunc("POST "+admin.PathSnapshot, a.serveSnapshot)
	mux.HandleFunc("POST "+admin.PathSaved, serve(a, a.recordBackup))
	mux.HandleFunc("POST "+admin.PathDebug, serve(a, a.debug))
	mux.HandleFunc("POST "+admin.PathLogLevel, serve(a, a.logLevel))
	mux.HandleFunc("POST "+admin.PathLeave, serve(a, a.leave))
	mux.HandleFunc("POST "+admin.PathTransfer, a.onLeader(serve(a, a.transferLeadership)))
	mux.HandleFunc("POST "+admin.PathResetKey, a.onLeader(serve(a, a.resetKey)))
	mux.HandleFunc("POST "+admin.PathProtectName, a.onLeader(serve(a, a.protectName)))
	mux.HandleFunc("POST "+admin.PathSettings, a.onLeader(serve(a, a.changeSettings)))
	mux.HandleFunc("POST "+admin.PathModerate, serve(a, a.moderate))
	mux.HandleFunc("POST "+admin.PathPurged, serve(a, func(ctx context.Context, _ struct{}) (backup.PurgeList, error) { return a.PurgeList(ctx) }))
	mux.HandleFunc("POST "+admin.PathEvents, serve(a, a.events))
	mux.HandleFunc("POST "+admin.PathRemove, a.onLeader(serve(a, a.removeServer)))
}

func serve[Request, Answer any](a *Server, do func(context.Context, Request) (Answer, error)) http.HandlerFunc {
	return serveFor(a, adminTimeout, do)
}

func serveFor[Request, Answer any](a *Server, timeout time.Duration, do func(context.Context, Request) (Answer, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), timeout)
		defer cancel()
		if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(timeout + adminTimeout)); err != nil {
			a.reject(w, err)
			return
		}
		var request Request
		d := json.NewDecoder(io.LimitReader(r.Body, admin.MaxRequestBytes))
		d.DisallowUnknownFields()
		if err := d.Decode(&request); err != nil {
			a.reject(w, rejectf(http.StatusBadRequest, "the call is not understood: %v; use a command of this version", err))
			return
		}
		answer, err := do(ctx, request)
		if err != nil {
			a.reject(w, err)
			return
		}
		cluster.Reply(w, a.cfg.Logger, http.StatusOK, answer)
	}
}

func (a *Server) reject(w http.ResponseWriter, err error) {
	cluster.Reply(w, a.cfg.Logger, cmp.Or(statusOf(err), http.StatusServiceUnavailable), admin.Failure{Error: err.Error()})
}

// onLeader passes a call on to the leader, unless this node leads.
func (a *Server) onLeader(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		leader := a.cfg.Raft.LeaderID()
		switch {
		case leader == a.cfg.ServerID:
			h(w, r)
		case leader == "":
			a.reject(w, rejectf(http.StatusServiceUnavailable, "no leader is known at %s; see `commons status`, and repeat", a.cfg.ServerID))
		case r.Header.Get(admin.HeaderPassedOn) != "":
			a.reject(w, rejectf(http.StatusMisdirectedRequest, "leadership is moving; repeat"))
		default:
			a.passOn(a.cfg.Client, w, r, leader)
		}
	}
}

func (a *Server) passOn(client *http.Client, w http.ResponseWriter, r *http.Request, id string) {
	ctx, cancel := context.WithTimeout(r.Context(), passOnTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+id+r.URL.Path, io.LimitReader(r.Body, admin.MaxRequestBytes))
	if err != nil {
		a.reject(w, err)
		return
	}
	req.Header.Set(admin.HeaderPassedOn, a.cfg.ServerID)
	res, err := client.Do(req)
	if err != nil {
		a.reject(w, rejectf(http.StatusBadGateway, "%s does not answer: %v; repeat", id, err))
		return
	}
	defer func() { _ = res.Body.Close() }() // read to its end
	w.Header().Set("Content-Type", res.Header.Get("Content-Type"))
	w.WriteHeader(res.StatusCode)
	if _, err := io.Copy(w, res.Body); err != nil {
		a.cfg.Logger.DebugContext(r.Context(), "an answer on the private port was lost", "error", err)
	}
}

// call asks another node as an operator does.
func call[Answer any](ctx context.Context, a *Server, id, path string, request any) (Answer, error) {
	return admin.Call[Answer](ctx, admin.NewNodeClient(a.cfg.Client, id), path, request)
}

// resetKey gives an agent another pair of keys. Only their hashes leave the leader.
func (a *Server) resetKey(ctx context.Context, request admin.AgentRef) (answer admin.KeyAnswer, err error) {
	name := text.AgentName(request.Agent)
	key, hash := a.cfg.NewEditKey()
	recovery, recoveryHash := a.cfg.NewRecoveryKey()
	reset := &command.ResetKey{AgentKey: text.Fold(name), NewKey: hash, NewRecovery: recoveryHash}
	if err := a.changeName(ctx, name, reset, "the key was reset"); err != nil {
		return answer, err
	}
	a.cfg.Logger.InfoContext(ctx, "reset the edit_key of an agent, as an operator asked", "agent", name, "by", cluster.PeerID(ctx))
	return admin.KeyAnswer{Agent: name, EditKey: key, RecoveryKey: recovery}, nil
}

// protectName protects an agent's name, or lifts its protection. It is called on the
// leader.
func (a *Server) protectName(ctx context.Context, request admin.Protection) (answer admin.Protection, err error) {
	name := text.AgentName(request.Agent)
	payload := &command.ProtectName{AgentKey: text.Fold(name), Protected: request.Protected}
	if err := a.changeName(ctx, name, payload, "the protection of the name was changed"); err != nil {
		return answer, err
	}
	a.cfg.Logger.InfoContext(ctx, "changed the protection of a name, as an operator asked",
		"agent", name, "protected", request.Protected, "by", cluster.PeerID(ctx))
	return admin.Protection{Agent: name, Protected: request.Protected}, nil
}

// changeName applies a command about a registered name; what describes it in errors.
func (a *Server) changeName(ctx context.Context, name string, payload command.Payload, what string) error {
	if err := command.Check(payload); err != nil {
		return rejectf(http.StatusBadRequest, "%q is no agent's name: %v", name, err)
	}
	result, _, err := a.cfg.Pipeline.ProposeAsLeader(ctx, payload)
	switch {
	case err != nil:
		return rejectf(http.StatusServiceUnavailable, "whether %s is not known: %v; repeat it", what, err)
	case result.Outcome == command.OutcomeRejected:
		return rejectf(http.StatusNotFound, "no agent %q is registered; GET /api/agents lists them", name)
	}
	return nil
}

// changeSettings changes the replicated settings, if the call contains changes, and returns them.
func (a *Server) changeSettings(ctx context.Context, request admin.SettingsChange) (answer admin.SettingsReport, err error) {
	if request != (admin.SettingsChange{}) {
		payload := &request.SetSettings
		if err := command.Check(payload); err != nil {
			return answer, rejectf(http.StatusBadRequest, "%v", err)
		}
		if err := a.checkWelcome(request.Welcome); err != nil {
			return answer, rejectf(http.StatusBadRequest, "nothing is changed: %v", err)
		}
		if request.DryRun {
			return a.tryRetention(request.RetentionDays)
		}
		if err := a.tryStore(ctx, request.BackupURL); err != nil {
			return answer, rejectf(http.StatusBadRequest, "nothing is changed: the store of backups does not work from the leader, %s: %v", a.cfg.ServerID, err)
		}
		if _, _, err := a.cfg.Pipeline.ProposeAsLeader(ctx, payload); err != nil {
			return answer, rejectf(http.StatusServiceUnavailable, "whether the settings hold now is not known: %v; repeat it", err)
		}
	}
	v := a.cfg.Machine.View()
	defer v.Release()
	if answer, err = a.settings(v); err != nil {
		return answer, err
	}
	if request != (admin.SettingsChange{}) {
		a.cfg.Logger.InfoContext(ctx, "changed the settings, as an operator asked", "settings", answer.String(), "by", cluster.PeerID(ctx))
	}
	return answer, nil
}

// checkWelcome rejects an entry that is missing or not visible.
func (a *Server) checkWelcome(id *string) error {
	if id == nil || *id == "" {
		return nil
	}
	v := a.cfg.Machine.View()
	defer v.Release()
	seq, known := v.Resolve(*id)
	if !known {
		return fmt.Errorf("there is no entry %s; publish the welcome first, and give the id in the answer", *id)
	}
	is, err := v.Visibility(seq)
	if err == nil && is != view.Visible {
		err = fmt.Errorf("%s is %s; give a visible entry", *id, is)
	}
	return err
}

// tryStore writes to a new store of backups, reads from it, and deletes there.
func (a *Server) tryStore(ctx context.Context, url *string) error {
	if url == nil || *url == "" {
		return nil
	}
	store, err := offsite.Open(*url, a.cfg.Store)
	if err != nil {
		return err
	}
	return offsite.Try(ctx, store, a.cfg.ClusterID())
}

// tryRetention returns the present settings, and how many entries a retention would
// affect.
func (a *Server) tryRetention(days *uint64) (answer admin.SettingsReport, err error) {
	v := a.cfg.Machine.View()
	defer v.Release()
	if answer, err = a.settings(v); err != nil || days == nil || *days == 0 {
		return answer, err
	}
	answer.Older, err = v.Older(*days, a.now())
	return answer, err
}

// now is the corrected time, in milliseconds since the epoch.
func (a *Server) now() int64 { return a.cfg.Pipeline.Clocks().Corrected().UnixMilli() }

func (a *Server) settings(v *view.View) (admin.SettingsReport, error) {
	set, err := v.Settings()
	if err != nil {
		return admin.SettingsReport{}, err
	}
	now := max(a.now(), v.Time()) // as the next log entry
	used, err := v.Budget(now)
	if err != nil {
		return admin.SettingsReport{}, err
	}
	run, err := v.BackupRun()
	if err != nil {
		return admin.SettingsReport{}, err
	}
	swept, waiting, err := v.Sweeps(a.now())
	return admin.SettingsReport{
		Settings: set, Backup: run, SmallShareBytes: set.SmallShare(), UsedBytes: used.Bytes, Senders: used.Senders, DayMillis: now - used.Day.Start(),
		Swept: swept, SweepWaiting: waiting,
	}, err
}

func (a *Server) moderate(_ context.Context, request admin.Moderation) (json.RawMessage, error) {
	status, answer := a.cfg.Moderate(request)
	if status == http.StatusOK {
		return answer, nil
	}
	return nil, rejectf(status, "%s", cmp.Or(admin.PublicError(answer), "this node does not serve yet; repeat, or ask another one"))
}
