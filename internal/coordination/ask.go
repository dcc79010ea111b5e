package coordination

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"ferry/internal/audit"
	"ferry/internal/coordination/status"
	"ferry/internal/qmgr"
	"ferry/internal/security/word"
	"ferry/internal/sys/quiet"
	"ferry/internal/sys/turns"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// pageBytes bounds an answer, so that it fits into a message everywhere.
const pageBytes = 512 << 10

// A question describes one kind of question: the authority that it needs and the function that answers it.
type question struct {
	needs  transfer.Authority
	slow   bool // it reads the log, or asks the queue manager, and is answered beside the others
	signed bool // by its author: it changes something, or reads messages
	answer func(*Service, *receivedQuestion, *wire.Answer) error
}

// questions is the table of the questions that coordination answers.
var questions = map[wire.Kind]question{
	wire.AskPing:      {transfer.AuthNone, false, false, func(*Service, *receivedQuestion, *wire.Answer) error { return nil }},
	wire.AskKnown:     {transfer.AuthNone, false, false, (*Service).askKnown},
	wire.AskQueued:    {transfer.AuthNone, false, false, (*Service).askQueued},
	wire.AskAgents:    {transfer.AuthNone, false, false, (*Service).askAgents},
	wire.AskTransfers: {transfer.AuthNone, false, false, (*Service).askTransfers},
	wire.AskTransfer:  {transfer.AuthNone, false, false, (*Service).askTransfer},
	wire.AskAudit:     {transfer.AuthNone, true, false, (*Service).askAudit}, // of his own transfers
	wire.AskVerify:    {transfer.AuthAudit, true, false, (*Service).askVerify},
	wire.AskProof:     {transfer.AuthAudit, true, false, (*Service).askProof},
	wire.AskBind:      {transfer.AuthNone, false, false, (*Service).askBind},
	wire.AskLog:       {transfer.AuthNone, false, false, (*Service).askLog},
	wire.AskCosign:    {transfer.AuthNone, false, false, (*Service).askCosign},
	wire.AskRemove:    {transfer.AuthAdmin, true, true, (*Service).askRemove},
	wire.AskSeen:      {transfer.AuthNone, true, true, askSeen}, // of those that the asker may end
	wire.AskRan:       {transfer.AuthNone, true, false, askRan}, // of the asker's own requests
	wire.AskQueue:     {transfer.AuthOperate, true, true, askQueue},
	wire.AskRegister:  {transfer.AuthNone, false, false, (*Service).askRegister},
	wire.AskKeep:      {transfer.AuthNone, false, false, askKeep}, // of the asker alone
	wire.AskKept:      {transfer.AuthNone, true, false, askKept},  // those that the asker may see
}

// questionRoom are the bytes that a waiting question counts beside its own. It bounds their number.
const questionRoom = 4 << 10

// waiting has the questions that wait for the turn of their asker.
type waiting = turns.Queue[qmgr.Message]

// askerOf returns the name under which the questions of a principal count. The pipes of a user count as one asker,
// because a user may have many.
func askerOf(principal string) string {
	if user := transfer.AgentName(principal).StreamUser(); user != "" {
		return "pipes of " + user // no principal's token has a blank
	}
	return principal
}

// queueQuestion queues a question. A list of all transfers takes milliseconds. In one queue for all askers, one asker
// made all others wait for seconds. A question without room is lost, and its asker asks again.
func queueQuestion(w *waiting, log *quiet.Log, m qmgr.Message) {
	if from := askerOf(wire.LastToken(m.Subject)); !w.Add(from, len(m.Subject)+len(m.Data)+questionRoom, m) {
		log.Dropped(from, "too many questions wait")
	}
}

// answerInTurns passes the questions on, one at a time, until ctx ends.
func answerInTurns(ctx context.Context, w *waiting, answer func(qmgr.Message)) {
	for ctx.Err() == nil {
		if m, ok := w.Take(); ok {
			answer(m)
			continue
		}
		select {
		case <-w.Wake():
		case <-ctx.Done():
		}
	}
}

