package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/alecthomas/kong"
)

// systemSettings is the file with the settings of the node that systemd runs on this
// machine.
const systemSettings = "/etc/commons/commons.env"

// settingsFile gives operators' commands the settings of this machine's node, such as the
// address of its private port. Flags and environment variables override it. `commons
// serve` does not use it: its service manager passes the settings on.
type settingsFile struct {
	path   string
	err    io.Writer
	values map[string]string // nil before the file was read
}

// Validate implements kong.Resolver.
func (f *settingsFile) Validate(*kong.Application) error { return nil }

// Resolve returns the file's value for a flag whose variables are not set, or nil.
func (f *settingsFile) Resolve(c *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	if runsNode(c.Path) {
		return nil, nil
	}
	for _, name := range flag.Envs {
		if _, set := os.LookupEnv(name); set {
			return nil, nil
		}
	}
	for _, name := range flag.Envs {
		if value, is := f.settings()[name]; is {
			fmt.Fprintf(f.err, "commons: --%s is %s, from %s\n", flag.Name, value, f.path)
			return value, nil
		}
	}
	return nil, nil
}

// settings reads the file at its first call. A file that cannot be read has no settings.
func (f *settingsFile) settings() map[string]string {
	if f.values != nil {
		return f.values
	}
	f.values = map[string]string{}
	data, err := os.ReadFile(f.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintf(f.err, "commons: the settings of this machine's node are not used: %v\n", err)
	}
	for line := range strings.Lines(string(data)) {
		name, value, is := strings.Cut(strings.TrimSpace(line), "=")
		if is && !strings.ContainsAny(name, "#;") {
			f.values[strings.TrimSpace(name)] = strings.Trim(strings.TrimSpace(value), `"'`)
		}
	}
	return f.values
}
