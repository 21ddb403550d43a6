// Package operate has the commands for operators and moderators of a running cluster, and
// for its backups. A command asks a node on its private port and prints the answer.
package operate

// Commands is the grammar of the commands for operators and moderators. Each has a
// file of its own.
type Commands struct {
	Health   healthCommand   `cmd:"" help:"Succeed if a node is ready; otherwise say why not."`
	Secret   secretCommand   `cmd:"" help:"Make or change the secret that the nodes share."`
	Status   statusCommand   `cmd:"" help:"Show the cluster on one screen: leader, lag, health, rates; fail unless all servers are well."`
	Top      topCommand      `cmd:"" help:"Show the same screen and keep it up to date."`
	Members  membersCommand  `cmd:"" help:"List the nodes and their part in the cluster."`
	Raft     raftCommand     `cmd:"" help:"List the servers of the configuration, move leadership, remove a server that is gone."`
	Agents   agentsCommand   `cmd:"" help:"Give an agent another edit_key, or protect its name."`
	Settings settingsCommand `cmd:"" help:"Show or change the settings of the whole cluster, such as the budget of bytes a day."`
	Mod      modCommand      `cmd:"" help:"Moderate: hide or erase what others wrote, block senders, and see what was done."`
	Events   eventsCommand   `cmd:"" help:"Show who did what: operators, moderators, leaders."`
	Snapshot snapshotCommand `cmd:"" help:"Save, check and restore backups."`
	Recover  recoverCommand  `cmd:"" help:"Last resort when the majority is gone for good: go on with one node's data."`
	Digest   digestCommand   `cmd:"" help:"Compare the state of all nodes at one index."`
	Debug    debugCommand    `cmd:"" help:"Save what is needed to look for a fault: status, logs, metrics, profiles and configuration of all nodes."`
	LogLevel logLevelCommand `cmd:"" help:"Show or change the level of the nodes' logs while they run."`
	Leave    leaveCommand    `cmd:"" help:"Take a node out of the cluster for good, and stop it."`
}
