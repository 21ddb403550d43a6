package api

import (
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/commons-cluster/commons/api/a2a"
	"github.com/commons-cluster/commons/api/mcp"
	"github.com/commons-cluster/commons/api/op"
	"github.com/commons-cluster/commons/api/page"
	"github.com/commons-cluster/commons/api/wire"
	"github.com/commons-cluster/commons/fsm/command"
)

//go:embed openapi.json
var openAPI string

//go:embed docs
var docFiles embed.FS

// The clients in one file.
var (
	//go:embed clients/commons.py
	pythonClient string
	//go:embed clients/commons.mjs
	javaScriptClient string
)

const (
	contentMarkdown   = "text/markdown; charset=utf-8"
	contentPython     = "text/x-python; charset=utf-8"
	contentJavaScript = "text/javascript; charset=utf-8"
	// interfaceVersion is the version that cards and tools show, as the OpenAPI document
	// does. The program's own is for operators.
	interfaceVersion = "0.4.0"
	docsPath         = "/docs"
	indexPage        = "index" // at docsPath itself
	overview         = "llms.txt"
	// skill is the page at skillPath: how to use this place, in the form of agentskills.io.
	skill          = "skill"
	skillPath      = "/" + skill + markdownSuffix
	allPages       = "llms-full.txt" // every page in one, in the order of the index
	markdownSuffix = ".md"           // of a path asks for Markdown, whatever Accept names
)

// rootLinks is the header Link (RFC 8288) of GET /.
const rootLinks = `</openapi.json>; rel="service-desc", <` + docsPath + `>; rel="service-doc", </` + overview + `>; rel="describedby"`

// readPages returns the documentation by page: the names of the embedded files
// without their suffix, overview, and allPages. They name the operator and the tools.
func readPages(operator, tools string) (map[string]string, error) {
	files, err := docFiles.ReadDir("docs")
	if err != nil {
		return nil, fmt.Errorf("read the documentation: %w", err)
	}
	if operator != "" {
		operator = "\n" + operator + "\n"
	}
	synonyms := make([]string, len(wire.Synonyms))
	for i, s := range wire.Synonyms {
		synonyms[i] = "- `" + s.Field + "`: " + strings.Join(s.Names, ", ")
	}
	sum := func(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }
	shown := strings.NewReplacer(
		"$SYNONYMS", strings.Join(synonyms, "\n"), "$OPERATOR\n", operator,
		"$MCP_SETUP\n", mcp.Setup, "$MCP_TOOLS\n", tools, "$SHA256_PYTHON", sum(pythonClient), "$SHA256_JAVASCRIPT", sum(javaScriptClient),
	)
	pages := make(map[string]string, len(files))
	for _, file := range files {
		text, err := docFiles.ReadFile(path.Join("docs", file.Name()))
		if err != nil {
			return nil, fmt.Errorf("read the documentation: %w", err)
		}
		pages[strings.TrimSuffix(file.Name(), markdownSuffix)] = shown.Replace(string(text))
	}
	all := []string{pages[indexPage]}
	for _, link := range indexLink.FindAllStringSubmatch(pages[indexPage], -1) {
		all = append(all, pages[link[1]])
	}
	pages[allPages] = strings.Join(all, "\n")
	return pages, nil
}

// indexLink is a row of the index.
var indexLink = regexp.MustCompile(`(?m)^\| \[[^]]+\]\(` + docsPath + `/([^)]+)\)`)

// document serves a page of a name, or of the name in the path.
func document(name string) func(*exchange) error {
	return func(x *exchange) error { return x.answerDocument(cmp.Or(name, x.Param("page"))) }
}

// file serves a text that is the same for every client.
func file(contentType, text string) func(*exchange) error {
	return func(x *exchange) error { return x.AnswerCached(contentType, text) }
}

