package fsm

import (
	"fmt"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/fsm/index"
)

// maxProfileScan is how many hits of a search for profiles are looked at for
// one page: those that were replaced since are hits, too.
const maxProfileScan = 4096

// Profile is what an agent says of itself (interface, 2.3). Empty texts are
// missing.
type Profile struct {
	ID           string // the name as it was first spelled
	Description  string
	Capabilities []string
	Endpoint     string
	Note         string
	CreatedAt    int64 // milliseconds since the epoch
	UpdatedAt    int64 // the same
	Protected    bool  // writes under the name need its edit_key
}

// Profile returns an agent's profile; false when it has none.
func (v *View) Profile(agentKey string) (Profile, bool, error) {
	p, known, err := v.profile(agentKey)
	if err != nil || !known {
		return Profile{}, false, err
	}
	return Profile{
		ID: p.id, Description: p.description, Capabilities: p.capabilities, Endpoint: p.endpoint,
		Note: p.note, CreatedAt: p.createdAt, UpdatedAt: p.updatedAt, Protected: p.protected,
	}, true, nil
}

func (v *View) profile(agentKey string) (profileRow, bool, error) {
	return load(v.snap, profileKey(agentKey), decodeProfileRow)
}

// RegisterProblems returns everything against a change of a profile, as far as
// the view knows.
func (v *View) RegisterProblems(c *command.Register) ([]command.Problem, error) {
	p, known, err := v.profile(c.AgentKey)
	if err != nil {
		return nil, err
	}
	s := &viewState{v: v}
	if !known {
		return againstRegister(c, s, nil), s.err
	}
	return againstRegister(c, s, &p), s.err
}

// AppendProfile appends the profile's JSON to dst. It returns ErrNotFound when
// the agent has none.
func (v *View) AppendProfile(dst []byte, agentKey string) ([]byte, error) {
	p, known, err := v.profile(agentKey)
	if err != nil {
		return dst, err
	}
	if !known {
		return dst, ErrNotFound
	}
	return p.appendJSON(dst), nil
}

// AppendRevisions is AppendProfile for profiles that ListProfiles has returned, with
// commas between them.
func (v *View) AppendRevisions(dst []byte, revisions []uint64) ([]byte, error) {
	return appendEach(dst, revisions, func(dst []byte, i int) ([]byte, error) { return v.appendRevision(dst, revisions[i]) })
}

func (v *View) appendRevision(dst []byte, revision uint64) ([]byte, error) {
	agentKey, ok, err := getRow(v.snap, seqKey(spaceRevision, revision))
	if err != nil {
		return dst, err
	}
	if !ok {
		return dst, ErrNotFound
	}
	return v.AppendProfile(dst, string(agentKey))
}

// appendJSON writes what everybody may see.
func (p *profileRow) appendJSON(dst []byte) []byte {
	dst = appendString(append(dst, `{"id":`...), p.id)
	dst = appendString(append(dst, `,"description":`...), p.description)
	dst = append(dst, `,"capabilities":[`...)
	for i, s := range p.capabilities {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(dst, s)
	}
	dst = appendOptional(append(dst, `],"endpoint":`...), p.endpoint)
	dst = appendOptional(append(dst, `,"note":`...), p.note)
	dst = appendInt(append(dst, `,"createdAt":`...), p.createdAt)
	dst = appendInt(append(dst, `,"updatedAt":`...), p.updatedAt)
	dst = appendBool(append(dst, `,"protected":`...), p.protected)
	return append(dst, '}')
}

// ProfileQuery selects profiles. Zero values select everything.
type ProfileQuery struct {
	Q      string // holding all of these words, the last one as a prefix
	Limit  int    // at most this many; 0: DefaultList; at most MaxList
	Before uint64 // revision < Before; 0: from the newest
	Work   *int   // grows by the steps that the search takes; nil: nobody counts
}

// ListProfiles returns the revisions of the profiles that match q, most recently
// updated first, and the Before of the next page; 0 on the last page. A page of
// a search may be short, or even empty, and yet not the last one.
func (v *View) ListProfiles(q ProfileQuery) (revisions []uint64, next uint64, err error) {
	q.Limit = pageLimit(q.Limit)
	if q.Q != "" {
		revisions, next, err = v.searchProfiles(q)
	} else {
		revisions, err = v.seqsBefore([]byte{spaceRevision}, q.Before, q.Limit+1)
		revisions, next = cutPage(revisions, q.Limit)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("list profiles: %w", err)
	}
	return revisions, next, nil
}

// searchProfiles finds profiles by words. The index knows every revision that
// there ever was; it looks at a bounded number of them.
func (v *View) searchProfiles(q ProfileQuery) (found []uint64, next uint64, err error) {
	search := index.Query{Min: 1, Before: q.Before, Limit: command.MaxList, Work: q.Work}
	if !addWords(q.Q, &search) {
		return nil, 0, nil
	}
	for scanned := 0; ; {
		hits, more, err := v.profiles.Search(v.snap, search)
		if err != nil {
			return nil, 0, err
		}
		for _, revision := range hits {
			if _, newest, err := getRow(v.snap, seqKey(spaceRevision, revision)); err != nil || !newest {
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
		if scanned += len(hits); scanned >= maxProfileScan {
			return found, search.Before, nil
		}
	}
}
