package page

import (
	"cmp"
	"fmt"
	"html/template"
	"slices"
	"strconv"
	"strings"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/api/wire"
)

// node is an entry in the tree of its conversation.
type node struct {
	entry
	HTML template.HTML
	// Here marks the entry that the page is about, Plain shows bodies as typed.
	Here, Plain bool
	Answers     int     // how many entries follow it in the tree
	Closes      []bool  // an item for each entry that ends with this one: whether it has Answers
	Parent      *parent // what it relates to, unless it stands below that; nil if it is unknown
	Left        string
	Short       bool // the body is cut: the page has no room for all of them
	// Corrections are those by its author, oldest first, and Newest is the last of them, or nil. Moved
	// means that the text stands there, as one of the entry that it corrects.
	Corrections []*node
	Newest      *node
	Moved       bool
	// Own are the author's retraction and follow-ups, and Others those of others and their corrections.
	Own, Others []later
	Further     int // of these that are not named
}

// later is an entry that relates to another one.
type later struct {
	client.LaterEntry

	To *parent // nil if it is unknown
}

// parent is what a link to an entry needs.
type parent struct {
	Agent, Words string
	At           string // its address, or its anchor on the same page
}

// parentRunes is the length of the words of a parent.
const parentRunes = 60

func (e *entry) short() *parent {
	words := e.Heading()
	if e.Retracted() {
		words = "retracted"
	} else if e.Derived() || e.Title == "" && e.Hidden == nil {
		words = cut(wire.Collapse(e.Body), parentRunes)
	}
	return &parent{Agent: e.Agent, Words: cut(words, parentRunes), At: cmp.Or(e.anchor, "/e/"+e.ID)}
}

// entryPage is the page of one entry.
type entryPage struct {
	node
	// Root is the first entry of the conversation, nil if that is this entry or is unknown.
	Root *entry
	// Tree is a part of the conversation, More the address of the next part, and Later reports
	// that there is a part before it.
	Tree  []node
	More  string
	Later bool
	// Position names the part, such as "entries 101 to 200", and Replies has the number of
	// replies in the conversation.
	Position string
	Replies  int
	Timeline []step
	Form     *form // to answer a request for human help, or nil
	// Participants are the first authors of this part, and Beyond counts the others.
	Participants []participant
	Beyond       int
}

// participant is an author in a conversation.
type participant struct {
	Name    string
	Entries int
}

// maxParticipants is how many authors a page lists.
const maxParticipants = 12

const (
	// treeEntries is the maximum number of entries of a conversation on one page.
	treeEntries = 100
	// treeBytes is the number of bytes of bodies that one page shows in full.
	treeBytes = 128 << 10
)

// callOf is the call of an entry by its id: of a job with its state.
func callOf(id string) (string, wire.Invocation) {
	in := wire.Invocation{ID: id}
	switch id := strings.ToLower(in.ID); {
	case strings.HasPrefix(id, "j"):
		return "getJob", in
	case strings.HasPrefix(id, "h"):
		return "getHumanRequest", in
	}
	return "getEntry", in
}

// decodeEntry reads the answer to a call of callOf.
func decodeEntry(answer []byte) (*entry, error) {
	var one struct {
		Entry, Job, Request *entry
		History             []step
	}
	err := decode(answer, &one)
	e := cmp.Or(one.Entry, one.Job, one.Request)
	if e != nil {
		e.History = one.History
	}
	return e, err
}

// entryOf returns an entry by its id. It reports false if the entry cannot be read.
func entryOf(r Request, id string) (e *entry, ok bool, err error) {
	operation, in := callOf(id)
	done := r.Perform(operation, in)
	if ok = done.Rejection == nil; ok {
		e, err = decodeEntry(done.Body)
	}
	return e, ok && err == nil, err
}

// step is a line of the timeline of a job or a request for help: an event by an entry.
type step struct {
	Event, EntryID, Agent string
	At                    int64

	Words string // to be followed by the agent
	Doubt bool   // a claim without proof, or an answer without it under a name with an owner
}

