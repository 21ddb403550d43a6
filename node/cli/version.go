package cli

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/commons-cluster/commons/node/cli/terminal"
)

// version is set by `go build -ldflags "-X …/node/cli.version=v1.2.3"`. If it is empty, the
// build information of the module has the version.
var version string

type versionCommand struct {
	JSON bool `name:"json" help:"Print JSON."`
}

func (c *versionCommand) Run(std terminal.Streams) error {
	v := struct {
		Version string `json:"version"`
		Go      string `json:"go"`
		OS      string `json:"os"`
		Arch    string `json:"arch"`
	}{Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH}
	return terminal.Show(std.Out, c.JSON, v, fmt.Sprintf("commons %s (%s, %s/%s)", v.Version, v.Go, v.OS, v.Arch))
}

// Version returns the version of this binary: the one set at link time, else the one that the Go
// toolchain derived from the revision, else "devel".
func Version() string {
	module := ""
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "(devel)" {
		module = info.Main.Version
	}
	return cmp.Or(version, module, "devel")
}

// build returns the hash of the program as the name of this build. A version or a revision
// would not be unique: images are built without either, and trials have local changes.
func build() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", err
	}
	program, err := os.Open(path) //nolint:gosec // this program
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, program); err != nil {
		return "", errors.Join(err, program.Close())
	}
	return hex.EncodeToString(sum.Sum(nil)), program.Close()
}
