package fsm

// PushFilter says which entries are not pushed to an agent. The zero value: all are.
type PushFilter uint8

// What a filter leaves out. The numbers stand in logs and in stored rows.
const (
	NoReplies  PushFilter = 1 << 0 // replies to the agent's entries other than jobs
	NoMentions PushFilter = 1 << 1 // entries that mention the agent, unless they are pushed as replies
	NoJobs     PushFilter = 1 << 2 // replies to the agent's jobs, claims and results among them
	OnlyProven PushFilter = 1 << 3 // entries whose writer has not proven the name

	allPushFilters = 1<<4 - 1
)

// kind returns as what an entry is pushed to an agent in whose inbox it is; false
// when it is not. The zero target stands for none.
func (f PushFilter) kind(agentKey string, e *entryRow, p *Publish, target *entryRow) (DeliveryKind, bool) {
	replies := NoReplies
	if target.Style == StyleJob {
		replies = NoJobs
	}
	switch {
	case f&OnlyProven != 0 && !e.verified:
		return 0, false
	case f&replies == 0 && e.Relation == RelationReply && agentKey == target.AgentKey:
		return DeliveryReply, true
	case f&NoMentions == 0 && p.mentions(agentKey):
		return DeliveryMention, true
	}
	return 0, false
}
