package operate

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/commons-cluster/commons/cluster"
	"github.com/commons-cluster/commons/node/admin"
	"github.com/commons-cluster/commons/node/cli/terminal"
)

const missingFile = "missing.txt" // the file of a bundle that lists the missing parts, with reasons

type debugCommand struct {
	target `embed:""`
	File   string        `arg:"" help:"Where to save the bundle, such as commons-debug.tar.gz, or - for standard output. An existing file is replaced once the new one is whole."`
	CPU    time.Duration `name:"cpu" default:"5s" placeholder:"DURATION" help:"How long to profile the processor of each node, 20s at most; 0 leaves that out."`
}

func (c *debugCommand) Help() string {
	return "The bundle holds status, configuration, metrics, the newest lines of the log and profiles of every node that answers, and " +
		missingFile + " with what could not be collected. It holds no secret, no key, no text and no address of clients; it does hold the addresses of nodes and, in the log, names of agents and hosts of receivers."
}

type debugReport struct {
	File    string   `json:"file"`
	Servers []string `json:"servers"` // that gave their part
	Missing []string `json:"missing"` // parts that could not be collected, with reasons
}

func (c *debugCommand) Run(ctx context.Context, std terminal.Streams) error {
	ctx, stop := terminal.UntilSignal(ctx)
	defer stop()
	client, err := c.dial(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	b := bundle{at: time.Now(), report: debugReport{File: c.File, Servers: []string{}, Missing: []string{}}}
	if err := c.collect(ctx, client, &b); err != nil {
		return err
	}
	name, report := strings.TrimSuffix(filepath.Base(c.File), ".tar.gz"), std.Out
	if c.File == stdout {
		name, report = "commons-debug", std.Err
	}
	var archive bytes.Buffer
	if err := b.write(&archive, name); err != nil {
		return err
	}
	if c.File == stdout {
		_, err = std.Out.Write(archive.Bytes())
	} else if err = cluster.WriteFileAtomic(c.File, archive.Bytes()); err != nil {
		err = fmt.Errorf("nothing was saved: %w; name a file in a directory that is there and can be written", err)
	}
	if err != nil {
		return err
	}
	lines := []string{fmt.Sprintf("saved %s with %d nodes", c.File, len(b.report.Servers))}
	for _, m := range b.report.Missing {
		lines = append(lines, "missing: "+m)
	}
	return terminal.Show(report, c.JSON, b.report, strings.Join(lines, "\n"))
}

// collect asks all servers that the node knows at the same time, through the node.
func (c *debugCommand) collect(ctx context.Context, client *admin.Client, b *bundle) error {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout+c.CPU)
	defer cancel()
	report, err := admin.Call[admin.ClusterReport](ctx, client, admin.PathCluster, nil)
	if err != nil {
		return err
	}
	if data, err := json.MarshalIndent(report, "", "  "); err == nil {
		b.add("cluster.json", data)
	} else {
		b.miss("cluster.json", err.Error())
	}
	answers, errs := make([]admin.DebugAnswer, len(report.Servers)), make([]error, len(report.Servers))
	var group sync.WaitGroup
	for i, s := range report.Servers {
		group.Go(func() {
			answers[i], errs[i] = admin.Call[admin.DebugAnswer](ctx, client, admin.PathDebug, admin.DebugRequest{ID: s.ID, CPUMillis: c.CPU.Milliseconds()})
		})
	}
	group.Wait()
	for i, s := range report.Servers {
		if errs[i] != nil {
			b.miss(s.ID, errs[i].Error())
			continue
		}
		b.report.Servers = append(b.report.Servers, s.ID)
		for _, f := range answers[i].Files {
			if f.Error != "" {
				b.miss(s.ID+"/"+f.Name, f.Error)
				continue
			}
			b.add(s.ID+"/"+f.Name, f.Data)
		}
	}
	b.add(missingFile, []byte(cmp.Or(strings.Join(b.report.Missing, "\n"), "nothing")+"\n"))
	return nil
}

