package enrol

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"ferry/internal/qmgr"
	"ferry/internal/qmgr/errands"
	"ferry/internal/qmgr/roles"
	"ferry/internal/security/access"
	"ferry/internal/security/authority"
	"ferry/internal/security/identity"
	"ferry/internal/security/policy"
	"ferry/internal/security/trust"
	"ferry/internal/security/word"
	"ferry/internal/sys/quiet"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// An ask is a question of a member of the network to its authority, on wire.AskSubject("authority", …). The subject has
// the member's token, and the author signs the question (word.Authority). Unknown fields are ignored.
type ask struct {
	V       int                       `json:"v"`
	ID      transfer.ID               `json:"id,omitzero"` // of the word; zero in a question without a signature
	Op      op                        `json:"op"`
	Name    string                    `json:"name,omitempty"` // as a URI
	Role    roles.Role                `json:"role,omitempty"`
	Request authority.IdentityRequest `json:"wish,omitzero"`
	Anew    bool                      `json:"anew,omitempty"`  // also where the name has other keys, which are revoked by that
	TTL     time.Duration             `json:"ttl,omitempty"`   // nanoseconds
	Which   string                    `json:"which,omitempty"` // a token: the first digits of its hash, or its name

	Policy    json.RawMessage `json:"policy,omitempty"`
	Questions []Question      `json:"questions,omitempty"`
	Pipe      *authority.Pipe `json:"pipe,omitempty"`
}

// A Question is whether a principal may do something, as access.Question.
type Question struct {
	Principal string             `json:"principal"` // a token
	Right     transfer.Authority `json:"authority"`
	Agent     transfer.AgentName `json:"agent,omitempty"`
	Path      transfer.Path      `json:"path,omitempty"`
}

// A Decision is the answer: the rule that allows it, or why not.
type Decision struct {
	Rule  string          `json:"rule,omitempty"`
	Error *transfer.Error `json:"error,omitempty"`
}

// maxQuestions is how many questions are answered at once.
const maxQuestions = 16

// An op is the operation that a question asks for.
type op string

const (
	opRenew      op = "renew"      // new credentials for the asker's own name; open to all
	opTrust      op = "trust"      // the document that the asker keeps: agents, coordination and queue managers have the rules in it
	opRules      op = "rules"      // the rules document; takes the authority audit or admin
	opTest       op = "test"       // Questions; those about others take the same
	opPipe       op = "pipe"       // a ticket for Pipe; of a user, where the rules allow the request
	opEnrol      op = "enrol"      // Name as Role with Wish; takes the authority enrol, as the others below
	opToken      op = "token"      // a token for Name as Role
	opDrop       op = "drop"       // no token Which any more
	opRevoke     op = "revoke"     // Name
	opTokens     op = "tokens"     // those that are open
	opIdentities op = "identities" // all
	opRotate     op = "rotate"     // begin to sign with new keys; takes the authority admin
	opPolicy     op = "policy"     // Policy from now on; takes the authority admin
	opMember     op = "member"     // the queue manager Which leaves its cluster; takes the authority admin
)

// signed reports whether an op takes the signature of its author. A renewal proves the keys of the asker, and the authority
// signs the document.
func (o op) signed() bool { return o != opRenew && o != opTrust }

// changes reports whether an op changes anything, so that it is done once.
func (o op) changes() bool {
	return o.signed() && o != opRules && o != opTest && o != opPipe && o != opTokens && o != opIdentities
}

// A reply is the authority's answer.
type reply struct {
	V          int                   `json:"v"`
	Error      *transfer.Error       `json:"error,omitempty"`
	Grant      *answer               `json:"grant,omitempty"`
	Token      string                `json:"token,omitempty"`
	Ticket     *identity.JWTs        `json:"ticket,omitempty"`
	Trust      []byte                `json:"trust,omitempty"`
	Decisions  []Decision            `json:"decisions,omitempty"`
	Dropped    int                   `json:"dropped,omitempty"`
	Tokens     []authority.OpenToken `json:"tokens,omitempty"`
	Identities []authority.Issued    `json:"identities,omitempty"`
}

const (
	maxAsk = 32<<10 + policy.MaxSize
	maxTTL = 30 * 24 * time.Hour
	minTTL = time.Second
)

