// Package admin is the operators' API of the private port: paths, requests, answers and
// the client. Package adminserver serves it; the command line shows the answers.
package admin

// The paths of the private port for operators. Those of the second group are
// answered by the leader: other nodes pass them on.
const (
	PathNode     = "/v1/admin/node"      // NodeReport of the node itself
	PathStatus   = "/v1/admin/status"    // Status of the node itself
	PathCluster  = "/v1/admin/cluster"   // ClusterReport, gathered by the node
	PathDigest   = "/v1/admin/digest"    // DigestRequest: Digest of the node itself
	PathPurged   = "/v1/admin/purged"    // the backup.PurgeList
	PathCompare  = "/v1/admin/compare"   // CompareRequest: Comparison of all nodes' digests
	PathSnapshot = "/v1/admin/snapshot"  // a backup of the state, as a stream
	PathSaved    = "/v1/admin/saved"     // SavedBackup: a backup is where it was to go
	PathLeave    = "/v1/admin/leave"     // the node leaves for good, and answers its ServerRef
	PathDebug    = "/v1/admin/debug"     // DebugRequest: DebugAnswer of the server that it names
	PathLogLevel = "/v1/admin/log-level" // LogLevel: the same of the server that it names, once it holds

	PathResetKey = "/v1/admin/reset-key" // AgentRef: KeyAnswer with another edit_key and recovery_key
	// Protection: the same, once it holds.
	PathProtectName = "/v1/admin/protect-name"
	// SettingsChange: the SettingsReport after it.
	PathSettings = "/v1/admin/settings"
	// Moderation: what the operation answers. Every node does it.
	PathModerate = "/v1/admin/moderate"
	PathEvents   = "/v1/admin/events"   // EventsRequest: Events, who did what
	PathTransfer = "/v1/admin/transfer" // ServerRef: another server is to lead
	PathRemove   = "/v1/admin/remove"   // Removal: a server is taken out of the configuration
)

// HeaderPassedOn names the node that passed a request on, which happens once.
const HeaderPassedOn = "X-Commons-Passed-On"

// MaxRequestBytes bounds the body of a request.
const MaxRequestBytes = 64 << 10
