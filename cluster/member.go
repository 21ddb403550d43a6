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

// Member is a live node of this cluster, or a node that belongs to no cluster yet.
type Member struct {
	Meta
	GossipAddr string // IP:port
}

func sameCluster(a, b string) bool { return a == "" || b == "" || a == b }

// Limits of the metadata.
const (
	MaxMetaBytes    = memberlist.MetaMaxSize // of an encoded Meta
	MaxClusterIDLen = 64                     // bytes
	ClusterIDBytes  = 8                      // random bytes in a new cluster id

	metaVersion      = 1
	maxVersionLen    = 64
	maxExpect        = 1000
	maxFormat        = 1 << 16
	maxMetaPairs     = 64
	maxMetaNesting   = 8
	maxMetaArrayLen  = 64
	maxHostPortExtra = len("[]:65535")
)

// Meta is the metadata that a node publishes through gossip. The field numbers are the
// wire format; readers ignore unknown fields.
type Meta struct {
	ServerID    string `cbor:"1,keyasint"`
	NodeName    string `cbor:"2,keyasint"`
	ClusterAddr string `cbor:"3,keyasint"`            // host:port of the private port
	HTTPAddr    string `cbor:"4,keyasint,omitempty"`  // host:port of public HTTP
	Version     string `cbor:"5,keyasint,omitempty"`  // of the program
	ClusterID   string `cbor:"6,keyasint,omitempty"`  // empty before the node joins a cluster
	Expect      int    `cbor:"7,keyasint,omitempty"`  // bootstrap-expect
	Fresh       bool   `cbor:"8,keyasint,omitempty"`  // the node has no Raft state yet
	NonVoter    bool   `cbor:"9,keyasint,omitempty"`  // the node must not become a voter
	DiskLow     bool   `cbor:"10,keyasint,omitempty"` // free disk space is below the reserve
	Format      int    `cbor:"11,keyasint,omitempty"` // newest format that the node's program supports
	Slow        bool   `cbor:"12,keyasint,omitempty"` // the node's disk or processor is too slow to lead
	Leaving     bool   `cbor:"13,keyasint,omitempty"` // the node leaves the cluster and must not be added again
}

var (
	metaEncoder = validMode(cbor.CoreDetEncOptions().EncMode())
	metaDecoder = validMode(cbor.DecOptions{
		DupMapKey:        cbor.DupMapKeyEnforcedAPF,
		IndefLength:      cbor.IndefLengthForbidden,
		TagsMd:           cbor.TagsForbidden,
		MaxNestedLevels:  maxMetaNesting,
		MaxArrayElements: maxMetaArrayLen,
		MaxMapPairs:      maxMetaPairs,
	}.DecMode())
)

func validMode[Mode any](mode Mode, err error) Mode {
	if err != nil {
		panic(err) //nolint:forbidigo // constant options
	}
	return mode
}

// Encode validates m and returns its wire form: a version byte and CBOR.
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

// decodeMeta reverses Encode. It rejects a Meta that Encode would reject.
func decodeMeta(data []byte) (Meta, error) {
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
	if !validServerID(m.ServerID) {
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
		problems = append(problems, checkClusterID(m.ClusterID))
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

// checkClusterID returns an error unless the id is 2 to MaxClusterIDLen ASCII
// letters, digits and inner hyphens: certificates hold it as a host name.
func checkClusterID(id string) error {
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
