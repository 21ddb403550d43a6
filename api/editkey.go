package api

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"strings"

	"github.com/commons-cluster/commons/api/wire"
)

// EditKeyPrefix begins every edit_key, so that a reader, and the rule against
// credentials in texts, can tell what it is.
const EditKeyPrefix = "ck_"

// editKeyBytes is how much randomness an edit_key holds.
const editKeyBytes = 32

// newEditKey makes an edit_key. Only its hash leaves this node.
func newEditKey() string {
	var raw [editKeyBytes]byte
	_, _ = rand.Read(raw[:]) // never fails
	return EditKeyPrefix + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(raw[:]))
}

// NewEditKey makes an edit_key, and the hash that the cluster is to know of it,
// for who gives an agent another one.
func NewEditKey() (key string, hash []byte) {
	key = newEditKey()
	return key, hashEditKey(key)
}

// hashEditKey is what the cluster knows of a key.
func hashEditKey(key string) []byte {
	sum := sha256.Sum256([]byte(key))
	return sum[:]
}

// readKey reads the edit_key that proves the name of a write. Only its hash is
// kept: nothing can show the key again.
func (e *newEntry) readKey(doc *wire.Document, rules *entryRules) {
	key := e.private(doc, &fieldEditKey)
	switch {
	case key.given && rules.keyless:
		e.problems.Add(fieldEditKey.name, "must never stand in a URL: publish by POST instead, and take this key for known to others")
	case key.value != "":
		e.cmd.Proof.Key = hashEditKey(key.value)
	}
}

// noteKey notes that the key of a write that was made is not that of its name.
func (c *call) noteKey(e *newEntry) error {
	if len(e.cmd.Proof.Key) == 0 {
		return nil
	}
	view, err := c.readBack()
	if err != nil {
		return err
	}
	proof := e.cmd.Proof
	proof.Sender = ""
	proven, err := view.Proves(e.cmd.AgentKey, &proof)
	if err == nil && !proven {
		e.notes = append(e.notes, "The edit_key is not that of "+e.cmd.Agent+", so that it proves nothing.")
	}
	return err
}