// asked answers a question. Those that read the log run beside the others, a
// few at once.
func (s *Service) asked(m qmgr.Message) {
	signed, body, err := word.Open(m.Data)
	ask := &receivedQuestion{signed: signed, body: body}
	if err == nil {
		ask.Ask, err = wire.DecodeAsk(body)
	}
	if ask.Ask != nil {
		ask.Principal = wire.LastToken(m.Subject)
	}
	if err == nil && ask.Kind == wire.AskKeep {
		if err := s.definitions.later(askerOf(ask.Principal), func() { s.answer(m, ask, nil) }); err != nil {
			s.answer(m, ask, err)
		}
		return
	}
	if err != nil || !questions[ask.Kind].slow {
		s.answer(m, ask, err)
		return
	}

	if !wire.Wants(m.Subject, m.Reply) {
		s.quiet.Warn("request dropped: its reply subject is not an inbox of the asker's", "subject", m.Subject, "reply", m.Reply)
		return
	}

	asker, places := askerOf(wire.LastToken(m.Subject)), s.places[ask.Kind]
	if places == nil {
		places = s.reading
	}
	if err := places.enter(asker); err != nil {
		s.answer(m, ask, err)
		return
	}
	go func() {
		defer places.leave(asker)
		s.answer(m, ask, nil)
	}()
}

// slowQuestions counts the questions that are answered beside the others, by asker.
type slowQuestions struct {
	each int // of one asker; one asker leaves a place free

	mu  sync.Mutex
	of  map[string]int
	all int
}

func newSlowQuestions(each int) *slowQuestions {
	return &slowQuestions{each: each, of: map[string]int{}}
}

// newPlaces returns the kinds of slow questions that have places of their own. A question about definitions may look at
// many of them, and the reader of an agent's queue waits for an answer to AskRan.
func newPlaces() map[wire.Kind]*slowQuestions {
	return map[wire.Kind]*slowQuestions{wire.AskKept: newSlowQuestions(1), wire.AskRan: newSlowQuestions(1)}
}

func (r *slowQuestions) enter(asker string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all >= readers || r.of[asker] >= r.each {
		return transfer.Errorf(transfer.KindBusy, "coordination already answers %d long questions, %d of them of %s", r.all, r.of[asker], asker).
			WithHint("try again in a few seconds")
	}
	r.all++
	r.of[asker]++
	return nil
}

func (r *slowQuestions) leave(asker string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all--
	if r.of[asker]--; r.of[asker] == 0 {
		delete(r.of, asker)
	}
}

func (s *Service) answer(m qmgr.Message, ask *receivedQuestion, err error) {
	ans := wire.Answer{V: wire.Version}
	if ask.Ask != nil {
		ans.ID = ask.ID
	}
	if err == nil {
		if q, known := questions[ask.Kind]; known {
			if q.signed {
				err = s.obeyed.check(ask)
			}
			if err == nil {
				err = s.rights.may(ask.Principal, q.needs, "")
			}
			if err == nil {
				err = q.answer(s, ask, &ans)
			}
		} else {
			err = transfer.Errorf(transfer.KindVersion, "question of unknown kind %q", ask.Kind)
		}
	}

	ans.Error = transfer.AsError(err)
	if m.Reply != "" {
		s.answerWith(wire.LastToken(m.Subject), m.Reply, wire.Marshal(ans))
	}
}

// page returns the number of bytes that an answer may have: as many as the asker's link carries in about a second,
// where the question gives its rate.
func page(a *receivedQuestion) int {
	if a.Room <= 0 {
		return pageBytes
	}
	return min(a.Room, pageBytes)
}

func (s *Service) askKnown(a *receivedQuestion, ans *wire.Answer) error {
	k := s.picture.Known(a.Agent)
	ans.Known = &k
	return nil
}