// A Responder answers the questions of members of the network.
type Responder struct {
	Authority *authority.Authority
	Conn      *qmgr.Conn // the authority's own
	// Token writes a token's secret as the line for joiners. Its error gives the reason why no joiner could use it.
	Token func(secret string) (string, error)
	// Changed is called after a revocation, also that of a repeated enrolment, before the answer.
	Changed func()
	Log     *slog.Logger

	quiet     *quiet.Log
	words     *word.Checker
	questions *questionQueue
	tasks     sync.WaitGroup

	enrolling sync.Mutex
}

// Attend answers until stop.
func (d *Responder) Attend() (stop func(), err error) {
	d.quiet = quiet.New(d.Log, time.Now)
	d.words = word.NewChecker(d.Conn.Identity(), identity.Authority, "")
	d.questions = newQuestionQueue()
	unsubscribe, err := d.Conn.Subscribe(wire.AllAsks(wire.Authority), d.enqueue)
	if err != nil {
		return nil, err
	}
	for range maxConcurrent {
		d.tasks.Go(func() {
			for m, ok := d.questions.next(); ok; m, ok = d.questions.next() {
				d.answer(m)
				d.questions.done(m)
			}
		})
	}
	return func() { unsubscribe(); d.questions.end(); d.tasks.Wait() }, nil
}

// enqueue queues a question. One that finds no room is answered at once, and no log line is written for it.
func (d *Responder) enqueue(m qmgr.Message) {
	if d.questions.add(m) {
		return
	}
	token := wire.LastToken(m.Subject)
	d.sendReply(token, m.Reply, reply{V: 1, Error: transfer.AsError(transfer.Errorf(transfer.KindBusy, "too many questions of %s wait at the network's authority", token).
		WithHint("wait until they are answered, then ask again"))})
}

func (d *Responder) answer(m qmgr.Message) {
	token := wire.LastToken(m.Subject)
	r, err := d.do(token, m.Data)
	r.V = 1
	if err != nil {
		r = reply{V: 1, Error: transfer.AsError(err)}
		d.quiet.Warn("refused by the authority", "who", token, "error", err)
	}
	d.sendReply(token, m.Reply, r)
}

// sendReply answers a question. A member that gets no answer asks again.
func (d *Responder) sendReply(token, inbox string, r reply) {
	if data, err := json.Marshal(r); err == nil {
		d.Conn.Answer(token, inbox, data)
	}
}

