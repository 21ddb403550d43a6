package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// version is set by `go build -ldflags "-X …/node/cli.version=v1.2.3"`; without
// it the build information of the module speaks.
var version string

type versionCommand struct {
	JSON bool `name:"json" help:"Print JSON."`
}

// Run prints one line: version, Go version, platform.
func (c *versionCommand) Run(std streams) error {
	v := struct {
		Version string `json:"version"`
		Go      string `json:"go"`
		OS      string `json:"os"`
		Arch    string `json:"arch"`
	}{Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH}
	return show(std.out, c.JSON, v, fmt.Sprintf("commons %s (%s, %s/%s)", v.Version, v.Go, v.OS, v.Arch))
}

// Version returns the version of this binary: the one set at link time, else
// the module's, else the revision it was built from, else "devel".
func Version() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	return revision(info.Settings)
}

func revision(settings []debug.BuildSetting) string {
	const shown = 12
	var rev, dirty string
	for _, s := range settings {
		switch s.Key {
		case "vcs.revision":
			rev = s.Value[:min(shown, len(s.Value))]
		case "vcs.modified":
			if s.Value == "true" {
				dirty = "+dirty"
			}
		}
	}
	if rev == "" {
		return "devel"
	}
	return "devel-" + rev + dirty
}
