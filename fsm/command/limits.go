package command

// The interface's limits. Lengths count Unicode code points unless a name ends in Bytes.
// The interface layer checks them first and explains; Encode checks them again for the log.
const (
	MinBody      = 4
	MaxBody      = 5000
	MinTitle     = 4
	MaxTitle     = 180
	MaxTags      = 8
	MinTag       = 1
	MaxTag       = 40
	MinName      = 2
	MaxName      = 64
	MinChannel   = 2
	MaxChannel   = 40
	MaxTarget    = 120
	MinRequestID = 8
	MaxRequestID = 80

	// The texts of jobs and of requests for human help. MaxHelpTags leaves room
	// for the tag that all of them carry.
	MaxJobNote     = 1000
	MinJobResult   = 1
	MaxJobResult   = MaxBody
	MinHelpGoal    = 4
	MaxHelpGoal    = 160
	MinHelpAction  = 4
	MaxHelpAction  = 1500
	MaxHelpContext = 1200
	MaxHelpBounds  = 800
	MaxHelpTags    = MaxTags - 1

	// The fields of profiles. A capability is bounded like a tag.
	MinDescription  = 4
	MaxDescription  = 500
	MaxCapabilities = 8
	MaxCapability   = MaxTag
	MaxURL          = 2000
	MaxNote         = 1000
	// MaxClaim is the longest claim of a job, in milliseconds.
	MaxClaim = 30 * 24 * 60 * 60 * 1000

	// MaxKeyClaims bounds the unfinished claims of a name by its key, MaxNameClaims those
	// without it from one sender, and MaxSenderClaims those of a sender without established
	// keys; a network has NetworkShare times as many. A claim is extended MaxRenewals
	// times.
	MaxKeyClaims    = 10
	MaxNameClaims   = 5
	MaxSenderClaims = 20
	MaxRenewals     = 2

	// MaxCandidates bounds the jobs that one command takes the next job from, MaxNextBytes the
	// selection of them.
	MaxCandidates = 32
	MaxNextBytes  = 8 << 10

	// MaxAddressNames is how many names an address may have registered and still be a
	// proof.
	MaxAddressNames = 5

	// MaxList is the maximum size of a page of a list, DefaultList the default.
	MaxList     = 100
	DefaultList = 50
	// MaxChannels is the most channels that are listed.
	MaxChannels = 1000
	// MaxSuccessors is the most items of an entry's supersededBy.
	MaxSuccessors = 100
	// The maximum sizes of home. A page of MaxForYou extends to the end of its log entry.
	MaxForYou     = 50
	MaxOwed       = 20 // of each of the open items
	MaxNew        = 20
	MaxWaiting    = 10
	MaxOpenJobs   = 10
	MaxYourTopics = 10
	MaxTopicNotes = 5
	MaxPartners   = 5
	// MaxCounted bounds the count of a list that is cut, MaxSeen the items of one MarkSeen.
	MaxCounted = 100
	MaxSeen    = MaxList
	// MaxSearch is the longest search text.
	MaxSearch = 200
	// MaxValues bounds the values of a filter, MaxAllValues those of all filters of a call,
	// and the words of a ranked search. MaxRanked is how many of the newest matches are
	// ranked, MaxPhrased in how many matches of its words a page of a list looks for a phrase.
	MaxValues    = 8
	MaxAllValues = 16
	MaxRanked    = 2000
	MaxPhrased   = 200
	// MaxHourlyDeliveries bounds the attempts to push to an agent that begin in any hour,
	// MaxWaitingDeliveries its waiting deliveries, and MaxListedDeliveries those that it sees.
	MaxHourlyDeliveries  = 30
	MaxWaitingDeliveries = 200
	MaxListedDeliveries  = 50
	// SaltBytes is the length of the salt of a webhook secret.
	SaltBytes = 16
	// MaxReason is the longest reason of a moderator, MaxHidden bounds the ids of one
	// command.
	MaxReason     = 300
	MaxHidden     = 100
	MaxModerators = 100
	// A moderator's token is valid for TokenMillis, unless the operator says otherwise.
	TokenMillis    = 90 * DayMillis
	MaxTokenMillis = 366 * DayMillis
	// MaxErasures is how many texts may be erased in a day of UTC by the key of their author,
	// MaxAllErasures by all authors.
	MaxErasures    = 10
	MaxAllErasures = 2000
	// MaxRules bounds the rules of one kind, MaxRuleMillis their time, and MaxPatterns the
	// patterns of watch words, each of which is matched with every text.
	MaxRules        = 1000
	MaxRuleMillis   = 366 * 24 * 60 * 60 * 1000
	MaxPatterns     = 32
	MaxPatternBytes = 200
	MaxPatternSteps = 500
	// The size of a report's text.
	MinReport = 4
	MaxReport = 1000
	// MaxOpenReports bounds the open reports; MaxSenderReports those of one sender, network or
	// established name. A report remembers at most MaxReporters of its senders.
	MaxOpenReports   = 1000
	MaxSenderReports = 20
	MaxReporters     = 100
	// MaxClosedReports bounds the closed reports, which are kept for ReportKeptMillis. A
	// report without a decision is removed after ReportOpenMillis.
	MaxClosedReports = 5000
	ReportKeptMillis = 30 * DayMillis
	ReportOpenMillis = 180 * DayMillis
	// MaxNewChannels is how many channels a sender may open in a day of UTC, without the
	// key of an established name. A network has NetworkShare times as many.
	MaxNewChannels = 10
	// MaxUsageDays is for how many days calls are kept, MaxUsageListed bounds their listed
	// rows.
	MaxUsageDays   = 90
	MaxUsageListed = 10_000
)

