package transfer

// An Authority is what a principal must hold for what it asks for. Each kind of command
// and question names the one that it needs in the table of who answers it; package policy
// decides who holds which. The names are those of IBM MQ Managed File Transfer where it has
// one, by the queue on which it keeps it, and Ferry's own otherwise.
type Authority string

// The authorities.
const (
	AuthNone         Authority = ""            // whoever is in the network
	AuthSource       Authority = "source"      // send files of an agent: AUTHTRN1
	AuthDest         Authority = "destination" // have files land at an agent: AUTHTRN1
	AuthMonitor      Authority = "monitor"     // one's own monitors: AUTHMON1
	AuthSchedule     Authority = "schedule"    // one's own schedules: AUTHSCH1
	AuthOperate      Authority = "operate"     // see, cancel and resume what others have submitted: AUTHOPS1
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

// Authorities are all of them, without AuthNone.
func Authorities() []Authority {
	return []Authority{AuthSource, AuthDest, AuthMonitor, AuthSchedule, AuthOperate, AuthAdmin, AuthPeer,
		AuthDeleteSource, AuthOverwrite, AuthTemplate, AuthProgram, AuthAudit, AuthEnrol, AuthDelegate}
}

// OfPaths reports whether an authority is held for the paths that a rule names, and not as
// such.
func (a Authority) OfPaths() bool {
	return a == AuthSource || a == AuthDest || a == AuthDeleteSource || a == AuthOverwrite
}