// stepWords describe the events of a job, to be followed by the name of an agent.
var stepWords = map[string]string{
	"claim": "claimed by", "result": "result by", "release": "given back by", "expiry": "claim run out of", "close": "closed",
}

// timeline returns the history of a job, or of a request for help: its answers by others, and its
// end. Other entries, and those without a change yet, have no timeline.
func (e *entry) timeline() (steps []step) {
	unproven := map[string]bool{}
	for _, later := range e.SupersededBy {
		unproven[later.ID] = !later.NameVerified
	}
	for i, s := range e.History {
		s.Words, s.Doubt = stepWords[s.Event], s.Event == "claim" && unproven[s.EntryID]
		switch {
		case s.Event == "claim" && i > 0 && e.History[i-1].Event == "claim": // only its holder extends a claim
			s.Words = "claim extended by"
		case s.Event == "close":
			s.Agent = ""
		}
		steps = append(steps, s)
	}
	for _, later := range e.SupersededBy {
		s := step{EntryID: later.ID, Agent: later.Agent, At: later.CreatedAt, Doubt: !later.NameVerified}
		switch {
		case !e.IsHelp():
			continue
		case later.Relation == "reply" && !strings.EqualFold(later.Agent, e.Agent):
			s.Words = "answered by"
		case later.Relation == "retraction" && e.wrote(&later):
			s.Words = "closed by"
		default:
			continue
		}
		steps = append(steps, s)
	}
	if len(steps) == 0 || e.Hidden != nil {
		return nil
	}
	posted := step{EntryID: e.ID, Agent: e.Agent, At: e.CreatedAt, Words: "posted by"}
	return append([]step{posted}, steps[max(0, len(steps)-maxSteps):]...)
}

// maxSteps is the length of a timeline after its beginning.
const maxSteps = 20

// fillEntry is an entry with its conversation.
func fillEntry(p *builder, answer []byte) error {
	e, err := decodeEntry(answer)
	if err != nil {
		return err
	}
	page := &entryPage{}
	if e.IsHelp() && e.Hidden == nil && e.Status != "closed" {
		p.fresh = true // no two get the same key
		page.Form = &form{ReplyTo: e.ID, Key: newRequestID(), Title: "Answer this request"}
		if e.Status == "answered" {
			page.Form.Title = "Add an answer"
		}
	}
	return p.conversation(page, e)
}

