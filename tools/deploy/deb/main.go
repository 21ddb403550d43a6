// Command deb makes the Debian package that a configuration of nfpm describes. nfpm's own
// program also links the formats of other systems, with modules of their own.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: deb NFPM.YAML PACKAGE.DEB")
		os.Exit(2)
	}
	if err := build(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "deb:", err)
		os.Exit(1)
	}
}

// build writes the package, or leaves no file.
func build(config, target string) (err error) {
	all, err := nfpm.ParseFile(config)
	if err != nil {
		return err
	}
	info, err := all.Get("deb")
	if err != nil {
		return err
	}
	f, err := os.Create(target)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			err = errors.Join(err, os.Remove(target))
		}
	}()
	info = nfpm.WithDefaults(info)
	info.Target = target
	return deb.Default.Package(info, f)
}
