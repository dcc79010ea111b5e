package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"ferry/internal/audit"
	"ferry/internal/flow"
	"ferry/internal/ledger"
	"ferry/internal/place"
	"ferry/internal/place/local"
	"ferry/internal/qmgr"
	"ferry/internal/security/access"
	"ferry/internal/security/identity"
	"ferry/internal/security/word"
	"ferry/internal/sender"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// The answers of an agent to questions.
type answers struct {
	*transferEnds
	duties   *duties
	previews previewing
}

func newAnswers(w *transferEnds) *answers {
	return &answers{transferEnds: w, previews: previewing{of: map[string]int{}}}
}

// asked answers a question on the agent's ask subject.
func (a *answers) asked(m qmgr.Message) {
	if !wire.Wants(m.Subject, m.Reply) {
		a.quiet.Warn("request dropped: its reply subject is not an inbox of the asker's", "subject", m.Subject, "reply", m.Reply)
		return
	}

	if !a.own.wait(stageReports) {
		return
	}

	signed, body, err := word.Open(m.Data)
	ask := &asking{}
	if err == nil {
		ask.Ask, err = wire.DecodeAsk(body)
	}
	ans := wire.Answer{V: wire.Version}
	who := wire.LastToken(m.Subject)
	if err == nil {
		ask.Principal, ans.ID = who, ask.ID
		q, known := questions[ask.Kind]
		_, ofDuty := a.duties.questions[ask.Kind]
		// An agent that asks ends none of the transfers that are not known here; coordination does.
		if q.signed || ofDuty || signed != nil || ask.Kind == wire.AskBegun && who == wire.Coordination {
			err = a.proved(ask, signed, body)
		}
		if err == nil && known {
			err = a.gate.answers(ask.Principal, q.needs)
		}
		if err == nil && q.once {
			err = a.recordOnce(ask)
		}
		switch {
		case err != nil:
		case ofDuty:
			err = a.duties.ask(a, ask.Ask, &ans)
		case !known:
			err = transfer.Errorf(transfer.KindVersion, "question of unknown kind %q", ask.Kind)
		case q.files:
			a.previewed(who, m.Reply, ask.Ask)
			return
		default:
			err = q.answer(a, ask, &ans)
		}
	}

	ans.Error = transfer.AsError(err)
	a.answer(who, m.Reply, ans)
}

// An asking is a question that was read. A nil author has not signed it, and need not.
type asking struct {
	*wire.Ask
	author   *word.Author
	evidence *word.Evidence // of the author
}

// proved checks the signature of a question. A delegate asks no question that takes the authority admin.
func (a *answers) proved(ask *asking, signed *word.Word, body []byte) (err error) {
	var id transfer.ID
	if signed != nil {
		id = signed.ID // a question has no ID of its own
	}
	if ask.author, err = a.gate.author(signed, body, word.Ask, id, ask.Principal); ask.author != nil {
		ask.evidence = word.EvidenceOf(signed, body, a.conn.Identity().Roots().Of(identity.UnitOthers))
	}
	if err == nil && ask.author != nil && ask.author.Delegated() {
		if ask.Principal = ask.author.Principal(); questions[ask.Kind].needs == transfer.AuthAdmin {
			err = transfer.Errorf(transfer.KindDenied, "%s speaks for %s, and the authority %s is not delegated", ask.author.By, ask.author.For, transfer.AuthAdmin)
		}
	}
	return err
}

// recordOnce writes an audit record of a signed question before the question changes anything. The error is of
// KindConflict for a question with a record already.
func (a *answers) recordOnce(ask *asking) error {
	if ask.author == nil {
		return nil
	}
	id, who := ask.author.ID, ask.Principal
	return a.ledger.Update(func(t *ledger.Tx) error {
		if seen, _, err := t.Command(who, id); err != nil {
			return err
		} else if floor := t.CommandFloor(who); seen != "" || string(id[:]) <= string(floor[:]) {
			return transfer.Errorf(transfer.KindConflict, "the question %s was asked before, and is not obeyed twice", id)
		}
		return t.PutCommand(who, id, ask.author.Sum, nil)
	})
}

// A question is a kind of question to an agent: its requirements, and the function that answers it.
type question struct {
	needs  transfer.Authority
	files  bool // by previewed, because directories are read for it
	signed bool // by its author
	once   bool // it changes something
	answer func(*answers, *asking, *wire.Answer) error
}

