// Replay plays the requests of requests.txt, drawn at random, against a node of an old and one
// of a new version, and compares the answers without ids, times and keys (masks.txt). A line of
// an answer that differs is explained by a rule of deleted.txt, or is a regression.
package main

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/commons-cluster/commons/internal/raw"
	"github.com/commons-cluster/commons/scripts/harness"
)

var (
	//go:embed requests.txt
	requests string
	//go:embed masks.txt
	masks string
	//go:embed deleted.txt
	deleted string

	placeholder = regexp.MustCompile(`\{([a-z]+)\}`)
	newValue    = regexp.MustCompile(`(?m)(?:"id\\*":\\*"|\.id = |Published: |^)([ejh](?:[0-9a-z]{1,2}|1[0-9a-z]{2})|rep_[0-9a-z]+)\b|` + keys)
	prefix      = regexp.MustCompile(`^([a-z]+_|[ejh])`)
	anyValue    = regexp.MustCompile(`\b(?:[ejh][0-9a-z]{1,3}|rep_[0-9a-z]+)\b|` + keys)
	// documents are requests whose answers are compared by names: titles, flags, commands, functions.
	documents = regexp.MustCompile(`^GET /(docs|llms|skill|clients)|--help`)
	names     = regexp.MustCompile(`(?m)^#+ .*|^ {2,6}[a-z]+( [a-z-]+)?  |--[a-z-]+|^\s+(async )?(def )?\*?[a-z]\w+\(|^[A-Z]\w+: .*|^status.*|^exit.*`)
)

const keys = `\b(?:ck|crc|crk|cmod)_[a-z0-9]{16,}|whsec_[\w+/=]+`

func main() {
	old := flag.String("old", "", "the binary of the old version")
	seed := flag.Uint64("seed", 1, "of what is drawn")
	harness.Main("replay", func(r *harness.Run) {
		rules := table(deleted) // a deletion, and patterns of requests and of lines
		sides := []*side{start(r, "old", *old, " --role=admin"), start(r, "new", r.Binary, "")}
		d := &drawer{rand.New(rand.NewPCG(*seed, 1)), sides, map[string][]string{}} //nolint:gosec // draws requests
		played, regressions, explained := 0, 0, map[string]int{}
		for q := range d.requests() {
			harness.Must(r.Ctx.Err())
			played++
			var open []string
			for _, line := range difference(sides[0].play(played, q), sides[1].play(played, q)) {
				at := slices.IndexFunc(rules, func(rule []string) bool {
					return regexp.MustCompile(rule[1]).MatchString(q.String()) && regexp.MustCompile(rule[2]).MatchString(line)
				})
				if at < 0 {
					open = append(open, line)
				} else {
					explained[rules[at][0]]++
				}
			}
			if regressions += len(open); len(open) > 0 {
				fmt.Fprintf(os.Stdout, "%d %.300s\n    %s\n", played, q, strings.Join(open, "\n    "))
			}
		}
		fmt.Fprintf(os.Stdout, "%d requests, %d lines that no deletion explains; lines by deletion: %v\n", played, regressions, explained)
		if regressions > 0 {
			harness.Failf("%d lines differ", regressions)
		}
	})
}

// difference returns the lines that are only in the first list, and those only in the second.
func difference(a, b []string) (lines []string) {
	for _, line := range a {
		if at := slices.Index(b, line); at >= 0 {
			b = slices.Delete(b, at, at+1)
		} else {
			lines = append(lines, "- "+line)
		}
	}
	for _, line := range b {
		lines = append(lines, "+ "+line)
	}
	return lines
}

// table returns the cells of a text's lines, which are between tabs.
func table(text string) (rows [][]string) {
	for line := range strings.Lines(text) {
		rows = append(rows, strings.Split(strings.TrimSuffix(line, "\n"), "\t"))
	}
	return rows
}

// request is a request with labels in place of values. The method of a command line is CLI.
type request struct {
	method, path, body string
	headers            []string
}