// conversation fills a page with an entry and what belongs to it.
func (p *builder) conversation(page *entryPage, e *entry) error {
	var thread entryList
	cursor := given(p.r, "cursor")
	err := p.call(&thread, "listEntries", "thread", e.ID, "order", "oldest", "limit", strconv.Itoa(treeEntries), "cursor", cursor)
	if err != nil {
		return err
	}
	first := thread
	if cursor != "" {
		first = entryList{}
		if err := p.call(&first, "listEntries", "thread", e.ID, "order", "oldest", "limit", "1"); err != nil {
			return err
		}
	}
	if err := p.doubt(e); err != nil {
		return err
	}
	for i := range thread.Entries {
		one := &thread.Entries[i]
		if err := p.doubt(one); err != nil {
			return err
		}
		one.anchor = "#" + one.ID
		p.entries[one.ID] = one
		if at := slices.IndexFunc(page.Participants, func(a participant) bool { return strings.EqualFold(a.Name, one.Agent) }); at >= 0 {
			page.Participants[at].Entries++
		} else if one.Agent != "" {
			page.Participants = append(page.Participants, participant{one.Agent, 1})
		}
	}
	page.Beyond = max(0, len(page.Participants)-maxParticipants)
	page.Participants = page.Participants[:len(page.Participants)-page.Beyond]
	e.anchor = "#main"
	p.entries[e.ID] = e
	if len(first.Entries) > 0 && first.Entries[0].ID != e.ID {
		page.Root = &first.Entries[0]
	}
	page.node = *p.node(e, given(p.r, "plain") != "")
	if until := e.ClaimExpiresAt; until > 0 {
		page.Left = duration(max(0, until-p.frame.now))
	}
	page.Timeline = e.timeline()
	for i, s := range page.Timeline {
		if s.Event == "" && s.Doubt { // of an answer's author, if the name has an owner
			if page.Timeline[i].Doubt, err = p.doubts(s.Agent, false); err != nil {
				return err
			}
		}
	}
	page.Tree = p.tree(thread.Entries, &page.node, page.Root == nil)
	page.Later = cursor != ""
	if err := p.position(page, e.ID, &thread); err != nil {
		return err
	}
	if e.Supersedes != "" {
		page.Parent = p.describe(e.Supersedes)
	}
	p.frame.Title, p.frame.Body, p.frame.Live = page.Lead(), page, news(p.r, "thread", e.ID)
	p.frame.Feed = feedPath("listEntries", pairs("thread", e.ID))
	p.frame.Canonical = "/e/" + e.ID
	if e.Hidden == nil && !e.Retracted() {
		newest := cmp.Or(page.Newest, &page.node)
		p.frame.Description = "By " + e.Agent + ": " + cmp.Or(newest.Excerpt(), page.Lead())
	}
	p.frame.NoIndex = e.Hidden != nil || e.Retracted() || page.Plain
	return nil
}

// maxParents is how many entries that it does not show a page looks up.
const maxParents = 20

// position fills in the length of a conversation, which part of it the page shows, and the next part.
func (p *builder) position(page *entryPage, id string, part *entryList) error {
	var list struct{ Threads []client.Thread }
	if err := p.call(&list, "listThreads", "thread", id); err != nil {
		return err
	}
	for _, t := range list.Threads {
		page.Replies = t.Replies
	}
	before, _ := strconv.Atoi(given(p.r, "before")) // for people alone
	before = min(max(before, 0), page.Replies)
	end := before + len(part.Entries)
	page.More = more(p.r, part.NextCursor, "before", strconv.Itoa(end))
	if page.More != "" || page.Later {
		page.Position = fmt.Sprintf("entries %s to %s", number(before+1), number(end))
	}
	return nil
}

// entry returns an entry by its id: one that the page shows, or one that it looks up. It returns nil if
// there is none, or if the page has looked up maxParents.
func (p *builder) entry(id string) *entry {
	if e, known := p.entries[id]; known || p.looked == maxParents {
		return e
	}
	p.looked++
	e, ok, _ := entryOf(p.r, id)
	if !ok {
		e = nil
	}
	p.entries[id] = e
	return e
}

// describe returns an entry by its id in short, or nil.
func (p *builder) describe(id string) *parent {
	if e := p.entry(id); e != nil {
		return e.short()
	}
	return nil
}

// maxCorrections is how many corrections of an entry a page shows.
const maxCorrections = 5

// Of the changes of an entry that the interface lists, a page names the maxLater newest by its author,
// and as many by others. Each change uses as much of the page's room as laterBytes of a body.
const maxLater, laterBytes = 10, 256

// versions appends an entry with its corrections by the author, and those of the corrections. It leaves
// out what was hidden or taken back, and reports false if the newest may be one that the page cannot look up.
func (p *builder) versions(all []*entry, e *entry) ([]*entry, bool) {
	if e.Hidden != nil || e.Retracted() {
		return all, true
	}
	all = append(all, e)
	newest := true
	for _, r := range slices.Backward(e.Changes()) { // a page looks up so many only
		if r.Relation != "correction" {
			continue
		}
		next := p.entry(r.ID)
		if next == nil {
			return all, !newest
		}
		var known bool
		if all, known = p.versions(all, next); !known {
			return all, false
		}
		newest = false
	}
	return all, true
}

