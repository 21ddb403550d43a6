package agent

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/cluster"
	"github.com/commons-cluster/commons/fsm/text"
	"github.com/commons-cluster/commons/node/cli/terminal"
	"github.com/commons-cluster/commons/node/config"
)

const (
	// KeyVariable is the environment variable with the key itself. It has no flag: other
	// users of the machine can read the arguments of a process.
	KeyVariable = "COMMONS_KEY"

	standardInput = "-"
	maxInput      = 1 << 20
	byteOrderMark = "\ufeff" // some editors put it before a text
)

// account selects the agent that a command acts for, and the service. Without flags and
// variables they are those of the last login.
type account struct {
	URL      []string      `name:"url" env:"COMMONS_URL" sep:"," placeholder:"URL" help:"Addresses of nodes; a call goes on at the next one when one fails. Default: those of the login."`
	As       string        `name:"as" env:"COMMONS_AGENT" field:"agent" placeholder:"NAME" help:"Name of the agent. Default: that of the login."`
	KeyFile  string        `name:"key-file" env:"COMMONS_KEY_FILE" placeholder:"FILE" help:"File with the key of the name, or - for standard input. Default: the variable COMMONS_KEY, or else the stored key."`
	Key      keyArgument   `name:"key" hidden:""`
	Patience time.Duration `name:"patience" default:"1m" placeholder:"DURATION" help:"How long a call is repeated while no node can carry it out."`
	JSON     bool          `name:"json" help:"Print the answer of the service as it came."`
}

// keyArgument rejects every value.
type keyArgument struct{}

// UnmarshalText implements encoding.TextUnmarshaler.
func (*keyArgument) UnmarshalText([]byte) error {
	return errors.New("a key is not an argument, because others on this machine can read those: use --key-file FILE, --key-file - or the variable " + KeyVariable)
}

// session is an account with its client.
type session struct {
	*client.Client

	login  login
	stored login // of which the key is, empty if the key was given
	files  files
	std    terminal.Streams
	json   bool

	requestID string // of the next write, or empty
}

// ProvideSession returns the client of an account, for the Run of a command.
func (a *account) ProvideSession(std terminal.Streams) (*session, error) {
	s := &session{std: std, json: a.JSON, files: openFiles()}
	key, err := a.key(std)
	if err != nil {
		return nil, err
	}
	logins, err := s.files.logins()
	if err != nil {
		return nil, err
	}
	s.choose(a, logins, key)
	if len(s.login.URLs) == 0 {
		return nil, usage("--url: name an address, such as https://commons.example, or set COMMONS_URL, or log in: commons login NAME --url URL --description TEXT")
	}
	if s.Client, err = client.New(client.Config{URLs: s.login.URLs, Key: s.login.Key, Patience: cmp.Or(a.Patience, -1)}); err != nil {
		return nil, usage("--url: " + err.Error())
	}
	return s, nil
}

// choose sets the login: the stored one that fits the flags, the current one if possible, or
// one made of the flags. A stored key is used only at the addresses that it was stored for.
func (s *session) choose(a *account, logins []login, key string) {
	urls := make([]string, len(a.URL))
	for i, url := range a.URL {
		urls[i] = strings.TrimRight(url, "/")
	}
	s.login = login{Agent: a.As, Key: key}
	for _, l := range logins {
		known := !slices.ContainsFunc(urls, func(url string) bool { return !slices.Contains(l.URLs, url) })
		if known && key == "" && (a.As == "" || folded(a.As) == folded(l.Agent)) {
			s.login, s.stored = l, l
			break
		}
	}
	if len(urls) > 0 {
		s.login.URLs = urls
	} else if len(s.login.URLs) == 0 && len(logins) > 0 {
		s.login.URLs = logins[0].URLs
	}
}

// folded returns the key under which the service compares names.
func folded(name string) string { return text.Fold(text.AgentName(name)) }

// key returns the key that was given, or "".
func (a *account) key(std terminal.Streams) (string, error) {
	if a.KeyFile == "" {
		return strings.TrimSpace(os.Getenv(KeyVariable)), nil
	}
	return secretFrom(std, "--key-file", a.KeyFile)
}

// secretFrom returns the secret in the file of a flag, or from standard input for -.
func secretFrom(std terminal.Streams, flag, file string) (string, error) {
	secret, err := input(std, file)
	if file != standardInput {
		var data []byte
		data, err = os.ReadFile(file)
		secret = strings.TrimSpace(string(data))
	}
	switch {
	case err != nil:
		return "", usage(flag + ": " + err.Error())
	case secret == "":
		return "", usage(flag + ": it is empty")
	}
	return secret, nil
}

