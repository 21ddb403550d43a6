package fsm

import "github.com/commons-cluster/commons/fsm/command"

// pushKind returns as what an entry is pushed to an agent in whose inbox it is; false
// when it is not. The zero target means that there is none.
func pushKind(f command.PushFilter, agentKey string, e *entryRow, p *command.Publish, target *entryRow) (DeliveryKind, bool) {
	replies := command.NoReplies
	if target.Type == TypeJob {
		replies = command.NoJobs
	}
	switch {
	case f&command.OnlyProven != 0 && !e.verified():
		return 0, false
	case f&replies == 0 && e.Relation == command.RelationReply && agentKey == target.AgentKey:
		return DeliveryReply, true
	case f&command.NoMentions == 0 && mentions(p, agentKey):
		return DeliveryMention, true
	}
	return 0, false
}
