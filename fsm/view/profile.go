package view

import (
	"cmp"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/index"
	"github.com/commons-cluster/commons/fsm/state"
)

// MaxProfileScan bounds the hits of a search for one page. Replaced revisions are hits,
// too.
const MaxProfileScan = 4096

// Profile is the public part of an agent's profile (interface, 2.3). Texts may be empty.
type Profile struct {
	ID           string // the name as it was first spelled
	Description  string
	Capabilities []string
	Endpoint     string
	Note         string
	Protected    bool // writes under the name need its edit_key
}

// Profile returns an agent's profile, and false if the agent has not registered.
func (v *View) Profile(agentKey string) (Profile, bool, error) {
	p, known, err := v.shownProfile(agentKey)
	if err != nil || !known {
		return Profile{}, false, err
	}
	return Profile{
		ID: p.ID, Description: p.Description, Capabilities: p.Capabilities, Endpoint: p.Endpoint,
		Note: p.Note, Protected: p.Protected,
	}, true, nil
}

// KeyOwner returns the agent that the edit_key with a hash belongs to, as spelled, or "".
func (v *View) KeyOwner(hash []byte) (agent string, err error) {
	agentKey, known, err := state.GetRow(v.snap, state.OwnerKey(hash))
	if err != nil || !known {
		return "", err
	}
	p, _, err := v.profile(string(agentKey))
	return p.ID, err
}

// HasKey reports whether the edit_key with a hash is that of an agent.
func (v *View) HasKey(agentKey string, hash []byte) (bool, error) {
	owner, known, err := state.GetRow(v.snap, state.OwnerKey(hash))
	return known && string(owner) == agentKey, err
}

// Signer is the signer of a call, with the parts of its profile that it is told about.
type Signer struct {
	command.Standing
	Shown  bool   // the profile is not deleted
	Note   string // unless a moderator has hidden the profile
	Paused bool   // deliveries wait for another secret
}

// Signer returns the signer of a call. It is zero without a profile.
func (v *View) Signer(by command.Signature) (Signer, error) {
	s := &viewState{v: v}
	j := state.WriterOf(s, by)
	p := &j.Profile
	signer := Signer{j.Standing, j.Registered && !p.Deleted, p.Note, p.Paused()}
	if p.Hidden() {
		signer.Note = ""
	}
	return signer, s.err
}

// shownProfile is profile as everybody may see it.
func (v *View) shownProfile(agentKey string) (state.ProfileRow, bool, error) {
	p, known, err := v.profile(agentKey)
	known = known && !p.Deleted
	if p.Hidden() {
		p.ProfileFields = state.ProfileFields{Protected: p.Protected}
	}
	return p, known, err
}

func (v *View) profile(agentKey string) (state.ProfileRow, bool, error) {
	s := &viewState{v: v}
	p, known := state.Read(s, state.ProfileKey(agentKey), state.Decode[state.ProfileRow])
	return p, known && s.err == nil, s.err
}

// AppendProfile appends the profile's JSON to dst, or returns ErrNotFound.
func (v *View) AppendProfile(dst []byte, agentKey string) ([]byte, error) {
	p, known, err := v.shownProfile(agentKey)
	if err != nil || !known {
		return dst, cmp.Or(err, state.ErrNotFound)
	}
	return p.AppendJSON(dst), nil
}

// AppendOriginalProfile is AppendProfile with the texts of a hidden profile, for
// moderators.
func (v *View) AppendOriginalProfile(dst []byte, agentKey string) ([]byte, error) {
	p, known, err := v.profile(agentKey)
	if err != nil || !known {
		return dst, cmp.Or(err, state.ErrNotFound)
	}
	return p.AppendJSON(dst), nil
}

// AppendRevisions appends the JSON of profiles that ListProfiles returned, with commas.
func (v *View) AppendRevisions(dst []byte, revisions []uint64) ([]byte, error) {
	return appendEach(dst, revisions, func(dst []byte, i int) ([]byte, error) {
		agentKey, ok, err := state.GetRow(v.snap, state.SeqKey(state.SpaceRevision, revisions[i]))
		if err != nil || !ok {
			return dst, cmp.Or(err, state.ErrNotFound)
		}
		return v.AppendProfile(dst, string(agentKey))
	})
}

// ListProfiles returns the revisions of the profiles that have all words of q.Q, the last one as a prefix,
// most recently updated first, and the Before of the next page, which is 0 on the last one. A page of a
// search may be short without being the last.
func (v *View) ListProfiles(q Query) (revisions []uint64, next uint64, err error) {
	q.Limit = state.PageLimit(q.Limit)
	if q.Q != "" {
		return v.searchProfiles(q)
	}
	return v.newestRows(state.SpaceRevision, q.Before, q.Limit, MaxProfileScan, func(agentKey []byte) (bool, error) {
		return !state.IsHiddenRevision(agentKey), nil
	})
}

// searchProfiles finds profiles by words. It looks at a bounded number of revisions.
func (v *View) searchProfiles(q Query) (found []uint64, next uint64, err error) {
	search := index.Query{Min: 1, Before: q.Before, Limit: command.MaxList, Work: q.Work}
	if _, some := addText(q.Q, &search); !some {
		return nil, 0, nil
	}
	for scanned := 0; ; {
		hits, more, err := v.profiles.Search(v.snap, search)
		if err != nil {
			return nil, 0, err
		}
		for _, revision := range hits {
			row, newest, err := state.GetRow(v.snap, state.SeqKey(state.SpaceRevision, revision))
			if err != nil || !newest || state.IsHiddenRevision(row) {
				if err != nil {
					return nil, 0, err
				}
				continue
			}
			if len(found) == q.Limit {
				return found, found[len(found)-1], nil
			}
			found = append(found, revision)
		}
		if !more {
			return found, 0, nil
		}
		search.Before = hits[len(hits)-1]
		if scanned += len(hits); scanned >= MaxProfileScan {
			return found, search.Before, nil
		}
	}
}
