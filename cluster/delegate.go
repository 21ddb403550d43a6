package cluster

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/fxamacker/cbor/v2"
	"github.com/hashicorp/memberlist"
)

// delegate is Gossip as memberlist calls it. Its methods run under memberlist's
// lock: they must not call memberlist and must not block.
type delegate Gossip

var (
	_ memberlist.Delegate         = (*delegate)(nil)
	_ memberlist.EventDelegate    = (*delegate)(nil)
	_ memberlist.AliveDelegate    = (*delegate)(nil)
	_ memberlist.MergeDelegate    = (*delegate)(nil)
	_ memberlist.ConflictDelegate = (*delegate)(nil)
)

// NodeMeta is what this node says about itself.
func (d *delegate) NodeMeta(int) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.encoded
}

// Nodes send no messages of their own, and add nothing to full exchanges.
func (d *delegate) NotifyMsg([]byte)                {}
func (d *delegate) GetBroadcasts(int, int) [][]byte { return nil }
func (d *delegate) LocalState(bool) []byte          { return nil }
func (d *delegate) MergeRemoteState([]byte, bool)   {}

// NotifyAlive rejects members of another cluster. A member of this cluster that moved
// to another one is no member here any more, although memberlist keeps its old
// metadata.
func (d *delegate) NotifyAlive(node *memberlist.Node) error {
	if node.Name == d.cfg.Name {
		return nil
	}
	err := d.checkCluster(node)
	if err == nil {
		return nil
	}
	d.mu.Lock()
	_, known := d.members[node.Name]
	delete(d.members, node.Name)
	d.mu.Unlock()
	if known {
		notify(d.changed)
	}
	return err
}

// NotifyMerge rejects a join by, or to, members of another cluster.
func (d *delegate) NotifyMerge(nodes []*memberlist.Node) error {
	for _, node := range nodes {
		if node.Name == d.cfg.Name || node.State == memberlist.StateDead || node.State == memberlist.StateLeft {
			continue
		}
		if err := d.checkCluster(node); err != nil {
			return err
		}
	}
	return nil
}

func (d *delegate) checkCluster(node *memberlist.Node) error {
	meta, err := DecodeMeta(node.Meta)
	if err != nil {
		return nil //nolint:nilerr // it may be newer than this program: it is relayed, but no member here
	}
	d.mu.Lock()
	own := d.meta.ClusterID
	d.mu.Unlock()
	if sameCluster(own, meta.ClusterID) {
		return nil
	}
	(*Gossip)(d).noteStranger(meta, node.Address())
	if suppressed, ok := d.lines.allow("cluster " + node.Address() + meta.ClusterID); ok {
		d.logger.Warn("rejected a node of another cluster", "server", node.Name, "address", node.Address(),
			"cluster", meta.ClusterID, "own_cluster", own, "suppressed", suppressed)
	}
	return fmt.Errorf("server %s belongs to cluster %s, this node to cluster %s", node.Name, meta.ClusterID, own)
}

func (d *delegate) NotifyConflict(existing, other *memberlist.Node) {
	if suppressed, ok := d.lines.allow("conflict " + other.Address()); ok {
		d.logger.Warn("a server shows up at a second address; it is believed once the first is dead",
			"server", other.Name, "known_at", existing.Address(), "seen_at", other.Address(), "suppressed", suppressed)
	}
}

func (d *delegate) NotifyJoin(node *memberlist.Node) {
	if d.note(node) && node.Name != d.cfg.Name {
		d.logger.Info("member joined", "server", node.Name, "gossip", node.Address())
	}
}

func (d *delegate) NotifyUpdate(node *memberlist.Node) { d.note(node) }