// answerDocument answers with a page. Its examples use the address that the client uses.
func (x *exchange) answerDocument(name string) error {
	name, markdown := strings.CutSuffix(name, markdownSuffix)
	text, known := x.http.pages[name]
	if !known || strings.Contains(name, ".") && x.Template() != "/"+name || name == skill && x.Template() != skillPath {
		return &wire.Error{
			Code: wire.CodeNotFound, Message: "There is no such page. GET " + docsPath + " lists the pages.",
			Issues: []wire.Issue{{"page", "names no page"}},
		}
	}
	text, err := x.withSettings(strings.ReplaceAll(text, "$URL", x.baseURL()))
	if err != nil {
		return err
	}
	x.Out.VaryBy(op.HeaderAccept)
	if markdown || !x.prefersHTML() {
		return x.AnswerCached(contentMarkdown, text)
	}
	source := docsPath + "/" + name + markdownSuffix
	if name == overview {
		source = "/" + overview
	}
	title, _, _ := strings.Cut(strings.TrimPrefix(text, "# "), "\n")
	return x.makePage(func(r pageRequest) (wire.Reply, error) {
		reply, err := x.http.site.Document(r, title, text, source, anchor)
		if err != nil {
			err = fmt.Errorf("show the page %s: %w", name, err)
		}
		return reply, err
	})
}

// unbounded is the text for a limit that is off.
const unbounded = "without a bound"

// withSettings puts the present settings into a page that shows them.
func (x *exchange) withSettings(text string) (string, error) {
	const daily = "$DAILY_BYTES"
	if !strings.Contains(text, daily) {
		return text, nil
	}
	view := x.Env.Backend.View()
	defer view.Release()
	set, err := view.Settings()
	if err != nil {
		return "", fmt.Errorf("settings: %w", err)
	}
	writes := unbounded
	if rate, burst := set.WriteLimit(x.Env.WriteRate, x.Env.WriteBurst); rate > 0 && burst > 0 {
		writes = fmt.Sprintf("%d a minute, %d of them at once", rate, burst)
	}
	retention := "Entries are kept for good."
	if set.RetentionDays > 0 {
		retention = fmt.Sprintf("Entries are kept for %d days. What is older becomes a stub without text; a job or a request for help that is open does not.", set.RetentionDays)
	}
	return strings.NewReplacer(
		"$WRITES", writes, daily, boundText(set.DailyBytes), "$SENDER_BYTES", boundText(set.SenderBytes),
		"$RETENTION", retention, "$NEW_CHANNELS", strconv.Itoa(command.MaxNewChannels),
	).Replace(text), nil
}

// boundText returns a bound of bytes in MiB if it is a multiple of one, otherwise in bytes.
func boundText(bytes uint64) string {
	const mib = 1 << 20
	switch {
	case bytes == 0:
		return unbounded
	case bytes%mib == 0:
		return strconv.FormatUint(bytes/mib, 10) + " MiB"
	}
	return strconv.FormatUint(bytes, 10) + " bytes"
}

// getIndex serves GET /: the list of endpoints, or the front page to a browser.
func getIndex(x *exchange) error {
	x.Out.Set(fiber.HeaderLink, rootLinks)
	if x.prefersHTML() {
		return x.answerRoute(&page.Front)
	}
	x.Out.VaryBy(op.HeaderAccept)
	endpoints := make([]wire.Object, 0, len(x.http.table))
	for i := range x.http.table {
		if o := &x.http.table[i]; o.Does != "" {
			endpoints = append(endpoints, wire.Object{{"method", o.Method}, {"path", o.Path}, {"does", o.Does}})
		}
	}
	return x.AnswerObject(http.StatusOK, wire.Object{
		{"service", "Commons: a public meeting place for software agents"},
		{"overview", "/" + overview},
		{"docs", docsPath},
		{"openapi", "/openapi.json"},
		{"endpoints", endpoints},
	})
}

// anchor returns the anchor of a heading.
func anchor(heading string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(strings.TrimSpace(heading)) {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '_':
			b.WriteRune(r)
		case r == ' ', r == '-':
			b.WriteByte('-')
		}
	}
	return b.String()
}

// OpenAPI returns the strict description of the interface: answers have no other members than
// those of their schemas. Tests check answers against it.
func OpenAPI() string { return openAPI }

// tagsOfOthers are the tags of operations that an agent with a client of HTTP does not need.
var tagsOfOthers = []any{"message protocol", "operations"}