// askQueued takes a submitter's report. A pipe submits nothing, and a user may have many pipes.
func (s *Service) askQueued(a *receivedQuestion, _ *wire.Answer) error {
	if transfer.AgentName(a.Principal).Stream() {
		return transfer.Errorf(transfer.KindDenied, "%s is a pipe, which submits nothing", a.Principal)
	}
	if a.Queued != nil {
		a.Queued.Principal = a.Principal
		s.picture.Queued(a.Queued)
	}
	return nil
}

func (s *Service) askAgents(a *receivedQuestion, ans *wire.Answer) error {
	size := 0
	for _, st := range s.picture.Agents() {
		if a.Agent != "" && st.Agent != a.Agent || a.Suffix != "" && string(st.Agent) <= a.Suffix {
			continue // Suffix: names after it, for the next page
		}
		if !s.rights.seesRoots(a.Principal, st.Agent) {
			st.Roots, st.Rates, st.Exits = nil, nil, nil
		}
		if size += len(wire.Marshal(st)); size > page(a) && len(ans.Agents) > 0 {
			ans.More = true
			break
		}
		ans.Agents = append(ans.Agents, st)
	}

	if a.Agent != "" && len(ans.Agents) == 0 {
		return transfer.Errorf(transfer.KindNotFound, "no agent %s was ever heard of", a.Agent).WithHint("`ferry agent ls` lists them")
	}
	return nil
}

// askRegister takes an agent's own heartbeat.
func (s *Service) askRegister(a *receivedQuestion, ans *wire.Answer) error {
	body, err := wire.ReadBody[wire.Register](a.Kind, a.Body)
	if err == nil && body.Beat.Agent.Token() != a.Principal {
		err = transfer.Errorf(transfer.KindUsage, "%s registers another agent, %s", a.Principal, body.Beat.Agent)
	}
	if err == nil && body.Beat.Agent.Stream() {
		err = transfer.Errorf(transfer.KindDenied, "%s is a pipe, and the registry has no pipes", a.Principal)
	}
	if err != nil {
		return err
	}
	n, err := audit.NewestOf(s.log, body.Beat.Agent, body.Beat.Incarnation)
	if err != nil {
		return err
	}
	ans.Body = wire.Marshal(wire.Registered{Last: n.N, Hash: n.Hash})
	return s.beat(body.Beat)
}

// clearWait is the time that the queue manager has to remove the data stored for an agent.
const clearWait = 10 * time.Second

// askRemove removes an agent that is away, with all messages stored of it and for it. A later message of the agent
// registers it again.
func (s *Service) askRemove(a *receivedQuestion, _ *wire.Answer) error {
	body, err := wire.ReadBody[wire.RemoveAgent](a.Kind, a.Body)
	if err == nil {
		err = s.picture.Away(body.Agent)
	}
	if err == nil {
		err = s.obeyed.once(a)
	}
	if err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), clearWait)
		defer cancel()
		err = qmgr.ClearStored(ctx, s.conn, body.Agent.Token())
	}
	if err == nil {
		err = s.remove(body.Agent, a.Principal, a.author)
	}
	return err
}

func (s *Service) askTransfers(a *receivedQuestion, ans *wire.Answer) error {
	limit := a.Limit
	if limit <= 0 || limit > 400 {
		limit = 400
	}

	whose, err := s.rights.whose(a.Principal)
	if err != nil {
		return err
	}
	query := status.Query{Before: a.ID, Limit: limit, Filter: a.Filter, Whose: whose}
	list, left := s.picture.Transfers(query)
	if a.ID.IsZero() {
		sums := s.picture.Sums(query)
		ans.Sums, ans.Complete = &sums, s.picture.CompleteSince()
	}
	size := 0
	for i := range list {
		if size += len(wire.Marshal(list[i])); size > page(a) && i > 0 {
			left += len(list) - i
			list = list[:i]
			break
		}
	}

	ans.Transfers, ans.Left, ans.More, ans.Own = list, left, left > 0, whose != ""
	return nil
}

