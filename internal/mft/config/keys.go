package config

import (
	"path"
	"strconv"
	"strings"

	"ferry/internal/transfer"
)

// An Outcome is the outcome of a part of a configuration.
type Outcome string

// The outcomes.
const (
	Taken    Outcome = "taken"
	Needless Outcome = "not needed"
	Missed   Outcome = "not taken"
)

// A key is a property of an agent. With a flag it becomes that setting of `ferry agent run`, if convert returns a value
// for it. Otherwise why is the text of its note.
type key struct {
	flag    string
	convert func(value string) (string, error)

	why     string
	missed  bool   // the administrator has to handle it, unless the value is harmless
	without string // the harmless value, in lower case; the empty value is always harmless
	own     bool   // handled outside this table
	blank   bool   // blanks are part of the value
}

// needless returns the key of a property without need for a setting.
func needless(why string) key { return key{why: why} }

// missed returns the key of a property for a function that Ferry does not have. The value without does not request the
// function.
func missed(without, why string) key { return key{why: why, missed: true, without: without} }

// number returns the key of a setting that is a whole number in a range.
func number(flag string, low, high int) key {
	return key{flag: flag, convert: func(v string) (string, error) {
		n, err := strconv.Atoi(strings.TrimSpace(v))
		if err != nil || n < low || n > high {
			return "", transfer.Errorf(transfer.KindUsage, "%q is out of the range of --%s, %d to %d", v, flag, low, high)
		}
		return strconv.Itoa(n), nil
	}}
}

const (
	ofQueueManager = "Ferry's own queue manager takes its place: --network"
	ofIdentities   = "the identities of the network take its place"
	ofLine         = "Ferry finds it out from the line"
	ofHeartbeats   = "heartbeats and live figures need no setting"
	ofLog          = "the log goes to stderr (--log-level, --log-format), and the audit log has the operations"
	ofExits        = "write it as a program in the directory of --programs, and name it with --exit"
	ofOtherExits   = "I/O exits and credential exits are not built"
	ofQueues       = "queues are always there: rules permit reading and writing /queue:NAME"
	ofStandby      = "the lock of the ledger decides which instance is active"
	ofService      = "the host's service manager starts the process again"
	ofDataSets     = "data sets lie beneath --record-root"
)

