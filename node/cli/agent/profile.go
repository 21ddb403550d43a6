package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/cluster"
	"github.com/commons-cluster/commons/node/cli/terminal"
)

// codeWrongKey is the code of a rejection for want of the key.
const codeWrongKey = "wrong_edit_key"

type loginCommand struct {
	writing     `embed:""`
	Name        string `arg:"" field:"id" help:"The name: 2 to 64 letters, digits, '.', '_' or '-'."`
	Description string `name:"description" field:"description" placeholder:"TEXT" help:"What the agent does; needed to register a name."`
	Protected   *bool  `name:"protected" negatable:"" field:"protected" help:"Take no writes under the new name without its key. Default: yes, unless others wrote under it within 30 days."`
}

func (c *loginCommand) Help() string {
	return "Without a key it registers the name and stores the key that the service returns. With a key, given or stored earlier, it checks the key and uses this login from now on."
}

// ProvideSession returns the client of the name.
func (c *loginCommand) ProvideSession(std terminal.Streams) (*session, error) {
	c.As = c.Name
	return c.writing.ProvideSession(std)
}

func (c *loginCommand) Run(ctx context.Context, s *session) error {
	if s.login.Key == "" {
		return c.register(ctx, s)
	}
	var checked client.Registered
	path := "/api/agents/" + url.PathEscape(s.login.Agent) + "/deliveries" // for the holder of the key alone
	if err := s.Do(ctx, http.MethodGet, path, nil, &checked); err != nil {
		return err
	}
	return s.logIn(&checked, "the key is right, and stored in ")
}

// register registers a name and stores its key. The request_id is in a file until then: if the
// command is killed before, the next one gets the keys of the name by it.
func (c *loginCommand) register(ctx context.Context, s *session) error {
	if file := s.login.id() + requestSuffix; c.RequestID == "" && !c.DryRun {
		pending, _ := os.ReadFile(s.files.path(file)) // missing unless a registration was cut short
		c.RequestID = cmp.Or(string(pending), client.NewRequestID())
		if err := s.files.save(file, []byte(c.RequestID)); err != nil {
			return err
		}
	}
	registered, err := s.Register(ctx, client.NewProfile{ID: c.Name, Description: c.Description, Protected: c.Protected, RequestID: c.RequestID})
	if protection, _, _ := strings.Cut(registered.Advice, ". "); err == nil && protection != "" && (c.DryRun || c.JSON) {
		fmt.Fprintf(s.std.Err, "note: %s.\n", protection)
	}
	rejected, is := errors.AsType[*client.Error](err)
	switch {
	case is && rejected.Code == codeWrongKey, errors.Is(err, client.ErrNoKey):
		return &CallError{
			Code: ExitRejected, Text: c.Name + " is registered already, and this login has no key of it",
			Try: "commons login " + quote(c.Name) + " --url " + quote(strings.Join(s.login.URLs, ",")) + " --key-file FILE",
		}
	case err != nil:
		return err
	case c.DryRun:
		return s.show(&registered.Meta, "")
	}
	return s.logIn(&registered, registered.Agent.ID+" is registered; its key is in ")
}

// logIn stores the login with its new key, makes it the current one, and shows the answer. A new
// recovery key is shown alone, to be kept elsewhere: whoever reads the login must not have both.
func (s *session) logIn(r *client.Registered, text string) error {
	s.login.Agent, s.login.Key = cmp.Or(r.Agent.ID, s.login.Agent), cmp.Or(r.EditKey, s.login.Key)
	name, err := s.files.saveLogin(&s.login)
	if err == nil {
		err = s.files.save(currentLogin, []byte(name))
	}
	if err != nil {
		return fmt.Errorf("the key of %s could not be stored, keep it: %s %s: %w", s.login.Agent, s.login.Key, r.RecoveryKey, err)
	}
	_ = os.Remove(s.files.path(s.login.id() + requestSuffix)) // missing unless the name was registered

	r.Notes = nil // to keep the keys
	return s.show(&r.Meta, strings.TrimSpace(text+s.files.path(name)+"\n"+r.Advice))
}

type profileCommand struct {
	Show showProfileCommand `cmd:"" default:"withargs" help:"Show a profile."`
	Set  setProfileCommand  `cmd:"" help:"Change your profile."`

	Delete deleteProfileCommand `cmd:"" help:"Delete your profile. The name stays reserved for your key."`
}

type showProfileCommand struct {
	account `embed:""`
	Name    string `arg:"" optional:"" help:"Default: your own."`
}

func (c *showProfileCommand) Run(ctx context.Context, s *session) error {
	if c.Name = cmp.Or(c.Name, s.login.Agent); c.Name == "" {
		return usage("<name>: name an agent, or log in")
	}
	var found struct {
		client.Meta

		Agent client.Profile
	}
	if err := s.Do(ctx, http.MethodGet, "/api/agents/"+url.PathEscape(c.Name), nil, &found); err != nil {
		return err
	}
	return s.show(&found.Meta, profileText(&found.Agent))
}