// bundle collects the files of an archive.
type bundle struct {
	at     time.Time
	files  []admin.DebugFile
	report debugReport
}

func (b *bundle) add(name string, data []byte) {
	b.files = append(b.files, admin.DebugFile{Name: name, Data: data})
}

func (b *bundle) miss(name, reason string) {
	b.report.Missing = append(b.report.Missing, name+": "+reason)
}

func (b *bundle) write(to io.Writer, dir string) error {
	packed := gzip.NewWriter(to)
	archive := tar.NewWriter(packed)
	for _, f := range b.files {
		header := tar.Header{Name: dir + "/" + f.Name, Mode: backupMode, Size: int64(len(f.Data)), ModTime: b.at}
		if err := archive.WriteHeader(&header); err != nil {
			return err
		}
		if _, err := archive.Write(f.Data); err != nil {
			return err
		}
	}
	return errors.Join(archive.Close(), packed.Close())
}

type logLevelCommand struct {
	target `embed:""`
	Level  string `arg:"" optional:"" help:"debug, info, warn or error; without it the levels are shown."`
	Node   string `name:"node" placeholder:"NAME" help:"Only this node: its name or server id."`
}

// Run changes the level of all nodes, or of one, and shows the levels.
func (c *logLevelCommand) Run(ctx context.Context, std terminal.Streams) error {
	ids, err := c.servers(ctx)
	if err != nil {
		return err
	}
	levels, failed := []admin.LogLevel{}, []error(nil)
	for _, id := range ids {
		level, err := ask[admin.LogLevel](ctx, &c.target, admin.PathLogLevel, admin.LogLevel{ID: id, Level: c.Level})
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", id, err))
			continue
		}
		levels = append(levels, level)
	}
	text := terminal.Table("SERVER\tLEVEL", levels, func(l *admin.LogLevel) []any { return []any{l.ID, l.Level} })
	return errors.Join(append(failed, terminal.Show(std.Out, c.JSON, levels, text))...)
}

// servers returns the ids of the server that was named, or of all.
func (c *logLevelCommand) servers(ctx context.Context) ([]string, error) {
	if c.Node != "" {
		id, err := c.find(ctx, c.Node)
		return []string{id}, err
	}
	report, err := ask[admin.ClusterReport](ctx, &c.target, admin.PathCluster, nil)
	return idsOf(report.Servers), err
}

const shownDigest = 16

func short(digest string) string { return digest[:min(len(digest), shownDigest)] }

type digestCommand struct{ target }

// Run compares all nodes, and fails when they differ or one does not answer.
func (c *digestCommand) Run(ctx context.Context, std terminal.Streams) error {
	request := admin.CompareRequest{PatienceMillis: (c.Timeout * 2 / 3).Milliseconds()} // a node that does not answer must not hold up the others
	comparison, err := ask[admin.Comparison](ctx, &c.target, admin.PathCompare, request)
	if err != nil {
		return err
	}
	text := terminal.Table("SERVER\tINDEX\tLOG\tROWS", comparison.Digests, func(d *admin.Digest) []any {
		return []any{d.ID, d.Index, short(d.Digest) + d.Error, short(d.Rows)}
	})
	return errors.Join(terminal.Show(std.Out, c.JSON, comparison, text), differences(&comparison))
}

// differences returns an error with instructions if the digests differ, or nil.
func differences(comparison *admin.Comparison) error {
	switch {
	case !comparison.Equal:
		return fmt.Errorf("the nodes differ at index %d: save a backup of each first (`commons snapshot save FILE --cluster-addr …`); "+
			"then, one after the other, stop those that differ from the majority, empty their data directories, start them again and wait until `commons health --voter` says that they vote", comparison.Index)
	case !comparison.Complete():
		return errors.New("not every node answered; see `commons members` and run it again")
	}
	return nil
}