func (d *Responder) do(token string, message []byte) (r reply, err error) {
	a := d.Authority
	var q ask
	signed, body, err := word.Open(message)
	if err != nil {
		return r, err
	}
	if len(body) > maxAsk {
		return r, transfer.Errorf(transfer.KindTooLarge, "a question of %d bytes; the limit is %d", len(body), maxAsk)
	}
	if err := json.Unmarshal(body, &q); err != nil || q.V != 1 {
		return r, transfer.Errorf(transfer.KindVersion, "the question cannot be read")
	}
	who, err := askerOf(a.Network(), token, &q)
	if err != nil {
		return r, err
	}

	if q.Op == opRenew {
		g, err := a.Renew(who, q.Request)
		r.Grant = grantAnswer(g)
		return r, err
	}
	if q.Op == opTrust {
		r.Trust, err = d.document(who)
		return r, err
	}
	by, err := d.words.Check(signed, body, word.Authority, q.ID, token, time.Now())
	if err == nil {
		err = authority.CheckAuthor(a, by)
	}
	if err != nil {
		return r, err
	}
	switch q.Op {
	case opPipe:
		r.Ticket, err = ticket(a, who, q.Pipe)
		return r, err
	case opRules:
		if err = d.maySeeRules(who); err == nil {
			r.Trust, err = a.Trust(trust.Rules)
		}
		return r, err
	case opTest:
		r.Decisions, err = d.test(who, q.Questions)
		return r, err
	}
	var name identity.Name
	switch q.Op {
	case opEnrol, opToken, opRevoke:
		if name, err = identity.Parse(q.Name); err != nil {
			return r, err
		}
	}
	if err := d.may(who, name, &q); err != nil {
		return r, err
	}
	if q.Op.changes() {
		if err := authority.RecordQuestion(a, by, string(q.Op)); err != nil {
			return r, err
		}
	}
	switch q.Op {
	case opEnrol:
		d.enrolling.Lock() // of two enrolments of one name at the same time, the second one sees the first
		defer d.enrolling.Unlock()
		var g identity.Grant
		if !q.Anew && a.Role(name) != "" && !a.Has(name, q.Request) && !authority.Ended(a, name) {
			return r, transfer.Errorf(transfer.KindConflict, "%s is enrolled already, with other keys", name)
		}
		if age, ok := a.GrantAge(name); q.Anew && ok && age < wire.UnreachableAfter && !a.Has(name, q.Request) {
			return r, transfer.Errorf(transfer.KindBusy, "%s was enrolled %s ago with other keys, and may be about to start", name, age.Round(time.Second))
		}
		changes := a.Role(name) != "" && !a.Has(name, q.Request) || name.Role == identity.User
		g, err = a.Issue(name, q.Role, q.Request, who.String())
		r.Grant = grantAnswer(g)
		if changes {
			d.Changed()
		}
	case opToken:
		if q.TTL < minTTL || q.TTL > maxTTL {
			return r, transfer.Errorf(transfer.KindUsage, "a token is good for %s to %s", minTTL, maxTTL)
		}
		var secret string
		if secret, err = a.NewToken(name, q.Role, q.TTL, who.String()); err == nil {
			r.Token, err = d.Token(secret)
		}
	case opDrop:
		r.Dropped, err = a.DropToken(q.Which, who.String())
	case opRevoke:
		err = a.Revoke(name, who.String())
		d.Changed()
		if err == nil && (name.Role == identity.Agent || name.Role == identity.User) {
			d.clear(name)
		}
	case opPolicy:
		err = a.SetPolicy(q.Policy, who)
		d.Changed()
	case opTokens:
		r.Tokens = a.Tokens()
	case opIdentities:
		r.Identities = a.Identities()
	case opRotate:
		err = a.Rotate(who.String())
		d.Changed()
	case opMember:
		err = d.removeMember(q.Which, who)
	default:
		err = transfer.Errorf(transfer.KindUsage, "the authority does not know %.40q", q.Op)
	}
	return r, err
}

// document is the newest document of the form that the asker keeps. The form of users and of their
// pipes is without the rules.
func (d *Responder) document(who identity.Name) ([]byte, error) {
	if who.Role == identity.User || who.Role == identity.Agent && transfer.AgentName(who.Name).Stream() {
		return d.Authority.Trust(trust.Keys)
	}
	return d.Authority.Trust(trust.Rules)
}

// maySeeRules is nil where the asker may read the rules, which name users and paths: so does the audit log.
func (d *Responder) maySeeRules(who identity.Name) error {
	err := d.Authority.May(who, transfer.AuthAudit)
	if err != nil && d.Authority.May(who, transfer.AuthAdmin) == nil {
		return nil
	}
	return err
}

// test decides questions as agents do. A member that may not see the rules asks about itself, and whether an agent
// is a peer. The answer about a user would say whether there is one.
func (d *Responder) test(who identity.Name, all []Question) (answers []Decision, err error) {
	if len(all) > maxQuestions {
		return nil, transfer.Errorf(transfer.KindTooLarge, "%d questions; the limit is %d", len(all), maxQuestions)
	}
	for _, q := range all {
		about, err := identity.OfToken(d.Authority.Network(), q.Principal)
		if q.Principal == who.Token() || q.Right == transfer.AuthPeer && err == nil && about.Role == identity.Agent {
			continue
		}
		if err := d.maySeeRules(who); err != nil {
			return nil, err
		}
	}
	doc, err := d.Authority.Trust(trust.Rules)
	if err != nil {
		return nil, err
	}
	rules, err := trust.Open(d.Conn.Identity().Trust(), d.Authority.Network(), doc)
	if err != nil {
		return nil, err
	}
	j := access.NewJudge(rules.Network, nil, false)
	if err := j.Take(rules); err != nil {
		return nil, err
	}
	for _, q := range all {
		rule, err := j.Ask(access.Question{Principal: q.Principal, Right: q.Right, Agent: q.Agent, Path: string(q.Path)})
		answers = append(answers, Decision{Rule: rule, Error: transfer.AsError(err)})
	}
	return answers, nil
}

