package cli

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/commons-cluster/commons/cluster"
)

type secretCommand struct {
	Generate secretGenerateCommand `cmd:"" help:"Print a new cluster secret, or make a secret file with one."`
	Rotate   secretRotateCommand   `cmd:"" help:"Replace the secret of a running cluster by a new one, step by step."`
}

type secretGenerateCommand struct {
	Keep string `name:"keep" placeholder:"FILE" help:"Write the secret to this file instead, readable by its owner only; a file that is there stays as it is."`
	JSON bool   `name:"json" help:"Print JSON."`
}

// Run prints a new secret, or sees to it that there is a file with one.
func (c *secretGenerateCommand) Run(std streams) error {
	if c.Keep == "" {
		secret := cluster.NewSecret()
		return show(std.out, c.JSON, map[string]string{"secret": secret}, secret)
	}
	made, err := cluster.KeepSecretFile(c.Keep)
	if err != nil {
		return err
	}
	said := "kept the secret that is in " + c.Keep
	if made {
		said = "wrote a new secret to " + c.Keep + "; every node needs the same one"
	}
	return show(std.out, c.JSON, map[string]any{"file": c.Keep, "made": made}, said)
}

// show prints an answer as indented JSON, or else its text.
func show(out io.Writer, asJSON bool, answer any, text string) error {
	if !asJSON {
		_, err := fmt.Fprintln(out, text)
		return err
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(answer)
}