// questions are the kinds of questions that an agent answers.
var questions = map[wire.Kind]question{
	wire.AskPing: {answer: func(a *answers, ask *asking, ans *wire.Answer) error {
		ans.Beat = a.gate.visible(ask.Principal, a.beat())
		return nil
	}},
	wire.AskStatus: {answer: func(a *answers, ask *asking, ans *wire.Answer) (err error) {
		p, err := a.status(ask.ID)
		if err == nil {
			err = a.gate.sees(ask.Principal, p)
		}
		if err == nil {
			ans.Progress = p
		}
		return err
	}},
	wire.AskBegun: {answer: (*answers).askBegun},
	wire.AskWitness: {answer: func(a *answers, _ *asking, ans *wire.Answer) (err error) {
		ans.Witness, err = a.witness.State()
		return err
	}},
	wire.AskAccept: {needs: transfer.AuthAdmin, signed: true, once: true, answer: func(a *answers, ask *asking, _ *wire.Answer) error {
		body, err := wire.ReadBody[wire.AcceptLog](ask.Kind, ask.Body)
		if err != nil {
			return err
		}
		return a.witness.Accept(body, ask.Principal, audit.Vouched{Author: ask.author, Evidence: ask.evidence})
	}},
	wire.AskSet:     {needs: transfer.AuthAdmin, signed: true, once: true, answer: (*answers).askSet},
	wire.AskPreview: {needs: transfer.AuthSource, files: true, signed: true},
	wire.AskList:    {needs: transfer.AuthSource, files: true, signed: true},
	wire.AskDir:     {files: true, signed: true},               // the rules of each path decide
	wire.AskMay:     {signed: true, answer: (*answers).askMay}, // about another principal to those with audit or admin
	wire.AskLook:    {needs: transfer.AuthDest, files: true, signed: true},
}

// askMay decides about a principal by the network's rules and by this agent's sandbox.
func (a *answers) askMay(ask *asking, ans *wire.Answer) error {
	body, err := wire.ReadBody[wire.MayAsked](ask.Kind, ask.Body)
	if err == nil && body.Principal != ask.Principal && body.Right != transfer.AuthPeer { // each sender asks about its agent
		may := access.Question{Principal: ask.Principal, Right: transfer.AuthAudit, Agent: a.cfg.Name}
		if err = a.gate.Judge().AskRules(may); transfer.KindOf(err) == transfer.KindDenied {
			may.Right = transfer.AuthAdmin
			err = a.gate.Judge().AskRules(may)
		}
	}
	if err != nil {
		return err
	}
	rule, err := a.gate.Judge().Ask(access.Question{Principal: body.Principal, Right: body.Right, Agent: a.cfg.Name, Path: string(body.Path)})
	if err != nil && transfer.KindOf(err) != transfer.KindDenied {
		return err
	}
	ans.Body = wire.Marshal(wire.May{Rule: rule, Error: transfer.AsError(err), Roots: a.gate.visible(ask.Principal, a.beat()).Roots})
	return nil
}

// askSet changes how fast this agent sends, until it is started again.
func (a *answers) askSet(ask *asking, ans *wire.Answer) error {
	body, err := wire.ReadBody[wire.SetRates](ask.Kind, ask.Body)
	if err != nil {
		return err
	}

	tables := map[transfer.AgentName]flow.Timetable{}
	for to, text := range body.Rates {
		table, err := flow.ParseTimetable(text)
		if err != nil {
			return err
		}
		tables[to] = table
	}

	var set []any
	text := "sends at most"
	for _, to := range slices.Sorted(maps.Keys(tables)) {
		whom, rate := cmp.Or(string(to), "all"), tables[to].String()
		set = append(set, slog.String(whom, rate))
		text += " " + whom + " " + rate
	}
	if err := a.ledger.Update(func(t *ledger.Tx) error {
		return a.note(t, audit.Record{Event: audit.Changed, Source: a.cfg.Name, Principal: ask.Principal, Text: text[:min(len(text), maxChange)],
			Vouched: audit.Vouched{Author: ask.author}})
	}); err != nil {
		return err
	}
	if err := a.throttle.Set(tables); err != nil {
		return err
	}

	a.quiet.Log(slog.LevelInfo, "sending limits changed", slog.Group("limits", set...), "principal", ask.Principal)
	ans.Beat = a.beat()
	return nil
}

// maxChange bounds the description of a change in the audit log, in bytes.
const maxChange = 4 << 10

// Bounds of a preview, and of previews at once.
const (
	previewItems = 1000
	previewTime  = 5 * time.Second
	previews     = 4
	listed       = 200 // names in an answer to AskList
)

// previewed takes a question of a speaker about files, a few at once.
func (a *answers) previewed(to, reply string, ask *wire.Ask) {
	ans := wire.Answer{V: wire.Version, ID: ask.ID}
	if all, own, ok := a.previews.enter(to); !ok {
		ans.Error = transfer.Errorf(transfer.KindBusy, "%s already shows %d previews, %d of them to %s; the limits are %d, and %d to one member",
			a.cfg.Name, all, own, to, previews, previews-1).WithHint("try again in a few seconds")
		a.answer(to, reply, ans)
		return
	}
	a.wg.Go(func() {
		defer a.previews.leave(to)
		var err error
		if ask.Kind == wire.AskDir {
			ans.Body, err = a.directory(ask)
		} else {
			ans.Preview, err = a.aboutFiles(ask)
		}
		ans.Error = transfer.AsError(err)
		a.answer(to, reply, ans)
	})
}

// previewing counts the previews that walk, by speaker. One slot stays free for other speakers.
type previewing struct {
	mu  sync.Mutex
	of  map[string]int
	all int
}

