package fsm

import (
	"bytes"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/fsm/fsmtest"

	"github.com/hashicorp/raft"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/snapshot"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

var testFounding = Founding{
	ClusterID: "second", SealedDataKey: []byte("sealed anew"),
	Configuration: raft.EncodeConfiguration(raft.Configuration{
		Servers: []raft.Server{{Suffrage: raft.Voter, ID: "m1", Address: "m1"}},
	}),
}

// exportOf exports a machine's state and returns the stream with what was said
// of it.
func exportOf(t *testing.T, m *Machine) (data []byte, sum Summary, rows [32]byte) {
	t.Helper()
	e, err := m.Export()
	must.Do(t, err)
	check.Err(t, check.Last(m.Export()), snapshot.ErrExporting, "a second export at the same time")
	data = must.Get(io.ReadAll(e))(t)
	check.Equal(t, int64(len(data)), e.Size(), "bytes, as announced,")
	rows = must.Get(e.RowDigest())(t)
	must.Do(t, e.Close())
	return data, e.Summary, rows
}

// TestExportLeavesTheCache: the rows that an export reads do not displace those of requests.
func TestExportLeavesTheCache(t *testing.T) {
	r := newRig(t)
	for range 300 {
		r.Run(fsmtest.Post("ada", nil))
	}
	e := must.Get(r.Export())(t)
	v := r.acquire()
	defer v.Release()
	before := v.store.DB.Metrics().BlockCache
	must.Get(e.RowDigest())(t)
	check.Equal(t, v.store.DB.Metrics().BlockCache.Size, before.Size, "the cache after the export's rows were read")
	must.Do(t, e.Close())
}

func TestExportBecomesANewCluster(t *testing.T) {
	r := newRig(t)
	r.Run(&command.Init{ClusterID: "first", SealedDataKey: []byte("sealed")})
	for range 300 {
		r.Run(fsmtest.Post("ada", func(p *command.Publish) { p.Request = command.RequestKey{Scope: "ada", ID: "request-x"} }), fsmtest.Post("bob", nil))
	}
	data, sum, rows := exportOf(t, r.Machine)
	index, rolling := r.Digest()
	v := r.View()
	want, err := v.RowDigest(t.Context())
	v.Release()
	must.Do(t, err)
	if sum.ClusterID != "first" || sum.Index != index || sum.Rolling != rolling || sum.Entries == 0 || rows != want {
		t.Errorf("the export says %+v and rows %x, want index %d, digest %x, rows %x", sum, rows, index, rolling, want)
	}
	if at, content, err := snapshot.CheckStream(bytes.NewReader(data)); err != nil || at.Index != index || content == 0 {
		t.Errorf("the stream is at %v, %d bytes of files, %v", at, content, err)
	}

	dir := filepath.Join(t.TempDir(), "state")
	got := must.Get(Import(Options{Dir: dir}, bytes.NewReader(data), testFounding))(t)
	if got.Rows != rows || got.Rolling != rolling {
		t.Errorf("the import has the rows %x and the digest %x", got.Rows, got.Rolling)
	}
	m := openAt(t, dir)
	defer closeMachine(t, m)
	v = m.View()
	defer v.Release()
	check.Equal(t, v.ClusterID(), "second", "the new cluster id")
	check.Equal(t, string(v.SealedDataKey()), "sealed anew", "the new cluster: sealed data key")
	if at, digest := m.Digest(); at != index || digest != rolling {
		t.Errorf("the new cluster is at %d with the digest %x", at, digest)
	}
	check.Equal(t, must.Get(v.RowDigest(t.Context()))(t), want, "its rows")
	metas, err := m.Snapshots().List()
	if err != nil || len(metas) != 1 || metas[0].Index != index || metas[0].Configuration.Servers[0].ID != "m1" {
		t.Errorf("its snapshots are %+v, %v", metas, err)
	}
	// Its stream to followers carries its own name and servers.
	meta, _, err := send(m)
	if err != nil || meta.Configuration.Servers[0].ID != "m1" || m.RestoreOnStart() {
		t.Errorf("it sends %+v, %v", meta, err)
	}
}

// TestNewDataKeyPausesReceivers: a cluster with another data key sends no event until its agent sets the
// receiver again, and lacks no part of the state.
func TestNewDataKeyPausesReceivers(t *testing.T) {
	for name, anew := range map[string]bool{"the same data key": false, "another data key": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.Run(&command.Init{ClusterID: "first", SealedDataKey: []byte("sealed")}, fsmtest.RegisterWithReceiver("ada", nil), fsmtest.RegisterWithReceiver("bob", nil), fsmtest.ChangeReceiver("bob", ""))
			r.Run(fsmtest.Post("eve", fsmtest.Mention("ada", "bob")), fsmtest.Post("eve", fsmtest.Mention("ada")))
			r.Attempt("ada", command.AttemptFailed, nil)
			data, _, rows := exportOf(t, r.Machine)
			as := testFounding
			as.NewDataKey = anew
			dir := filepath.Join(t.TempDir(), "state")
			got := must.Get(Import(Options{Dir: dir}, bytes.NewReader(data), as))(t)
			check.Equal(t, got.Rows, rows, "imported %+v: rows", got)
			check.Equal(t, got.Entries, 2, "imported %+v: entries", got)
			obs := &recorder{}
			restored := rigOf(t, r.log, obs, openAt(t, dir, func(o *Options) { o.Observer = obs }))
			const waiting = "mention e1 waiting status_500, mention e2 waiting"
			check.Equal(t, restored.Summary("ada"), waiting, "the deliveries to ada")
			check.Equal(t, restored.Outbox("ada").Paused, anew, "paused")
			check.Equal(t, len(restored.Due(restored.Now()+fsmtest.Hour)) == 0, anew, "nothing is due within an hour")
			if !anew {
				return
			}
			restored.WantProblem(&command.TestDelivery{AgentKey: "ada", Proof: command.Proof{Key: fsmtest.KeyHash("key of ada")}}, command.ProblemNoHook)
			restored.Run(fsmtest.Post("eve", fsmtest.Mention("ada")))
			check.Equal(t, restored.Summary("ada"), waiting+", mention e3 waiting", "the deliveries to ada while paused")
			unproven := fsmtest.ChangeReceiver("ada", fsmtest.AdaReceiver)
			unproven.Proof.Key = nil
			check.Equal(t, restored.Run(unproven)[0].Outcome, command.OutcomeUnchanged, "the same receiver without the key")
			check.Equal(t, restored.Outbox("ada").Paused, true, "paused without the key")
			restored.WantDone(fsmtest.ChangeReceiver("ada", fsmtest.AdaReceiver))
			check.Equal(t, restored.Outbox("ada").Paused, false, "paused after the receiver was set again")
			restored.Attempt("ada", command.AttemptDelivered, nil)
			check.Equal(t, restored.Summary("ada"), "mention e1 delivered, mention e2 waiting, mention e3 waiting", "the deliveries to ada")
		})
	}
}