func (s *Service) askTransfer(a *receivedQuestion, ans *wire.Answer) error {
	g, err := find(s, a.Principal, a.Suffix)
	if err == nil {
		ans.Transfers = []transfer.Progress{*g}
	}
	return err
}

// find finds a transfer that a principal may see, by the end of its ID. It reads the log where the picture does not
// have the transfer, or has only reports of submitters: these may be about the transfer of another one.
func find(s *Service, principal, suffix string) (*transfer.Progress, error) {
	whose, err := s.rights.whose(principal)
	if err != nil {
		return nil, err
	}
	g, err := s.picture.Transfer(suffix, whose)
	switch {
	case transfer.KindOf(err) == transfer.KindNotFound:
		return s.fromLog(suffix, whose, err)
	case err == nil && status.Unread(s.picture, g.ID):
		if _, err := readLog(s, g.ID.String(), whose, g.ID); err != nil {
			return nil, err
		}
		status.NoteRead(s.picture, g.ID)
		return s.picture.Transfer(suffix, whose)
	}
	return g, err
}

// askSeen acknowledges the failure of a transfer, for a principal that may end it: the submitter, or an operator. The
// submitter is that of the request that the source has taken, by its own account; without one, that of a refused or
// reported request.
func askSeen(s *Service, a *receivedQuestion, _ *wire.Answer) error {
	body, err := wire.ReadBody[wire.Seen](a.Kind, a.Body)
	if err != nil {
		return err
	}
	g, err := find(s, a.Principal, body.Transfer.String())
	if err != nil {
		return err
	}
	c, err := accountAt(s, g.Source, g.ID)
	if err != nil {
		return err
	}
	if c.submitter(g.Principal) != a.Principal {
		if err := s.rights.may(a.Principal, transfer.AuthOperate, g.Source); err != nil {
			return err
		}
	}
	r := audit.Record{Event: audit.Acked, Time: s.cfg.Clock.Now(), Transfer: g.ID, Source: g.Source, Destination: g.Destination, Job: g.Job,
		Principal: a.Principal, Reason: body.Reason, Vouched: audit.Vouched{Author: a.author}}
	return acknowledge(s, a, r, c.taken || c.refused[g.Principal])
}

// acknowledge puts an acknowledgement on record. Without a record of the source there is none of the failure either,
// which submitters can report without end: then the picture alone has the acknowledgement, until coordination starts
// again. Both count for the limit of the principal, and neither is obeyed twice.
func acknowledge(s *Service, a *receivedQuestion, r audit.Record, onRecord bool) error {
	s.acking.Lock()
	defer s.acking.Unlock()
	g, is := status.At(s.picture, r.Source, r.Transfer)
	if !is {
		return transfer.Errorf(transfer.KindBusy, "coordination has too many transfers to keep transfer %s in its picture", r.Transfer).WithHint("try again")
	}
	err := acknowledgeable(&g)
	if err == nil {
		err = s.seen.once(a)
	}
	if err == nil && onRecord {
		err = s.log.AppendOwn(r)
	}
	if err != nil {
		return err
	}
	r.Agent = audit.Coordination
	s.picture.Record(&r)
	s.cfg.Log.Debug("failure of a transfer acknowledged", "transfer", r.Transfer, "principal", a.Principal)
	return nil
}

// acknowledgeable returns nil for a transfer with a failure that is over and that was not acknowledged.
func acknowledgeable(g *transfer.Progress) error {
	switch by := g.Acknowledged; {
	case !g.State.Final():
		return transfer.Errorf(transfer.KindUsage, "transfer %s is %s; a failure is acknowledged once the transfer is over", g.ID, g.State).
			WithHint("`ferry transfer watch` follows it, `ferry transfer cancel` ends it")
	case g.State != transfer.Failed && g.FilesFailed == 0:
		return transfer.Errorf(transfer.KindUsage, "transfer %s is %s, and nothing of it has failed", g.ID, g.State)
	case by != nil:
		return transfer.Errorf(transfer.KindConflict, "transfer %s was acknowledged by %s already, at %s", g.ID, by.By, by.Time.UTC().Format(time.RFC3339)).
			WithHint("`ferry transfer show` has the reason")
	}
	return nil
}