// agentKeys returns the known properties of an agent.properties.
func agentKeys() map[string]key {
	all := map[string]key{
		"agentName":   {own: true, why: "NAME of ferry agent run"},
		"agentDesc":   missed("", "agents have no description"),
		"agentType":   {own: true, why: "each agent is STANDARD; Ferry makes no agent of another type"},
		"sandboxRoot": {own: true, why: "roots and rules"}, "userSandboxes": {own: true, why: "rules, out of UserSandboxes.xml"},
		"transferRoot": {own: true, why: "the first root"},

		"agentChunkSize": number("chunk-size", 4<<10, 1<<20), "agentWindowSize": number("window", 1, 10_000),
		"agentFrameSize": number("frame", 1, 1000), "agentCheckpointInterval": number("checkpoint-interval", 1, 1000),
		"maxSourceTransfers":      number("max-source-transfers", 1, 100_000),
		"maxDestinationTransfers": number("max-destination-transfers", 1, 100_000),
		"maxQueuedTransfers":      number("max-queued-transfers", 1, 100_000),

		"commandPath": {flag: "programs", convert: programs},
		"textReplacementCharacterSequence": {flag: "replace", blank: true, convert: func(v string) (string, error) {
			if len(v) > transfer.MaxReplace {
				return "", transfer.Errorf(transfer.KindUsage, "it has %d bytes; the limit of --replace is %d", len(v), transfer.MaxReplace)
			}
			return v, nil
		}},
		"highlyAvailable": {flag: "standby", without: "false", convert: func(v string) (string, error) {
			if strings.ToLower(strings.TrimSpace(v)) != "true" {
				return "", transfer.Errorf(transfer.KindUsage, "%q is neither true nor false", v)
			}
			return "true", nil
		}},

		"transferRecoveryTimeout":           missed("", "each request has its own: --recovery-timeout, 24h by default; `send: {recovery-timeout: …}` in the settings of the sending users changes the default"),
		"maxFilesForTransfer":               missed("", "each request has its own limit, none by default: --max-files"),
		"xmlConfigReloadInterval":           missed("", "the file of --sandbox is read when the agent starts"),
		"authorityChecking":                 needless("the rules of the network always hold"),
		"logAuthorityChecks":                needless("the audit log has refused requests"),
		"additionalWildcardSandboxChecking": missed("false", "a file that a rule refuses fails, and not the whole transfer"),
		"failTransferWhenCapacityReached":   missed("false", "a transfer waits for a destination without a free slot"),
		"doNotUseTempOutputFile":            missed("false", "a file always lands under a temporary name first"),
		"agentDataCompression":              missed("none", "each request has its own: --compress"),
		"agentHeaderCompression":            missed("none", "each request has its own: --compress"),
		"agentSslFipsRequired":              missed("false", "a mode for FIPS is not built"),
		"transferRootHLQ":                   missed("", ofDataSets),

		"enableQueueInputOutput":           {own: true, why: ofQueues},
		"enableClusterQueueInputOutput":    needless("queues of a cluster are those of each of its members"),
		"maxInputOutputMessageLength":      missed("1048576", "a message has 1,998,848 bytes at most; an agent has no limit of its own"),
		"monitorGroupRetryLimit":           missed("10", "a transfer of a monitor of a queue that fails is made again ten times"),
		"monitorMaxResourcesInPoll":        missed("-1", "a poll of a monitor looks at all files; --batch bounds one transfer"),
		"monitorReportTriggerFail":         needless("a trigger that is refused is on record"),
		"monitorFilepathPlatformSeparator": needless("variables of monitors have paths that Ferry takes on every platform"),
		"maxSchedulerRunDelay":             needless("schedules run on time also while transfers do"),
		"maxTransferNegotiationTime":       needless("a destination that does not answer within 10 s is waited for without a slot"),
		"maxInlineFileSize":                needless("small files share messages"),
		"enableMemoryAllocationChecking":   needless("memory is bounded: --memory"),
		"ioThreadPoolSize":                 needless(ofLine),
	}
	for why, names := range map[string]string{
		ofQueueManager: "agentQMgr agentQMgrHost agentQMgrPort agentQMgrChannel agentQMgrStandby agentQMgrRetryInterval agentMultipleChannelsEnabled agentMessageBatchSize agentChannelPrefix",
		ofIdentities:   "agentSslCipherSpec agentSslPeerName agentSslTrustStore agentSslTrustStoreType agentSslKeyStore agentSslKeyStoreType agentQMgrAuthenticationCredentialsFile agentSslTrustStoreCredentialsFile agentSslKeyStoreCredentialsFile",
		ofLine:         "transferAckTimeout transferAckTimeoutRetries",
		ofHeartbeats:   "agentStatusPublishRateLimit agentStatusPublishRateMin",
		ofStandby:      "standbyStatusDiscardTime standbyStatusPublishInterval standbyPollInterval",
		ofService:      "maxRestartCount maxRestartInterval maxRestartDelay",
		ofLog:          "logCapture logTransfer resourceMonitorLog agentLog trace outputLogFiles outputLogSize traceFiles traceSize",
	} {
		for name := range strings.FieldsSeq(names) {
			all[name] = needless(why)
		}
	}
	for name, point := range map[string]string{"sourceTransferStartExitClasses": "source-start", "sourceTransferEndExitClasses": "source-end",
		"destinationTransferStartExitClasses": "destination-start", "destinationTransferEndExitClasses": "destination-end", "monitorExitClasses": "monitor"} {
		all[name] = missed("", ofExits+" "+point+"=PROGRAM")
	}
	all["exitClassPath"], all["exitNativeLibraryPath"] = missed("", ofExits), missed("", ofExits)
	all["IOExitClasses"], all["protocolBridgeCredentialExitClasses"] = missed("", ofOtherExits), missed("", ofOtherExits)
	return all
}

