package transfer

// An Authority is a right that a principal must hold for a command or a question. The dispatch table of commands and
// questions names the Authority that each kind needs. Package policy decides which principal holds it. The names are
// those of IBM MQ Managed File Transfer where it has one, named after the queue that stores it there. The others are
// Ferry's own.
type Authority string

// The authorities.
const (
	AuthNone         Authority = ""            // every member of the network
	AuthSource       Authority = "source"      // send files of an agent: AUTHTRN1
	AuthDest         Authority = "destination" // have files land at an agent: AUTHTRN1
	AuthMonitor      Authority = "monitor"     // one's own monitors: AUTHMON1
	AuthSchedule     Authority = "schedule"    // one's own schedules: AUTHSCH1
	AuthOperate      Authority = "operate"     // see, cancel and resume the transfers of other users
	AuthAdmin        Authority = "admin"       // change agents, and the network's policy: AUTHADM1
	AuthPeer         Authority = "peer"        // of an agent: send files to another one: AUTHAGT1
	AuthDeleteSource Authority = "delete-source"
	AuthOverwrite    Authority = "overwrite"
	AuthTemplate     Authority = "template"
	AuthProgram      Authority = "program"
	AuthAudit        Authority = "audit"    // read all of the audit log
	AuthEnrol        Authority = "enrol"    // make tokens, enrol and revoke
	AuthDelegate     Authority = "delegate" // speak for the users that the rule names
)

// Authorities returns all of them, without AuthNone.
func Authorities() []Authority {
	return []Authority{AuthSource, AuthDest, AuthMonitor, AuthSchedule, AuthOperate, AuthAdmin, AuthPeer,
		AuthDeleteSource, AuthOverwrite, AuthTemplate, AuthProgram, AuthAudit, AuthEnrol, AuthDelegate}
}

// OfPaths reports whether an authority is granted for the paths that a rule names, and not without paths.
func (a Authority) OfPaths() bool {
	return a == AuthSource || a == AuthDest || a == AuthDeleteSource || a == AuthOverwrite
}