// note takes a member over, unless what it says cannot be read.
func (d *delegate) note(node *memberlist.Node) bool {
	addr := node.Address()
	meta, err := DecodeMeta(node.Meta)
	if err == nil && meta.ServerID != node.Name {
		err = fmt.Errorf("it gives the server id %q", meta.ServerID)
	}
	defer notify(d.changed)
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.lost, node.Name)
	if err != nil {
		delete(d.members, node.Name)
		if suppressed, ok := d.lines.allow("meta " + node.Name + err.Error()); ok {
			d.logger.Warn("ignored a gossip member whose metadata cannot be read", "server", node.Name, "address", addr, "error", err, "suppressed", suppressed)
		}
		return false
	}
	if node.Name == d.cfg.Name {
		meta = d.meta // SetMeta may be ahead of what memberlist has
	}
	d.members[node.Name] = Member{Meta: meta, GossipAddr: addr}
	return true
}

func (d *delegate) NotifyLeave(node *memberlist.Node) {
	addr := node.Address()
	d.mu.Lock()
	delete(d.members, node.Name)
	if node.Name != d.cfg.Name {
		(*Gossip)(d).rememberLost(node.Name, addr)
	}
	d.mu.Unlock()
	notify(d.changed)
	if node.Name != d.cfg.Name {
		d.logger.Info("member gone", "server", node.Name, "gossip", addr)
	}
}

const (
	// MaxMetaBytes bounds an encoded Meta: memberlist's limit.
	MaxMetaBytes = memberlist.MetaMaxSize
	// MaxClusterIDLen is the longest cluster id, in bytes.
	MaxClusterIDLen = 64
	// ClusterIDBytes is how many bytes a cluster id holds, in hexadecimal.
	ClusterIDBytes = 8

	metaVersion      = 1
	maxVersionLen    = 64
	maxExpect        = 1000
	maxFormat        = 1 << 16
	maxMetaPairs     = 64
	maxMetaNesting   = 8
	maxMetaArrayLen  = 64
	maxHostPortExtra = len("[]:65535")
)

// Meta is what a node publishes about itself through gossip. The numbers
// are the wire format; fields that a reader does not know are ignored.
type Meta struct {
	ServerID    string `cbor:"1,keyasint"`
	NodeName    string `cbor:"2,keyasint"`
	ClusterAddr string `cbor:"3,keyasint"`            // host:port of the private port
	HTTPAddr    string `cbor:"4,keyasint,omitempty"`  // host:port of public HTTP
	Version     string `cbor:"5,keyasint,omitempty"`  // of the program
	ClusterID   string `cbor:"6,keyasint,omitempty"`  // "" while it belongs to no cluster
	Expect      int    `cbor:"7,keyasint,omitempty"`  // bootstrap-expect
	Fresh       bool   `cbor:"8,keyasint,omitempty"`  // it has no Raft state yet
	NonVoter    bool   `cbor:"9,keyasint,omitempty"`  // it does not want to vote
	FreeMiB     uint64 `cbor:"10,keyasint,omitempty"` // free disk space, 0 when unknown
	DiskLow     bool   `cbor:"11,keyasint,omitempty"` // less than its reserve is free
	Format      int    `cbor:"12,keyasint,omitempty"` // newest format that its program knows
	Slow        bool   `cbor:"13,keyasint,omitempty"` // its disk or its processor is too slow to lead
	Leaving     bool   `cbor:"20,keyasint,omitempty"` // it is not to be taken in again
}

var (
	metaEncoder = mustEncMode()
	metaDecoder = mustDecMode()
)

func mustEncMode() cbor.EncMode {
	mode, err := cbor.CoreDetEncOptions().EncMode()
	if err != nil {
		panic(err) //nolint:forbidigo // constant options
	}
	return mode
}

func mustDecMode() cbor.DecMode {
	mode, err := cbor.DecOptions{
		DupMapKey:        cbor.DupMapKeyEnforcedAPF,
		IndefLength:      cbor.IndefLengthForbidden,
		TagsMd:           cbor.TagsForbidden,
		MaxNestedLevels:  maxMetaNesting,
		MaxArrayElements: maxMetaArrayLen,
		MaxMapPairs:      maxMetaPairs,
	}.DecMode()
	if err != nil {
		panic(err) //nolint:forbidigo // constant options
	}
	return mode
}

