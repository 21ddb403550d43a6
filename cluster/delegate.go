package cluster

import (
	"fmt"

	"github.com/hashicorp/memberlist"
)

// delegate is Gossip as memberlist calls it. Its methods run under memberlist's
// lock: they must not call memberlist and must not block.
type delegate Gossip

var (
	_ memberlist.Delegate         = (*delegate)(nil)
	_ memberlist.EventDelegate    = (*delegate)(nil)
	_ memberlist.AliveDelegate    = (*delegate)(nil)
	_ memberlist.MergeDelegate    = (*delegate)(nil)
	_ memberlist.ConflictDelegate = (*delegate)(nil)
)

// NodeMeta is what this node says about itself.
func (d *delegate) NodeMeta(int) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.encoded
}

// NotifyMsg ignores user messages: none are sent.
func (d *delegate) NotifyMsg([]byte) {}

// GetBroadcasts sends no user messages.
func (d *delegate) GetBroadcasts(int, int) [][]byte { return nil }

// LocalState adds nothing to full exchanges.
func (d *delegate) LocalState(bool) []byte { return nil }

// MergeRemoteState ignores additions to full exchanges: there are none.
func (d *delegate) MergeRemoteState([]byte, bool) {}

// NotifyAlive rejects members of another cluster. One that was a member here
// before it went there is none any more, although memberlist keeps what it said
// before.
func (d *delegate) NotifyAlive(node *memberlist.Node) error {
	if node.Name == d.cfg.Name {
		return nil
	}
	err := d.checkCluster(node)
	if err == nil {
		return nil
	}
	d.mu.Lock()
	_, known := d.members[node.Name]
	delete(d.members, node.Name)
	d.mu.Unlock()
	if known {
		notify(d.changed)
	}
	return err
}

// NotifyMerge rejects a join by, or to, members of another cluster.
func (d *delegate) NotifyMerge(nodes []*memberlist.Node) error {
	for _, node := range nodes {
		if node.Name == d.cfg.Name || node.State == memberlist.StateDead || node.State == memberlist.StateLeft {
			continue
		}
		if err := d.checkCluster(node); err != nil {
			return err
		}
	}
	return nil
}

func (d *delegate) checkCluster(node *memberlist.Node) error {
	meta, err := DecodeMeta(node.Meta)
	if err != nil {
		return nil //nolint:nilerr // it may be newer than this program: it is relayed, but no member here
	}
	d.mu.Lock()
	own := d.meta.ClusterID
	d.mu.Unlock()
	if sameCluster(own, meta.ClusterID) {
		return nil
	}
	(*Gossip)(d).noteStranger(meta, node.Address())
	if suppressed, ok := d.lines.allow("cluster " + node.Address() + meta.ClusterID); ok {
		d.logger.Warn("rejected a node of another cluster", "server", node.Name, "address", node.Address(),
			"cluster", meta.ClusterID, "own_cluster", own, "suppressed", suppressed)
	}
	return fmt.Errorf("server %s belongs to cluster %s, this node to cluster %s", node.Name, meta.ClusterID, own)
}

// NotifyConflict logs two nodes that claim one server id.
func (d *delegate) NotifyConflict(existing, other *memberlist.Node) {
	if suppressed, ok := d.lines.allow("conflict " + other.Address()); ok {
		d.logger.Warn("a server shows up at a second address; it is believed once the first is dead",
			"server", other.Name, "known_at", existing.Address(), "seen_at", other.Address(), "suppressed", suppressed)
	}
}

// NotifyJoin notes a member that came.
func (d *delegate) NotifyJoin(node *memberlist.Node) {
	if d.note(node) && node.Name != d.cfg.Name {
		d.logger.Info("member joined", "server", node.Name, "gossip", node.Address())
	}
}

// NotifyUpdate notes that a member says something else about itself.
func (d *delegate) NotifyUpdate(node *memberlist.Node) { d.note(node) }

// note takes a member over, unless what it says cannot be read.
func (d *delegate) note(node *memberlist.Node) bool {
	addr := node.Address()
	meta, err := DecodeMeta(node.Meta)
	if err == nil && meta.ServerID != node.Name {
		err = fmt.Errorf("it gives the server id %q", meta.ServerID)
	}
	defer notify(d.changed)
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.lost, node.Name)
	if err != nil {
		delete(d.members, node.Name)
		if suppressed, ok := d.lines.allow("meta " + node.Name + err.Error()); ok {
			d.logger.Warn("ignored a gossip member whose metadata cannot be read", "server", node.Name, "address", addr, "error", err, "suppressed", suppressed)
		}
		return false
	}
	if node.Name == d.cfg.Name {
		meta = d.meta // SetMeta may be ahead of what memberlist has
	}
	d.members[node.Name] = Member{Meta: meta, GossipAddr: addr}
	return true
}

// NotifyLeave notes a member that left or died.
func (d *delegate) NotifyLeave(node *memberlist.Node) {
	addr := node.Address()
	d.mu.Lock()
	delete(d.members, node.Name)
	if node.Name != d.cfg.Name {
		(*Gossip)(d).rememberLost(node.Name, addr)
	}
	d.mu.Unlock()
	notify(d.changed)
	if node.Name != d.cfg.Name {
		d.logger.Info("member gone", "server", node.Name, "gossip", addr)
	}
}