// enter reports whether one more preview of a speaker may walk, with the numbers that do.
func (p *previewing) enter(speaker string) (all, own int, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if all, own = p.all, p.of[speaker]; all >= previews || own >= previews-1 {
		return all, own, false
	}
	p.all++
	p.of[speaker]++
	return all, own, true
}

func (p *previewing) leave(speaker string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all--
	if p.of[speaker]--; p.of[speaker] == 0 {
		delete(p.of, speaker)
	}
}

// aboutFiles answers a question about files. Of requests it takes those that it would accept.
func (a *answers) aboutFiles(ask *wire.Ask) (*wire.Preview, error) {
	q := ask.Request
	switch {
	case ask.Kind == wire.AskList:
		return a.list(ask.Principal, string(ask.Path))
	case q == nil || ask.Kind == wire.AskLook && (ask.Preview == nil || len(ask.Preview.List) > previewItems):
		return nil, transfer.Errorf(transfer.KindVersion, "the question about a dry run has no request, or more than %d items", previewItems)
	case ask.Kind == wire.AskLook:
		if err := q.Check(); err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(a.ctx, previewTime)
		defer cancel()
		list, err := a.recv.Preview(ctx, ask.Principal, q, ask.Preview)
		return &wire.Preview{List: list, Exits: a.startExits(transfer.DestStartExit)}, err
	}

	if q.Rest != nil {
		return nil, transfer.Errorf(transfer.KindVersion, "the question about a dry run does not have all items of its request")
	}
	if err := a.cfg.acceptable(q, nil); err != nil {
		return nil, err
	}
	if err := a.sendAs(ask.Principal, q.From()).CheckItself(q, q.Items); err != nil {
		return nil, err
	}
	return a.preview(ask.Principal, q)
}

// preview walks the files that a request would send, up to a limit, and sends nothing.
func (a *answers) preview(principal string, q *transfer.Request) (*wire.Preview, error) {
	s, err := a.sendCfg.Survey(q)
	if err != nil {
		return nil, err
	}

	p := &s.Preview
	ctx, cancel := context.WithTimeout(a.ctx, previewTime)
	defer cancel()
	size := 0
	_, err = place.WithLinks(place.As(a.sendCfg.Place, principal).For(q.From(), a.gate.permit(principal)), q.Links).Walk(ctx, s.Walk, func(it transfer.Item) error {
		if !q.Takes(&it) {
			if it.Type != transfer.ItemDir {
				p.LeftOut++
			}
			return nil
		}
		p.Items++
		if it.Type == transfer.ItemFile {
			p.Files++
			p.Bytes += it.Size
		}
		if err := sender.TooMuch(q, p.Items, p.Files, p.Bytes); err != nil {
			return err
		}
		if size += 200 + 3*(len(it.Source)+len(it.Name)); len(p.List) < previewItems && size < 512<<10 {
			line := wire.PreviewItem{Source: it.Source, Name: it.Name, Type: it.Type, Size: it.Size, Mtime: a.mtime(q, &it), Error: it.Err}
			if it.Arg < len(q.Items) && q.Items[it.Arg].Own() {
				line.To = uint64(it.Arg) + 1
			}
			p.List = append(p.List, line)
		}
		return nil
	})
	if p.More = ctx.Err() != nil; p.More {
		err = nil
	}
	p.Exits = a.startExits(transfer.SourceStartExit)
	return p, err
}

// startExits returns the call point, if the agent has an exit there.
func (a *answers) startExits(at transfer.CallPoint) []transfer.CallPoint {
	if a.cfg.Programs.Exits.Programs[at] == "" {
		return nil
	}
	return []transfer.CallPoint{at}
}

// mtime is the modification time of a source, where the request compares it (IfExistsUpdate); 0 in other requests, or
// where it is not known.
func (a *answers) mtime(q *transfer.Request, it *transfer.Item) int64 {
	if a.fs == nil || it.Type != transfer.ItemFile || it.Arg >= len(q.Items) {
		return 0
	}
	if o := q.Of(&q.Items[it.Arg]); o.IfExists != transfer.IfExistsUpdate {
		return 0
	}
	s, err := a.fs.OpenSource(it.Source)
	if err != nil {
		return 0
	}
	defer s.Close()
	return s.Mtime()
}

// list returns the names that complete the path prefix.
func (a *answers) list(principal, prefix string) (*wire.Preview, error) {
	if a.fs == nil {
		return &wire.Preview{}, nil
	}
	names, err := a.files(principal).Names(prefix, listed)
	return &wire.Preview{List: names}, err
}

// files are the files of this host with the rights of a principal.
func (a *answers) files(principal string) local.Local {
	return a.fs.Place().For(transfer.Files, a.gate.permit(principal)).(local.Local)
}

// directory returns a wire.Listing.
func (a *answers) directory(ask *wire.Ask) (json.RawMessage, error) {
	b, err := wire.ReadBody[wire.ListDir](ask.Kind, ask.Body)
	if err != nil || a.fs == nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(a.ctx, previewTime)
	defer cancel()
	l, err := a.files(ask.Principal).Directory(ctx, b.Path, b.After, wire.MaxListing, ask.Room)
	return wire.Marshal(l), err
}
