package operate

import (
	"context"

	"github.com/commons-cluster/commons/node/admin"
	"github.com/commons-cluster/commons/node/cli/terminal"
	"github.com/commons-cluster/commons/node/config"
)

type membersCommand struct{ target }

func (c *membersCommand) Run(ctx context.Context, std terminal.Streams) error {
	return answer(ctx, std, &c.target, admin.PathCluster, nil, membersText)
}

func membersText(report *admin.ClusterReport) string {
	return terminal.Table("SERVER\tPART\tALIVE\tROLE\tREADY\tVERSION\tHTTP\tPRIVATE\tGOSSIP", report.Servers, func(s *admin.Server) []any {
		r := s.Report
		if r == nil {
			return []any{s.ID, s.Part, terminal.YesNo(s.Alive), "does not answer", "no"}
		}
		return []any{s.ID, s.Part, terminal.YesNo(s.Alive), r.Role, terminal.YesNo(r.Ready), r.Version, r.HTTP, r.Private, r.Gossip}
	})
}

type raftCommand struct {
	ListPeers      listPeersCommand      `cmd:"" help:"List the servers of the configuration: address, state, vote, commit index, how far behind."`
	TransferLeader transferLeaderCommand `cmd:"" help:"Make another server the leader."`
	RemovePeer     removePeerCommand     `cmd:"" help:"Take a server that is gone for good out of the configuration."`
}

type listPeersCommand struct{ target }

type peer struct {
	ID      string `json:"id"`
	Address string `json:"address"` // private port, "" when it does not answer
	State   string `json:"state"`   // leader, follower, candidate; "unreachable" when it does not answer
	Voter   bool   `json:"voter"`
	Commit  uint64 `json:"commitIndex"`
	Applied uint64 `json:"appliedIndex"`
	Behind  uint64 `json:"behind"` // log entries that others have applied and this one has not
}

func (c *listPeersCommand) Run(ctx context.Context, std terminal.Streams) error {
	report, err := ask[admin.ClusterReport](ctx, &c.target, admin.PathCluster, nil)
	if err != nil {
		return err
	}
	peers := peersOf(&report)
	return terminal.Show(std.Out, c.JSON, map[string]any{"leader": report.Leader, "peers": peers}, peersText(peers))
}

func peersText(peers []peer) string {
	return terminal.Table("SERVER\tADDRESS\tSTATE\tVOTER\tCOMMIT\tAPPLIED\tBEHIND", peers, func(p *peer) []any {
		if p.Address == "" {
			return []any{p.ID, "-", p.State, terminal.YesNo(p.Voter)}
		}
		return []any{p.ID, p.Address, p.State, terminal.YesNo(p.Voter), p.Commit, p.Applied, p.Behind}
	})
}

func peersOf(report *admin.ClusterReport) []peer {
	peers := []peer{}
	newest := report.Newest()
	for _, s := range report.Servers {
		if s.Part == admin.Outside {
			continue
		}
		p := peer{ID: s.ID, State: "unreachable", Voter: s.Part == admin.Voter}
		if r := s.Report; r != nil {
			p.Address, p.State, p.Commit, p.Applied, p.Behind = r.Private, r.Role, r.Commit, r.Applied, newest-r.Applied
		}
		peers = append(peers, p)
	}
	return peers
}

type transferLeaderCommand struct {
	target `embed:""`
	ID     string `arg:"" optional:"" help:"Server id or node name of the next leader (default: the one that is most up to date)."`
}

func (c *transferLeaderCommand) Run(ctx context.Context, std terminal.Streams) (err error) {
	id := c.ID
	if id != "" {
		if id, err = c.find(ctx, id); err != nil {
			return err
		}
	}
	return answer(ctx, std, &c.target, admin.PathTransfer, admin.ServerRef{ID: id}, func(a *admin.ServerRef) string { return a.ID + " leads" })
}

type removePeerCommand struct {
	target `embed:""`
	ID     string `arg:"" help:"Server id, or node name, of the server that is gone."`
}

func (c *removePeerCommand) Run(ctx context.Context, std terminal.Streams) error {
	id, err := c.find(ctx, c.ID)
	if err != nil {
		return err
	}
	return answer(ctx, std, &c.target, admin.PathRemove, admin.Removal{ID: id}, func(a *admin.ServerRef) string {
		return a.ID + " was removed; empty its data directory: started with its old one it would join again"
	})
}

type leaveCommand struct{ target }

func (c *leaveCommand) Run(ctx context.Context, std terminal.Streams) error {
	if len(c.ClusterAddr) != 1 {
		return &config.Error{Problems: []string{"--cluster-addr: the node that is asked leaves the cluster; name that one alone"}}
	}
	return answer(ctx, std, &c.target, admin.PathLeave, nil, func(a *admin.ServerRef) string {
		return a.ID + " has left the cluster and ends; empty its data directory before it joins again"
	})
}