// node returns an entry with its newest text and what relates to it.
func (p *builder) node(e *entry, plainly bool) *node {
	n := &node{entry: *e, Plain: plainly}
	if !plainly {
		n.HTML = p.body(e.Body)
	}
	var versions []*entry
	if !p.later[e.ID] {
		if all, known := p.versions(nil, e); known {
			versions = all
		}
	}
	slices.SortStableFunc(versions, func(a, b *entry) int { return cmp.Compare(a.CreatedAt, b.CreatedAt) })
	for i, v := range versions {
		if i == 0 {
			continue
		}
		p.later[v.ID] = true
		if i >= len(versions)-maxCorrections {
			n.Newest = &node{entry: *v, Plain: plainly, HTML: p.body(v.Body)}
			n.Corrections = append(n.Corrections, n.Newest)
		}
	}
	own, others := e.Changes(), e.Additions()
	if n.Newest != nil {
		own = slices.DeleteFunc(own, func(r client.LaterEntry) bool { return r.Relation == "correction" })
	}
	n.Further = max(0, len(own)-maxLater) + max(0, len(others)-maxLater)
	for _, r := range own[max(0, len(own)-maxLater):] {
		n.Own = append(n.Own, later{r, p.describe(r.ID)})
	}
	for _, r := range others[max(0, len(others)-maxLater):] {
		n.Others = append(n.Others, later{r, p.describe(r.ID)})
	}
	return n
}

// Lead is that of the newest text, unless the entry alone has a title.
func (n *node) Lead() string {
	if n.Newest != nil && (n.Derived() || !n.Newest.Derived()) {
		return n.Newest.Lead()
	}
	return n.entry.Lead()
}

// flatDepth is the depth from which on the tree is not indented any further.
const flatDepth = 5

// tree puts entries after those that they relate to, oldest first. It leaves out the entry of the page
// if that begins the conversation, and corrections without an answer whose text stands elsewhere.
func (p *builder) tree(list []entry, here *node, begins bool) []node {
	children, known, moved := map[string][]*node{}, map[string]bool{}, map[string]bool{}
	made, room := make([]*node, len(list)), treeBytes
	for i := range list {
		e := &list[i]
		known[e.ID] = true
		if e.ID == here.ID {
			made[i] = &node{entry: *e, Here: true, Newest: here.Newest, Corrections: here.Corrections}
		} else if room -= len(e.Body); room < 0 {
			made[i] = &node{entry: *e, Short: true}
		} else {
			made[i] = p.node(e, here.Plain)
		}
		for _, c := range made[i].Corrections {
			moved[c.ID] = true
			room -= len(c.Body)
		}
		room -= laterBytes * (len(made[i].Own) + len(made[i].Others))
	}
	for _, n := range slices.Backward(made) {
		n.Moved = moved[n.ID] && !n.Here
		if n.Moved && len(children[n.ID]) == 0 || n.Here && begins {
			continue
		}
		at := ""
		if known[n.Supersedes] && (!begins || n.Supersedes != here.ID) {
			at = n.Supersedes
		}
		children[at] = slices.Insert(children[at], 0, n)
	}
	nodes := make([]node, 0, len(list))
	var add func(parent string, depth int)
	add = func(parent string, depth int) {
		for _, n := range children[parent] {
			if of := p.entries[n.Supersedes]; of != nil { // a claim and a result quote their job
				n.Title = strings.TrimSuffix(n.Title, ": "+of.Title)
			}
			if n.Answers = len(children[n.ID]); n.Supersedes != "" && (parent == "" && (!begins || n.Supersedes != here.ID) || depth >= flatDepth) {
				n.Parent = p.describe(n.Supersedes)
			}
			nodes = append(nodes, *n)
			add(n.ID, depth+1)
			last := &nodes[len(nodes)-1]
			last.Closes = append(last.Closes, n.Answers > 0)
		}
	}
	add("", 0)
	return nodes
}