// clear has the messages of a revoked member removed, and those that wait for it: its requests must not run, and they take the
// room of others.
func (d *Responder) clear(name identity.Name) {
	ctx, cancel := context.WithTimeout(context.Background(), clearWait)
	defer cancel()
	if err := qmgr.ClearStored(ctx, d.Conn, name.Token()); err != nil {
		d.quiet.Warn("the messages of a revoked member are not removed; revoke it once more", "name", name, "error", err)
	}
}

const clearWait = 5 * time.Second

// removeMember takes a queue manager out of its cluster. The authority records the request first.
func (d *Responder) removeMember(which string, who identity.Name) error {
	if err := authority.NoteRemoval(d.Authority, which, who.String()); err != nil {
		return err
	}
	jwt, seed, err := d.Authority.SystemUser(removeWait)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), removeWait)
	defer cancel()
	return qmgr.RemoveMember(ctx, d.Conn, which, errands.SystemUser{JWT: jwt, Seed: seed})
}

const removeWait = time.Minute

// may is nil where the asker has the authority for a question, about name where it has one. The authority enrol is enough for
// the names and roles that authority.MayGive says.
func (d *Responder) may(who, name identity.Name, q *ask) error {
	a := d.Authority
	switch q.Op {
	case opEnrol:
		return authority.MayGive(a, who, name, q.Role, q.Request)
	case opToken:
		return authority.MayGive(a, who, name, q.Role, authority.IdentityRequest{})
	case opRevoke:
		return authority.MayRevoke(a, who, name)
	case opPolicy, opRotate, opMember:
		return a.May(who, transfer.AuthAdmin)
	}
	return a.May(who, transfer.AuthEnrol)
}

// askerOf returns the asker of a question, by the token in the subject. All queue managers share one token, so their
// question has the name. That name only allows the queue manager to renew the signatures of its keys and to read the
// trust document.
func askerOf(network, token string, q *ask) (who identity.Name, err error) {
	if token != wire.Manager || q.Op != opRenew && q.Op != opTrust {
		if who, err = identity.OfToken(network, token); err == nil && transfer.AgentName(who.Name).Stream() && q.Op != opTrust {
			err = transfer.Errorf(transfer.KindDenied, "%s is a pipe, and asks the authority for the trust document alone", who.Name)
		}
		return who, err
	}
	if who, err = identity.Parse(q.Name); err == nil && (who.Role != identity.Manager || who.Network != network) {
		err = transfer.Errorf(transfer.KindDenied, "%s is no queue manager of the network %s", who, network)
	}
	return who, err
}

func grantAnswer(g identity.Grant) *answer {
	return &answer{Chain: g.Chain, Roots: g.Roots, JWTs: &g.JWTs, Trust: g.Trust, Claims: g.Claims}
}

func (a *answer) grant() identity.Grant {
	g := identity.Grant{Chain: a.Chain, Roots: a.Roots, Trust: a.Trust, Claims: a.Claims}
	if a.JWTs != nil {
		g.JWTs = *a.JWTs
	}
	return g
}

// A Client asks the authority over a connection to the network.
type Client struct {
	Conn    *qmgr.Conn
	Timeout time.Duration // of an answer; askTime at least
}

// askTime is how long the authority may take to answer.
const askTime = 10 * time.Second

func (a Client) ask(ctx context.Context, q ask) (r reply, err error) {
	q.V = 1
	now, self := time.Now(), a.Conn.Identity()
	if q.Op.signed() {
		q.ID = transfer.NewID(now)
	}
	body, err := json.Marshal(q)
	if err != nil {
		return r, err
	}
	if q.Op.signed() && self != nil {
		to := identity.Name{Network: self.Name().Network, Role: identity.Authority}
		body = word.Sign(self, word.Statement{Kind: word.Authority, To: to, ID: q.ID}, body, now)
	}
	data, err := a.Conn.Request(ctx, wire.AskSubject(wire.Authority, a.Conn.Self()), body, max(askTime, a.Timeout))
	if transfer.KindOf(err) == transfer.KindUnreachable {
		return r, transfer.Errorf(transfer.KindUnreachable, "the network's authority is away").WithHint("it runs in `ferry up`, or as `ferry authority run`")
	}
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(data, &r); err != nil || r.V != 1 {
		return r, transfer.Errorf(transfer.KindVersion, "the authority's answer cannot be read")
	}
	if r.Error != nil {
		return r, r.Error
	}
	return r, nil
}