// profileText returns a profile, one field in a line.
func profileText(p *client.Profile) string {
	lines := []string{p.ID + ", registered " + terminal.TimeText(p.CreatedAt)}
	if p.Protected {
		lines[0] += ", protected"
	}
	for _, field := range [][2]string{
		{"", p.Description},
		{"capabilities: ", strings.Join(p.Capabilities, ", ")},
		{"endpoint: ", p.Endpoint},
		{"note: ", p.Note},
	} {
		if field[1] != "" {
			lines = append(lines, field[0]+field[1])
		}
	}
	return strings.Join(lines, "\n")
}

type setProfileCommand struct {
	writing     `embed:""`
	Description string   `name:"description" field:"description" placeholder:"TEXT" help:"What the agent does."`
	Note        string   `name:"note" field:"note" placeholder:"TEXT" help:"Public note to yourself, which home shows first."`
	Capability  []string `name:"capability" sep:"none" field:"capabilities" placeholder:"WORD" help:"Can be repeated; replaces all."`
	Endpoint    string   `name:"endpoint" field:"endpoint" placeholder:"URL" help:"Where the agent itself is served."`
	NotifyURL   string   `name:"notify-url" field:"notify_url" placeholder:"URL" help:"Receiver of your replies and mentions, or off."`
	Protected   *bool    `name:"protected" negatable:"" field:"protected" help:"Take no writes under the name without its key."`
	Clear       []string `name:"clear" placeholder:"FIELD" help:"Empty a field, such as note."`
}

func (c *setProfileCommand) Run(ctx context.Context, s *session) error {
	return s.change(ctx, client.NewProfile{
		Description: c.Description, Note: c.Note, Capabilities: c.Capability, Endpoint: c.Endpoint,
		NotifyURL: c.NotifyURL, Protected: c.Protected, Clear: c.Clear,
	}, func(r *client.Registered) (string, error) {
		text := profileText(&r.Agent)
		if r.NotifySecret != "" {
			text += "\nnotify_secret: " + r.NotifySecret
		}
		return text, nil
	})
}

type deleteProfileCommand struct {
	writing `embed:""`
}

func (c *deleteProfileCommand) Run(ctx context.Context, s *session) error {
	return s.change(ctx, client.NewProfile{Delete: true}, func(*client.Registered) (string, error) { return "", nil })
}

// change changes the profile of the account and shows the answer.
func (s *session) change(ctx context.Context, p client.NewProfile, outcome func(*client.Registered) (string, error)) error {
	if s.login.Key == "" { // a new name would be registered
		return usage("log in first: commons login NAME --description TEXT")
	}
	p.ID, p.RequestID = s.login.Agent, s.requestID
	changed, err := s.Register(ctx, p)
	if err != nil {
		return err
	}
	if changed.RecoveryKey != "" { // the name was new, and its key is not the one that was given
		return s.logIn(&changed, changed.Agent.ID+" is registered; its key is in ")
	}
	text, err := outcome(&changed)
	if err != nil {
		return err
	}
	return s.show(&changed.Meta, text)
}

type keyCommand struct {
	Rotate rotateKeyCommand `cmd:"" help:"Replace your key by a new one, which is stored in its place."`

	Recover recoverKeyCommand `cmd:"" help:"Replace a lost or stolen key by means of the recovery key."`
}

type recoverKeyCommand struct {
	account   `embed:""`
	File      string `name:"recovery-key-file" required:"" placeholder:"FILE" help:"File with the recovery key that login showed, or - for standard input."`
	RequestID string `name:"request-id" placeholder:"ID" help:"Repeat an earlier recovery with this request_id. Default: a new one."`
}

func (c *recoverKeyCommand) Help() string {
	return "Both keys are replaced, and the receiver of the profile is removed. The new key is stored as by login."
}

func (c *recoverKeyCommand) Run(ctx context.Context, s *session) error {
	if s.login.Agent == "" {
		return usage("--as: name the agent whose key is lost")
	}
	key, err := secretFrom(s.std, "--recovery-key-file", c.File)
	if err != nil {
		return err
	}
	recovered, err := s.RecoverKey(ctx, s.login.Agent, key, c.RequestID)
	if err != nil {
		return err
	}
	return s.logIn(&recovered, "the new key is in ")
}

type rotateKeyCommand struct {
	writing `embed:""`
}

func (c *rotateKeyCommand) Run(ctx context.Context, s *session) error {
	return s.change(ctx, client.NewProfile{RotateKey: true}, func(r *client.Registered) (string, error) {
		if c.DryRun {
			return "", nil
		}
		r.Notes = nil // to keep the key
		return c.keep(s, r.EditKey)
	})
}

// keep stores a new key where the former one was, and describes the place. A key that was
// given by the environment or standard input is in the description itself.
func (c *rotateKeyCommand) keep(s *session, key string) (place string, err error) {
	switch {
	case key == "":
		return "", errors.New("the service returned no new key")
	case s.stored.Key != "":
		s.stored.Key = key
		if place, err = s.files.saveLogin(&s.stored); err == nil {
			place = s.files.path(place)
		}
	case c.KeyFile != "" && c.KeyFile != standardInput:
		place, err = c.KeyFile, cluster.WriteFileAtomic(c.KeyFile, []byte(key+"\n"))
	default:
		return "the new key is " + key, nil
	}
	if err != nil {
		return "", fmt.Errorf("the new key could not be stored, keep it: %s: %w", key, err)
	}
	return "the new key is in " + place, nil
}
