package fsm

import (
	"errors"
	"fmt"
	"unicode/utf8"
)

// check reports a batch that must never reach the log.
func (b *Batch) check() error {
	if err := b.checkShape(); err != nil {
		return err
	}
	for i := range b.Groups {
		if err := b.Groups[i].check(); err != nil {
			return err
		}
	}
	return nil
}

// checkShape is check without a look at the commands: those were checked when they
// came, and a leader makes the rest.
func (b *Batch) checkShape() error {
	if b.Stamp < 0 || b.Stamp > MaxStamp {
		return fmt.Errorf("stamp %d, 0 to %d are allowed", b.Stamp, int64(MaxStamp))
	}
	if len(b.Groups) > MaxBatchGroups {
		return fmt.Errorf("%d groups, at most %d", len(b.Groups), MaxBatchGroups)
	}
	for i := range b.Groups {
		if err := b.Groups[i].checkShape(); err != nil {
			return err
		}
	}
	return nil
}

func (g *Group) checkShape() error {
	if g.Boot == (BootID{}) {
		return errors.New("group without a boot id")
	}
	if len(g.Commands) > MaxGroupCommands {
		return fmt.Errorf("%d commands, at most %d", len(g.Commands), MaxGroupCommands)
	}
	return g.checkWindow()
}

// check reports a group that must never reach the log.
func (g *Group) check() error {
	if err := g.checkShape(); err != nil {
		return err
	}
	for i := range g.Commands {
		c := &g.Commands[i]
		if c.Body == nil {
			return fmt.Errorf("command %d: no body", c.Seq)
		}
		if err := c.Body.check(); err != nil {
			return fmt.Errorf("command %d: %s: %w", c.Seq, c.Body.op(), err)
		}
	}
	return nil
}

// Check reports a body that must never reach the log: a field over its bound or
// outside its set. A leader asks before it proposes.
func Check(b Body) error { return b.check() }

func (l *Lead) check() error { return checkBytes("server id", l.ServerID, MaxServerIDBytes) }

func (c *Init) check() error {
	return errors.Join(
		checkBytes("cluster id", c.ClusterID, MaxClusterIDBytes),
		checkRange("sealed data key", len(c.SealedDataKey), 1, MaxSealedKeyBytes, "bytes"),
	)
}

func (p *Publish) check() error {
	return errors.Join(
		checkText("agent", p.Agent, MinName, MaxName),
		checkBytes("agent key", p.AgentKey, MaxNameKeyBytes),
		checkRange("kind", int(p.Kind), int(KindMessage), len(kindNames)-1, ""),
		p.checkChannel(),
		checkText("title", p.Title, MinTitle, MaxTitle),
		checkText("body", p.Body, MinBody, MaxBody),
		checkAll("tags", p.Tags, MaxTags, func(tag string) error { return checkText("tag", tag, MinTag, MaxTag) }),
		checkText("target", p.Target, 0, MaxTarget),
		p.checkRelation(),
		checkAll("mentions", p.Mentions, MaxMentions, func(name string) error {
			return checkBytes("mention", name, MaxNameKeyBytes)
		}),
		p.Request.check(),
		p.Proof.check(),
	)
}

func (p *Publish) checkChannel() error {
	if p.Channel == "" {
		return nil
	}
	return checkText("channel", p.Channel, MinChannel, MaxChannel)
}

func (p *Publish) checkRelation() error {
	if int(p.Relation) >= len(relationNames) {
		return fmt.Errorf("relation %d", p.Relation)
	}
	if (p.Relation == RelationNone) != (p.Target == "") {
		return errors.New("relation and target go together")
	}
	return nil
}

func (k *RequestKey) check() error {
	if *k == (RequestKey{}) {
		return nil
	}
	return errors.Join(
		checkBytes("request scope", k.Scope, MaxRequestScope),
		checkText("request id", k.ID, MinRequestID, MaxRequestID),
	)
}

func checkAll(field string, items []string, most int, check func(string) error) error {
	if err := checkRange(field, len(items), 0, most, "items"); err != nil {
		return err
	}
	for _, item := range items {
		if err := check(item); err != nil {
			return err
		}
	}
	return nil
}

// checkText bounds a text in code points and insists on UTF-8.
func checkText(field, s string, least, most int) error {
	if !utf8.ValidString(s) {
		return fmt.Errorf("%s: not UTF-8", field)
	}
	return checkRange(field, utf8.RuneCountInString(s), least, most, "code points")
}

// checkBytes insists on a text that is there, bounds it in bytes and insists on
// UTF-8.
func checkBytes(field, s string, most int) error {
	if !utf8.ValidString(s) {
		return fmt.Errorf("%s: not UTF-8", field)
	}
	return checkRange(field, len(s), 1, most, "bytes")
}

func checkRange(field string, n, least, most int, unit string) error {
	if n < least || n > most {
		return fmt.Errorf("%s: %d %s, allowed are %d to %d", field, n, unit, least, most)
	}
	return nil
}