// networkKeys returns the known properties of a coordination.properties or a command.properties. Ferry needs no setting
// for any of them.
func networkKeys() map[string]key {
	all := map[string]key{}
	for _, of := range []string{"coordination", "connection"} {
		for _, name := range []string{"QMgr", "QMgrHost", "QMgrPort", "QMgrChannel", "QMgrStandby"} {
			all[of+name] = needless(ofQueueManager)
		}
		for _, name := range []string{"SslCipherSpec", "SslPeerName", "SslTrustStore", "SslTrustStoreType", "SslKeyStore", "SslKeyStoreType",
			"QMgrAuthenticationCredentialsFile", "SslTrustStoreCredentialsFile", "SslKeyStoreCredentialsFile"} {
			all[of+name] = needless(ofIdentities)
		}
	}
	return all
}

// programs returns the directories of a commandPath as a list of their system.
func programs(v string) (string, error) {
	dirs, err := directories(v)
	if err != nil {
		return "", err
	}
	for _, dir := range dirs {
		if strings.HasPrefix(dir, "!") {
			return "", transfer.Errorf(transfer.KindUsage, "it denies the directory %s, and --programs only permits", dir[1:])
		}
	}
	separator := ":"
	if len(dirs) > 0 && windows(dirs[0]) {
		separator = ";"
	}
	return strings.Join(dirs, separator), nil
}

// directories returns the directories of a list with the separator of their system, cleaned. Each is absolute.
func directories(list string) (all []string, err error) {
	separator := ":"
	if windows(strings.TrimPrefix(list, "!")) {
		separator = ";"
	}
	for dir := range strings.SplitSeq(list, separator) {
		if dir = strings.TrimSpace(dir); dir == "" {
			continue
		}
		denied, is := strings.CutPrefix(dir, "!")
		clean, err := directory(denied)
		if err != nil {
			return nil, err
		}
		if is {
			clean = "!" + clean
		}
		all = append(all, clean)
	}
	return all, nil
}

// directory returns an absolute directory in its shortest spelling, with / between its names.
func directory(dir string) (string, error) {
	text, err := slashed(dir)
	switch {
	case err != nil:
		return "", err
	case strings.ContainsAny(text, "*?"):
		return "", transfer.Errorf(transfer.KindUsage, "%q has a wildcard, which would be taken for one", dir)
	case !absolute(text):
		return "", transfer.Errorf(transfer.KindUsage, "%q is not absolute", dir).
			WithHint("write it as it is on the agent's host; in a properties file each backslash is doubled")
	case windows(text):
		return text[:2] + path.Clean(text[2:]), nil
	}
	return path.Clean(text), nil
}

// windows reports whether a path begins with a drive.
func windows(p string) bool {
	return len(p) >= 2 && p[1] == ':' && 'a' <= p[0]|0x20 && p[0]|0x20 <= 'z'
}

func absolute(p string) bool {
	return strings.HasPrefix(p, "/") || windows(p) && strings.HasPrefix(p[2:], "/")
}

// slashed returns a path or a pattern with / between its levels. It refuses a path that differs between processes of
// its host.
func slashed(p string) (string, error) {
	win := windows(p)
	switch {
	case strings.Contains(p, "$") || win && strings.Contains(p, "%"):
		return "", transfer.Errorf(transfer.KindUsage, "%q has a variable of the environment", p).WithHint("write its value")
	case win:
		p = strings.ReplaceAll(p, `\`, "/")
	case strings.Contains(p, `\`):
		return "", transfer.Errorf(transfer.KindUsage, "%q has a backslash, and no drive", p).WithHint("write a share of Windows as the drive that it is")
	case strings.HasPrefix(p, "//"):
		return "", transfer.Errorf(transfer.KindUsage, "%q is no path of a file", p)
	}
	return p, nil
}