// input returns the text of an argument, or standard input for -.
func input(std terminal.Streams, argument string) (string, error) {
	if argument != standardInput {
		return argument, nil
	}
	data, err := io.ReadAll(io.LimitReader(std.In, maxInput))
	return strings.TrimSpace(strings.TrimPrefix(string(data), byteOrderMark)), err
}

// usage is the error of a command line that cannot work.
func usage(problem string) error { return &config.Error{Problems: []string{problem}} }

// show prints an answer and its notes.
func (s *session) show(m *client.Meta, text string) error {
	if s.json {
		_, err := fmt.Fprintf(s.std.Out, "%s\n", m.Raw)
		return err
	}
	for _, note := range m.Notes {
		fmt.Fprintln(s.std.Err, "note:", note)
	}
	if len(m.Would) > 0 {
		text = "it would be accepted"
	}
	_, err := fmt.Fprintln(s.std.Out, text)
	return err
}

// writing are the flags of a command that writes.
type writing struct {
	account   `embed:""`
	RequestID string `name:"request-id" field:"request_id" placeholder:"ID" help:"Repeat an earlier write with this request_id. Default: a new one."`
	DryRun    bool   `name:"dry-run" field:"dry_run" help:"Check the write without carrying it out."`
}

// ProvideSession returns the client of the account. With --dry-run it carries out no write.
func (w *writing) ProvideSession(std terminal.Streams) (*session, error) {
	s, err := w.account.ProvideSession(std)
	if err != nil {
		return nil, err
	}
	if s.requestID = w.RequestID; w.DryRun {
		s.Client = s.DryRun()
	}
	return s, nil
}

// login is a name and its key, at the addresses that the key is for.
type login struct {
	URLs  []string `json:"urls"`
	Agent string   `json:"agent"`
	Key   string   `json:"edit_key"`
}

// id names the files of a login. Without a name, its key stands for it.
func (l *login) id() string {
	name := cmp.Or(folded(l.Agent), l.Key)
	sum := sha256.Sum256([]byte(strings.Join(l.URLs, ",") + "\n" + name))
	const shown = 8
	return hex.EncodeToString(sum[:shown])
}

// files are the logins and positions below the user's config directory. Only the user can
// read them. A login and each of its positions have a file of their own, so that commands
// that run at the same time do not overwrite each other's.
type files struct {
	dir string
	err error // why there is no directory, or nil
}

const (
	loginSuffix   = ".login"
	homeSuffix    = ".home"    // where home stopped
	requestSuffix = ".request" // request_id of a registration whose key is not stored yet
	currentLogin  = "current"  // name of the current login's file
	directoryMode = 0o700
)

func openFiles() files {
	dir, err := os.UserConfigDir()
	return files{filepath.Join(dir, "commons"), err}
}

func (f files) path(name string) string { return filepath.Join(f.dir, name) }

// save replaces a file, with mode 0600. Other commands may save the same one at the same time.
func (f files) save(name string, data []byte) error {
	if f.err != nil {
		return f.err
	}
	if err := os.MkdirAll(f.dir, directoryMode); err != nil {
		return err
	}
	temp, err := os.CreateTemp(f.dir, name+".*.tmp")
	if err != nil {
		return err
	}
	return cluster.ReplaceFile(f.path(name), temp, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// saveLogin stores a login.
func (f files) saveLogin(l *login) (name string, err error) {
	data, err := json.Marshal(l)
	if err != nil {
		return "", err
	}
	name = l.id() + loginSuffix
	return name, f.save(name, data)
}

// logins returns all logins, the current one first.
func (f files) logins() ([]login, error) {
	var names []string
	if f.err == nil {
		entries, _ := os.ReadDir(f.dir) // missing until the first login
		for _, entry := range entries {
			if strings.HasSuffix(entry.Name(), loginSuffix) {
				names = append(names, entry.Name())
			}
		}
	}
	current, _ := os.ReadFile(f.path(currentLogin)) // missing until the first login
	if at := slices.Index(names, string(current)); at > 0 {
		names = slices.Insert(slices.Delete(names, at, at+1), 0, string(current))
	}
	found := make([]login, len(names))
	for i, name := range names {
		data, err := os.ReadFile(f.path(name)) //nolint:gosec // a file that saveLogin wrote
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(data, &found[i]); err != nil {
			return nil, errors.New(f.path(name) + ": " + err.Error())
		}
	}
	return found, nil
}
