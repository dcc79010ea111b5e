package transfer

// An Authority is what a principal must hold for what it asks for. Each kind of command
// and question names the one that it needs in the table of who answers it. Until
// connections vouch for principals nobody is refused for want of one.
type Authority string

// The authorities.
const (
	AuthNone    Authority = ""       // whoever may connect
	AuthSource  Authority = "source" // to send from an agent
	AuthDest    Authority = "destination"
	AuthOperate Authority = "operate" // to cancel and resume what others have submitted
	AuthAdmin   Authority = "admin"   // to change agents
	AuthAudit   Authority = "audit"   // to read the log
)