// fromLog puts a transfer together that the picture has forgotten.
func (s *Service) fromLog(suffix, whose string, notFound error) (*transfer.Progress, error) {
	found, err := readLog(s, suffix, whose, transfer.ID{})
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, notFound
	}
	return s.picture.Transfer(suffix, whose)
}

// readLog takes the records of sources about transfers into the picture: those of a principal's transfers and of the
// one with an ID, or without a principal all. found is false if there are none.
func readLog(s *Service, suffix, whose string, id transfer.ID) (found bool, err error) {
	var recs []audit.Record
	own := 0 // records of coordination
	if err := s.log.Find(audit.Filter{IDSuffix: suffix, Limit: 10_000}, func(_ int64, _ []byte, r *audit.Record) error {
		if r.Agent == audit.Coordination && r.Event == audit.Acked {
			recs, own = append(recs, *r), own+1
			return nil
		}
		if whose != "" && r.Transfer != id && r.Principal != whose && r.Agent.Token() != whose && r.Destination.Token() != whose {
			return nil
		}
		if r.Role == audit.RoleSource && (r.Source == "" || r.Source == r.Agent) {
			recs = append(recs, *r)
		}
		return nil
	}); err != nil {
		return false, err
	}

	for i := len(recs) - 1; i >= 0; i-- {
		s.picture.Record(&recs[i])
	}
	return len(recs) > own, nil
}

var errPage = errors.New("the page is full")

// RecordFilter returns the filter of the audit log that a question asks for.
func RecordFilter(a *wire.Ask) audit.Filter {
	f := audit.Filter{IDSuffix: a.Suffix, Agent: a.Agent, Event: audit.Event(a.Event), Before: a.Index}
	if w := a.Filter; w != nil {
		f.Agent, f.Job, f.Since, f.Until, f.Name, f.Failed = cmp.Or(w.Agent, f.Agent), w.Job, w.Since, w.Until, string(w.Name), w.Failed
		f.Role, f.States, f.Meta = w.Role, w.States, w.Meta
		f.From, f.To, f.User = w.From, w.To, w.User
	}
	if f.Name != "" {
		f.Role = cmp.Or(f.Role, audit.RoleDestination) // the source's records say the same again
	}
	return f
}

// askAudit gives records newest first, below Index where that is given.
func (s *Service) askAudit(a *receivedQuestion, ans *wire.Answer) error {
	limit := a.Limit
	if limit <= 0 {
		limit = 1000
	}

	whose, err := s.rights.whose(a.Principal)
	if err != nil {
		return err
	}
	size := 0
	ans.Own = whose != ""
	err = s.log.Find(RecordFilter(a.Ask),
		func(i int64, raw []byte, r *audit.Record) error {
			if whose != "" && r.Principal != whose {
				return nil
			}
			if len(ans.Records) == limit || size+len(raw) > page(a) && size > 0 {
				ans.More = true
				return errPage
			}
			size += len(raw)
			ans.Records = append(ans.Records, append(json.RawMessage(nil), raw...))
			ans.Next = i
			return nil
		})
	if errors.Is(err, errPage) {
		return nil
	}
	return err
}

// askVerify reads the whole log again. Verified is the audit.Report. The question carries the checkpoints that others
// have kept of the log.
func (s *Service) askVerify(a *receivedQuestion, ans *wire.Answer) error {
	kept, err := checkpointsOf(a)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	var report audit.Report
	if s.notary != nil {
		report, err = s.log.VerifySigned(ctx, s.notary.self.Roots(), kept...)
	} else {
		report, err = s.log.Verify(ctx, nil, kept...)
	}
	if err != nil {
		return err
	}
	ans.Verified = wire.Marshal(report)
	return nil
}