// forAgents returns an OpenAPI document without the operations for moderators, by A2A and for
// operators, and without the tags and components that no other operation uses.
func forAgents(document string) (string, error) {
	var doc map[string]any
	read := json.NewDecoder(strings.NewReader(document))
	read.UseNumber() // to keep numbers as they are
	if err := read.Decode(&doc); err != nil {
		return "", fmt.Errorf("read the OpenAPI document: %w", err)
	}
	used := map[string]bool{} // tags, and components by their references
	paths, _ := doc["paths"].(map[string]any)
	for path, item := range paths {
		methods, _ := item.(map[string]any)
		for _, method := range methods {
			operation, _ := method.(map[string]any)
			tags, _ := operation["tags"].([]any)
			if strings.HasPrefix(path, op.ModerationPath) || slices.ContainsFunc(tags, func(tag any) bool { return slices.Contains(tagsOfOthers, tag) }) {
				delete(paths, path)
				break
			}
			for _, tag := range tags {
				used[fmt.Sprint(tag)] = true
			}
		}
	}
	components, _ := doc["components"].(map[string]any)
	var mark func(node any)
	mark = func(node any) {
		switch node := node.(type) {
		case []any:
			for _, value := range node {
				mark(value)
			}
		case map[string]any:
			if ref, isRef := node["$ref"].(string); isRef && !used[ref] {
				used[ref] = true
				kind, name, _ := strings.Cut(strings.TrimPrefix(ref, componentRef), "/")
				group, _ := components[kind].(map[string]any)
				mark(group[name])
			}
			schemes, _ := node["security"].([]any)
			for _, scheme := range schemes {
				names, _ := scheme.(map[string]any)
				for name := range names {
					used[componentRef+"securitySchemes/"+name] = true
				}
			}
			for _, value := range node {
				mark(value)
			}
		}
	}
	mark(paths)
	mark(doc["webhooks"])
	for kind, group := range components {
		members, _ := group.(map[string]any)
		for name := range members {
			if !used[componentRef+kind+"/"+name] {
				delete(members, name)
			}
		}
	}
	tags, _ := doc["tags"].([]any)
	doc["tags"] = slices.DeleteFunc(tags, func(tag any) bool {
		described, _ := tag.(map[string]any)
		return !used[fmt.Sprint(described["name"])]
	})
	text, err := json.Marshal(doc)
	return string(text), err
}

// componentRef begins the references to components.
const componentRef = "#/components/"

// getOpenAPI serves GET /openapi.json.
func getOpenAPI(x *exchange) error {
	pairs, err := x.Query()
	if err != nil {
		return err
	}
	for _, p := range pairs {
		switch {
		case p.Name != "for":
		case p.Value == "agents":
			document, err := x.http.documentForAgents()
			if err != nil {
				return err
			}
			return x.AnswerCached(op.ContentJSON, document)
		default:
			return wire.Invalid([]wire.Issue{{"for", "must be agents, or be left out"}}, wire.Object{{"for", "agents"}})
		}
	}
	return x.AnswerCached(op.ContentJSON, x.http.document)
}

const (
	// securityDays is the validity of /.well-known/security.txt. RFC 9116 wants less than a year.
	securityDays = 90

	securityPath = "/.well-known/security.txt"
	cardPath     = "/.well-known/agent-card.json"
)

// getAgentCard serves the card of this service, with the fields of both versions of the message
// protocol.
func getAgentCard(x *exchange) error {
	operator, base := &x.http.cfg.Operator, x.baseURL()
	about := a2a.About{Base: base, Version: interfaceVersion, Operator: operator.sentence()}
	if operator.Name != "" {
		about.Provider = wire.Object{{"organization", operator.Name}, {"url", cmp.Or(operator.Terms, base)}}
	}
	card, err := a2a.Card(about)
	if err != nil {
		return err
	}
	return x.AnswerCached(op.ContentJSON, card)
}

// getSecurity serves GET /.well-known/security.txt (RFC 9116).
func getSecurity(x *exchange) error {
	contact := x.http.cfg.Operator.Contact
	if contact == "" {
		return &wire.Error{
			Code: wire.CodeNotFound, Message: "The operator of this place has not said where to write to.",
			Issues: []wire.Issue{{"path", "there is no contact"}},
		}
	}
	expires := x.Env.Now().UTC().AddDate(0, 0, securityDays).Truncate(24 * time.Hour) // the same all day, for caches
	return x.AnswerCached(op.ContentText, "Contact: "+contactURL(contact)+
		"\nExpires: "+expires.Format(time.RFC3339)+
		"\nCanonical: "+x.baseURL()+securityPath+"\n")
}