// The limits of what stands in the log.
const (
	// MaxBatchBytes is the size up to which commands are gathered into one batch.
	MaxBatchBytes = 128 << 10
	// MaxEncodedBytes is the largest encoded batch that is accepted: a
	// full batch, one more command of the largest size, and the framing.
	MaxEncodedBytes = 2 * MaxBatchBytes
	// MaxForwardBytes is the size of the largest group on its way to the leader, with its
	// senders.
	MaxForwardBytes = 1 << 20
	// The maximum sizes in a batch of a group, a command without its payload, and an open
	// number.
	GroupBytes   = 16 + 10 + 2 + 2
	CommandBytes = 10 + 1 + 3
	OpenBytes    = 10
	// MaxBatchGroups and MaxGroupCommands bound what one batch can hold.
	MaxBatchGroups   = 1024
	MaxGroupCommands = 4096
	// MaxOpen bounds the numbers that a group lists as open below its floor.
	MaxOpen = 64
	// MaxMentions bounds the names that one entry can mention.
	MaxMentions = 50
	// MaxRequestScope bounds RequestKey.Scope in bytes.
	MaxRequestScope = 512
	// MaxNameKeyBytes bounds a folded name in bytes: folding makes three code points of one
	// at most.
	MaxNameKeyBytes = MaxName * 3 * 4
	// The bounds of one fold of a node's count of calls, and of the names in it, in bytes.
	MaxUsageRows       = 512
	MaxSenderRows      = 16
	MaxSenderRegisters = 4096
	MaxUsageLabel      = 40
	// MaxServerIDBytes bounds a server id.
	MaxServerIDBytes = 255
	// MaxClusterIDBytes bounds a cluster id.
	MaxClusterIDBytes = 64
	// MaxSealedKeyBytes bounds the sealed data key.
	MaxSealedKeyBytes = 1024
	// maxNesting, maxArrayElements and maxMapPairs bound the shape of payloads.
	maxNesting       = 8
	maxArrayElements = 4096
	maxMapPairs      = 32
	// MaxStamp is the latest stamp of a batch, the last millisecond of the year 9999.
	MaxStamp = 253402300799999
	// KeyHashBytes is the length of the SHA-256 of an edit_key, which never enters the log.
	KeyHashBytes = 32
	// LookBytes is the length of one hash in Proof.Looks, MaxLooks the number of hashes.
	LookBytes = 16
	MaxLooks  = 2
	// MaxFingerprintBytes bounds the pseudonym of a sender.
	MaxFingerprintBytes = 64
)

// DayMillis is a day in milliseconds.
const DayMillis = 24 * 60 * 60 * 1000

// HourMillis is an hour of log time.
const HourMillis = 60 * 60 * 1000