// Encode checks a Meta and gives its wire form: a version byte and CBOR.
func (m Meta) Encode() ([]byte, error) {
	if err := m.check(); err != nil {
		return nil, fmt.Errorf("gossip metadata: %w", err)
	}
	body, err := metaEncoder.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("gossip metadata: %w", err)
	}
	if n := 1 + len(body); n > MaxMetaBytes {
		return nil, fmt.Errorf("gossip metadata has %d bytes, at most %d are allowed: advertise shorter host names", n, MaxMetaBytes)
	}
	return append([]byte{metaVersion}, body...), nil
}

// DecodeMeta reverses Encode. It accepts nothing that Encode would reject.
func DecodeMeta(data []byte) (Meta, error) {
	if len(data) == 0 || len(data) > MaxMetaBytes {
		return Meta{}, fmt.Errorf("gossip metadata has %d bytes, 1 to %d are allowed", len(data), MaxMetaBytes)
	}
	if data[0] != metaVersion {
		return Meta{}, fmt.Errorf("gossip metadata has version %d, this program knows %d", data[0], metaVersion)
	}
	var m Meta
	if err := metaDecoder.Unmarshal(data[1:], &m); err != nil {
		return Meta{}, fmt.Errorf("gossip metadata: %w", err)
	}
	if err := m.check(); err != nil {
		return Meta{}, fmt.Errorf("gossip metadata: %w", err)
	}
	return m, nil
}

func (m Meta) check() error {
	var problems []error
	if !ValidServerID(m.ServerID) {
		problems = append(problems, fmt.Errorf("server id %q is not valid", m.ServerID))
	}
	problems = append(problems, CheckNodeName(m.NodeName), checkHostPort("cluster", m.ClusterAddr))
	if m.HTTPAddr != "" {
		problems = append(problems, checkHostPort("http", m.HTTPAddr))
	}
	if len(m.Version) > maxVersionLen || strings.ContainsFunc(m.Version, func(r rune) bool { return !unicode.IsPrint(r) }) {
		problems = append(problems, errors.New("program version is too long or not printable"))
	}
	if m.ClusterID != "" {
		problems = append(problems, CheckClusterID(m.ClusterID))
	}
	if m.Expect < 0 || m.Expect > maxExpect {
		problems = append(problems, fmt.Errorf("expected voters %d, 0 to %d are allowed", m.Expect, maxExpect))
	}
	if m.Format < 0 || m.Format > maxFormat {
		problems = append(problems, fmt.Errorf("format %d, 0 to %d are allowed", m.Format, maxFormat))
	}
	return errors.Join(problems...)
}

// NewClusterID returns a random cluster id.
func NewClusterID() string {
	id := make([]byte, ClusterIDBytes)
	_, _ = rand.Read(id) // never fails
	return hex.EncodeToString(id)
}

// CheckClusterID returns an error unless the id is 2 to MaxClusterIDLen ASCII
// letters, digits and inner hyphens: certificates hold it as a host name.
func CheckClusterID(id string) error {
	ok := len(id) > 1 && len(id) <= MaxClusterIDLen && id[0] != '-' && id[len(id)-1] != '-' &&
		strings.IndexFunc(id, func(r rune) bool { return !isNameRune(r) || r == '.' || r == '_' }) < 0
	if !ok {
		return fmt.Errorf("cluster id %q is not valid", id)
	}
	return nil
}

func checkHostPort(what, addr string) error {
	if len(addr) > maxHostLen+maxHostPortExtra {
		return fmt.Errorf("%s address has %d characters, at most %d are allowed", what, len(addr), maxHostLen+maxHostPortExtra)
	}
	host, port, err := splitAddr(addr)
	if err != nil {
		return fmt.Errorf("%s %w", what, err)
	}
	if host == "" || port == 0 || strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Errorf("%s address %q needs a host and a port", what, addr)
	}
	return nil
}