func (q request) String() string { return strings.TrimSpace(q.method + " " + q.path + " " + q.body) }

// parse reads a request: method, path, headers that begin with @, and the body.
func parse(line string) request {
	method, rest, _ := strings.Cut(line, " ")
	q := request{method: method}
	q.path, q.body, _ = strings.Cut(rest, " ")
	for strings.HasPrefix(q.body, "@") {
		var header string
		header, q.body, _ = strings.Cut(q.body[1:], " ")
		name, value, _ := strings.Cut(header, ":")
		q.headers = append(q.headers, name, strings.ReplaceAll(value, "_", " "))
	}
	return q
}

// drawer draws requests from their templates.
type drawer struct {
	*rand.Rand

	sides []*side
	pools map[string][]string // the values of placeholders
}

// requests yields the requests of the templates: each as often as its number says, in any order
// within a part.
func (d *drawer) requests() func(func(request) bool) {
	return func(yield func(request) bool) {
		for part := range strings.SplitSeq(requests, "\n---\n") {
			var templates []string
			for line := range strings.Lines(part) {
				first, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
				if name, isPool := strings.CutPrefix(first, "="); isPool {
					d.pools[name] = strings.Split(rest, "|")
				} else if times, err := strconv.Atoi(first); err == nil {
					templates = append(templates, slices.Repeat([]string{rest}, times)...)
				}
			}
			if !strings.HasPrefix(part, "# in order") {
				d.Shuffle(len(templates), func(i, j int) { templates[i], templates[j] = templates[j], templates[i] })
			}
			for i, template := range templates {
				if !yield(parse(d.draw(template, strconv.Itoa(i)))) {
					return
				}
			}
		}
	}
}

// draw puts values in place of placeholders: a number, one of a pool, or an id of an answer.
func (d *drawer) draw(template, number string) string {
	return placeholder.ReplaceAllStringFunc(template, func(of string) string {
		name := strings.Trim(of, "{}")
		if name == "n" {
			return number
		}
		if pool := d.pools[name]; pool != nil {
			return d.draw(pool[d.IntN(len(pool))], number)
		}
		kinds := regexp.MustCompile("^«[" + map[string]string{"id": "ejh", "job": "j", "human": "h"}[name] + `]\d`)
		ids := []string{"e99999"}
		for _, label := range slices.Sorted(maps.Keys(d.sides[0].values)) {
			if d.sides[1].values[label] != "" && kinds.MatchString(label) {
				ids = append(ids, label)
			}
		}
		return ids[d.IntN(len(ids))]
	})
}

// side is one of the two nodes, with the ids, keys and tokens that its answers gave.
type side struct {
	node           *harness.Node
	run            harness.Run
	home           []string          // the environment of commands
	values, labels map[string]string // by label, and by value
}

// start starts a node of a version, and gives it a moderator's token, with a flag of that version.
func start(r *harness.Run, name, binary, flag string) *side {
	c := r.NewCluster(name, 1)
	n := c.Nodes[0]
	n.Binary, n.Flags["trusted-proxies"], n.Flags["house-agents"] = binary, "127.0.0.0/8", "warden"
	n.Flags["address-rejections"], n.Flags["address-read-work"] = "0", "0"
	n.Alone()
	c.Start()
	s := &side{node: n, run: *r, values: map[string]string{}, labels: map[string]string{}}
	s.run.Binary = binary
	create := "mod token create mia --cluster-addr " + n.Private + " --secret-file " + c.Secret
	s.values["«token»"] = regexp.MustCompile(keys).FindString(s.command(create + flag))
	home := filepath.Join(c.Dir, "login-"+name)
	s.home = []string{"HOME=" + home, "XDG_CONFIG_HOME=" + home, "COMMONS_AGENT=zoe", "COMMONS_URL=" + n.URL}
	return s
}