func (r reply) grant() (g identity.Grant, err error) {
	if r.Grant == nil {
		return g, transfer.Errorf(transfer.KindVersion, "the authority has issued nothing")
	}
	return r.Grant.grant(), nil
}

// Renew has an identity renewed that connects as itself.
func (a Client) Renew(ctx context.Context, i *identity.Identity) error {
	w, err := authority.IdentityRequestOf(i.Keys())
	if err != nil {
		return err
	}
	r, err := a.ask(ctx, ask{Op: opRenew, Name: i.Name().String(), Request: w})
	if err != nil {
		return err
	}
	g, err := r.grant()
	if err != nil {
		return err
	}
	return i.Renew(g)
}

// Enrol has an identity issued for a request, where the asker may enrol. A name that has other
// keys is an error of KindConflict, unless anew says that they are to be revoked.
func (a Client) Enrol(ctx context.Context, name identity.Name, role roles.Role, w authority.IdentityRequest, anew bool) (identity.Grant, error) {
	r, err := a.ask(ctx, ask{Op: opEnrol, Name: name.String(), Role: role, Request: w, Anew: anew})
	if err != nil {
		return identity.Grant{}, err
	}
	return r.grant()
}

// NewToken has a token made and returns it as the line that a joiner is given.
func (a Client) NewToken(ctx context.Context, name identity.Name, role roles.Role, ttl time.Duration) (string, error) {
	r, err := a.ask(ctx, ask{Op: opToken, Name: name.String(), Role: role, TTL: ttl})
	return r.Token, err
}

// DropToken takes tokens back, by the first digits of a hash or by a name, and says how many.
func (a Client) DropToken(ctx context.Context, which string) (int, error) {
	r, err := a.ask(ctx, ask{Op: opDrop, Which: which})
	return r.Dropped, err
}

// Revoke revokes the keys that were issued to a name.
func (a Client) Revoke(ctx context.Context, name identity.Name) error {
	_, err := a.ask(ctx, ask{Op: opRevoke, Name: name.String()})
	return err
}

// RemoveMember takes a queue manager that is not running out of its cluster.
func (a Client) RemoveMember(ctx context.Context, name string) error {
	_, err := a.ask(ctx, ask{Op: opMember, Which: name})
	return err
}

// Tokens lists the tokens that are open.
func (a Client) Tokens(ctx context.Context) ([]authority.OpenToken, error) {
	r, err := a.ask(ctx, ask{Op: opTokens})
	return r.Tokens, err
}

// Identities lists the issued identities.
func (a Client) Identities(ctx context.Context) ([]authority.Issued, error) {
	r, err := a.ask(ctx, ask{Op: opIdentities})
	return r.Identities, err
}

// SetPolicy replaces the rules of the network.
func (a Client) SetPolicy(ctx context.Context, rules []byte) error {
	_, err := a.ask(ctx, ask{Op: opPolicy, Policy: rules})
	return err
}

// Rotate has the authority begin to sign with new keys.
func (a Client) Rotate(ctx context.Context) error {
	_, err := a.ask(ctx, ask{Op: opRotate})
	return err
}

// Rules is the rules document, where the asker may see the rules.
func (a Client) Rules(ctx context.Context) ([]byte, error) {
	r, err := a.ask(ctx, ask{Op: opRules})
	return r.Trust, err
}

// Test has questions decided by the rules, each in its place.
func (a Client) Test(ctx context.Context, all []Question) ([]Decision, error) {
	r, err := a.ask(ctx, ask{Op: opTest, Questions: all})
	if err == nil && len(r.Decisions) != len(all) {
		err = transfer.Errorf(transfer.KindVersion, "the authority has answered %d of %d questions", len(r.Decisions), len(all))
	}
	return r.Decisions, err
}

// Trust is the document that the asker keeps, as the authority has signed it last.
func (a Client) Trust(ctx context.Context) ([]byte, error) {
	q := ask{Op: opTrust}
	if i := a.Conn.Identity(); i != nil {
		q.Name = i.Name().String()
	}
	r, err := a.ask(ctx, q)
	return r.Trust, err
}
