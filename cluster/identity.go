package cluster

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// IdentityFile is the name of the file in a data directory with the identity.
const IdentityFile = "server-id.json"

// Limits of an identity.
const (
	MaxNodeNameLen = 63                               // bytes
	MaxServerIDLen = MaxNodeNameLen + 1 + suffixChars // name, hyphen, suffix

	suffixBytes = 5
	suffixChars = 8 // base 32 of suffixBytes

	identityVersion = 1
)

// suffixEncoding avoids letters that are easily mistaken for digits.
var suffixEncoding = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// Identity identifies a node as long as its data directory exists. A node with a wiped
// directory is a new server under the same name.
type Identity struct {
	NodeName string `json:"nodeName"`        // given by the operator
	ServerID string `json:"serverId"`        // node name, hyphen, random suffix
	LogID    string `json:"logId,omitempty"` // of the Raft log that belongs to it; empty before there is a log
}

type identityRecord struct {
	Version int `json:"version"`
	Identity
}

// CheckNodeName returns an error unless the name is 1 to MaxNodeNameLen ASCII
// letters, digits, dots, underscores and hyphens.
func CheckNodeName(name string) error {
	if name == "" || len(name) > MaxNodeNameLen {
		return fmt.Errorf("node name %q has %d characters, 1 to %d are allowed", name, len(name), MaxNodeNameLen)
	}
	if i := strings.IndexFunc(name, func(r rune) bool { return !isNameRune(r) }); i >= 0 {
		return fmt.Errorf("node name %q: only letters, digits, '.', '_' and '-' are allowed", name)
	}
	return nil
}

// validServerID reports whether id has the form of a server id.
func validServerID(id string) bool {
	return id != "" && len(id) <= MaxServerIDLen && strings.IndexFunc(id, func(r rune) bool { return !isNameRune(r) }) < 0
}

func isNameRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-'
}

// LoadIdentity returns the identity kept in the data directory, or makes one there. An empty
// nodeName means the kept name, else the host name. A name that contradicts the kept one, and
// a damaged file, are errors: neither may turn one server into another.
func LoadIdentity(dir, nodeName string) (Identity, error) {
	if nodeName != "" {
		if err := CheckNodeName(nodeName); err != nil {
			return Identity{}, err
		}
	}
	path := filepath.Join(dir, IdentityFile)
	data, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return makeIdentity(dir, nodeName)
	case err != nil:
		return Identity{}, fmt.Errorf("read the server id: %w", err)
	}
	var kept identityRecord
	if err := json.Unmarshal(data, &kept); err != nil || kept.Version != identityVersion ||
		CheckNodeName(kept.NodeName) != nil || !validServerID(kept.ServerID) {
		return Identity{}, fmt.Errorf("%s is damaged or from a newer version; restore it, or empty the whole data directory so that the node joins as a new server", path)
	}
	if nodeName != "" && nodeName != kept.NodeName {
		return Identity{}, fmt.Errorf("this node is to be %q but its data directory %s belongs to %q (server id %s); use that name, or another data directory",
			nodeName, dir, kept.NodeName, kept.ServerID)
	}
	return kept.Identity, nil
}

func makeIdentity(dir, nodeName string) (Identity, error) {
	if nodeName == "" {
		host, err := os.Hostname()
		if err != nil {
			return Identity{}, fmt.Errorf("no node name given and the host name is unknown: %w", err)
		}
		nodeName = hostNodeName(host)
	}
	id := Identity{NodeName: nodeName, ServerID: nodeName + "-" + newSuffix()}
	if err := id.Keep(dir); err != nil {
		return Identity{}, err
	}
	return id, nil
}

func newSuffix() string {
	suffix := make([]byte, suffixBytes)
	_, _ = rand.Read(suffix) // never fails
	return suffixEncoding.EncodeToString(suffix)
}

// Keep writes the identity to the data directory, through to the disk.
func (id *Identity) Keep(dir string) error {
	data, err := json.Marshal(identityRecord{identityVersion, *id})
	if err == nil {
		err = WriteFileAtomic(filepath.Join(dir, IdentityFile), append(data, '\n'))
	}
	if err != nil {
		return fmt.Errorf("keep the server id: %w", err)
	}
	return nil
}

func hostNodeName(host string) string {
	name := strings.Map(func(r rune) rune {
		if isNameRune(r) {
			return r
		}
		return '-'
	}, host)
	if name == "" {
		name = "node"
	}
	return name[:min(len(name), MaxNodeNameLen)]
}