func (s *side) command(line string) string {
	args := strings.Fields(line)
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "_", " ")
	}
	code, out, errs := s.run.Command(s.home, args...)
	return fmt.Sprintf("exit code %d\n%s\n%s", code, out, errs)
}

// fill puts the values of the side in place of labels.
func (s *side) fill(text string) string {
	return regexp.MustCompile(`«[^»]+»`).ReplaceAllStringFunc(text, func(l string) string { return s.values[l] })
}

// play returns the lines of an answer with labels, each a kind and the first request, and masks.
func (s *side) play(number int, q request) []string {
	text := s.answer(q)
	if documents.MatchString(q.String()) {
		text = strings.Join(names.FindAllString(text, -1), "\n")
	} else if q.method != http.MethodGet || strings.HasPrefix(text, "status 201") {
		for _, found := range newValue.FindAllStringSubmatch(text, -1) {
			if value := cmp.Or(found[1], found[0]); s.labels[value] == "" {
				l := fmt.Sprintf("«%s%d»", prefix.FindString(value), number) // «e7», «ck_1»
				for s.values[l] != "" {
					l = strings.Replace(l, "»", "'»", 1)
				}
				s.values[l], s.labels[value] = value, l
			}
		}
	}
	text = anyValue.ReplaceAllStringFunc(text, func(value string) string {
		return cmp.Or(s.labels[value], value)
	})
	for _, mask := range table(masks) {
		text = regexp.MustCompile("(?m)"+mask[1]).ReplaceAllString(text, mask[0])
	}
	return strings.FieldsFunc(text, func(r rune) bool { return r == '\n' })
}

// answer returns the answer to a request with a line for each value.
func (s *side) answer(q request) string {
	if q.method == "CLI" {
		return s.command(s.fill(q.path + " " + q.body))
	}
	headers := strings.Split(s.fill(strings.Join(q.headers, "\n")), "\n")
	client := *s.run.HTTP
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	client.Timeout = 3 * time.Second // ends streams of events, too
	res, err := raw.Do(s.run.Ctx, &client, q.method, s.node.URL+s.fill(q.path), s.fill(q.body), headers...)
	if res == nil {
		harness.Must(err)
	}
	text, document := fmt.Sprintln("status", res.Status), any(nil)
	for _, name := range slices.Sorted(maps.Keys(res.Header)) {
		text = fmt.Sprintf("%s%s: %s\n", text, name, strings.Join(res.Header[name], ", "))
	}
	switch kind := res.Header.Get("Content-Type"); {
	case strings.Contains(kind, "json") && json.Unmarshal(res.Body, &document) == nil:
		return text + flat("", document)
	case strings.Contains(kind, "html") || strings.Contains(kind, "xml"):
		return text + strings.ReplaceAll(string(res.Body), ">", ">\n")
	case strings.HasPrefix(kind, "text/plain; version"):
		return text + regexp.MustCompile(`(?m)^#.*\n|^(\w+)[ {].*`).ReplaceAllString(string(res.Body), "$1")
	}
	return text + string(res.Body)
}

// flat returns a line for each value, or line of a text, with its path without positions in lists.
func flat(path string, value any) string {
	var lines []string
	switch v := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			lines = append(lines, flat(path+"."+name, v[name]))
		}
	case []any:
		order := []string{fmt.Sprintf("%s has %d:", path, len(v))}
		for _, item := range v {
			lines = append(lines, flat(path+"[]", item))
			if object, is := item.(map[string]any); is && object["id"] != nil {
				order = append(order, fmt.Sprint(object["id"]))
			}
		}
		if len(v) == 0 || len(order) > 1 {
			lines = append(lines, strings.Join(order, " ")+"\n")
		}
	case string:
		for line := range strings.Lines(v) {
			lines = append(lines, path+" = "+strings.TrimSpace(line)+"\n")
		}
	case float64:
		return fmt.Sprintf("%s = %.0f\n", path, v)
	default:
		return fmt.Sprintf("%s = %v\n", path, v)
	}
	return strings.Join(lines, "")
}