// TestImportRejectsANewerFormat holds that a state is not restored that this program
// could not open afterwards.
func TestImportRejectsANewerFormat(t *testing.T) {
	m := openAt(t, t.TempDir(), func(o *Options) { o.MaxFormat = command.MaxFormat + 1 })
	l := newLog(t)
	l.feed(m, 1, l.commands(&command.Init{ClusterID: "first", SealedDataKey: []byte("sealed")}, &command.SetFormat{Format: command.MaxFormat + 1}))
	data, _, _ := exportOf(t, m)
	_, err := Import(Options{Dir: filepath.Join(t.TempDir(), "state")}, bytes.NewReader(data), testFounding)
	check.Err(t, err, command.ErrNewerFormat, "import")
}

func TestImportRejects(t *testing.T) {
	r := newRig(t)
	r.Run(&command.Init{ClusterID: "first", SealedDataKey: []byte("sealed")}, fsmtest.Post("ada", nil))
	data, _, _ := exportOf(t, r.Machine)
	flipped := bytes.Clone(data)
	flipped[len(flipped)/2] ^= 1
	for name, tc := range map[string]struct {
		data []byte
		as   Founding
	}{
		"a damaged stream": {flipped, testFounding},
		"a cut stream":     {data[:len(data)-1], testFounding},
		"a longer stream":  {append(bytes.Clone(data), 0), testFounding},
		"no cluster id":    {data, Founding{SealedDataKey: []byte("x"), Configuration: testFounding.Configuration}},
		"no configuration": {data, Founding{ClusterID: "x", SealedDataKey: []byte("x")}},
		"something else":   {[]byte("something else entirely"), testFounding},
		"nothing":          {nil, testFounding},
	} {
		dir := filepath.Join(t.TempDir(), "state")
		check.Fails(Import(Options{Dir: dir}, bytes.NewReader(tc.data), tc.as))(t, "%s is imported", name)
		_, _, err := snapshot.CheckStream(bytes.NewReader(tc.data))
		check.Equal(t, err == nil, bytes.Equal(tc.data, data), "%s: accepted, %v", name, err)
	}
	if _, err := Import(Options{Dir: r.opts.Dir}, bytes.NewReader(data), testFounding); err == nil || !strings.Contains(err.Error(), "is not empty") {
		t.Errorf("a state was imported over another one: %v", err)
	}
}

func TestRefoundAState(t *testing.T) {
	dir := t.TempDir()
	m := openAt(t, dir)
	l := newLog(t)
	l.commands(&command.Init{ClusterID: "first", SealedDataKey: []byte("sealed")}, fsmtest.Post("ada", nil))
	l.feed(m, 1, l.last())
	must.Do(t, takeSnapshot(m, l.last()+3, 1))
	_, rolling := m.Digest()
	closeMachine(t, m)
	sum := must.Get(Refound(Options{Dir: dir}, testFounding))(t)
	check.Equal(t, sum.ClusterID, "first", "refounded %+v: cluster id", sum)
	check.Equal(t, sum.Index, l.last()+3, "refounded %+v: index", sum)
	m = openAt(t, dir)
	defer closeMachine(t, m)
	v := m.View()
	defer v.Release()
	if _, digest := m.Digest(); v.ClusterID() != "second" || digest != rolling {
		t.Errorf("cluster %q, digest %x, want %x", v.ClusterID(), digest, rolling)
	}
	if meta, _, err := send(m); err != nil || meta.Configuration.Servers[0].ID != "m1" || meta.Index != l.last()+3 {
		t.Errorf("it sends %+v, %v", meta, err)
	}
}
