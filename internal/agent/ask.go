package agent

import (
	"context"
	"time"

	"ferry/internal/ledger"
	"ferry/internal/localfs"
	"ferry/internal/qmgr"
	"ferry/internal/record"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// asked answers a question on the agent's ask subject.
func (a *Agent) asked(m qmgr.Message) {
	if !qmgr.IsInbox(m.Reply) {
		a.quiet.Warn("a question is dropped that wants its answer elsewhere than on an inbox", "reply", m.Reply)
		return
	}
	if !a.own.wait(hearing) {
		return
	}
	ask, err := wire.DecodeAsk(m.Data)
	if err == nil && ask.Kind == wire.AskPreview {
		a.previewed(m.Reply, ask.Request)
		return
	}
	ans := wire.Answer{V: wire.Version}
	if err == nil {
		ans.ID = ask.ID
	}
	switch {
	case err != nil:
	case ask.Kind == wire.AskPing:
		ans.Beat = a.beat()
	case ask.Kind == wire.AskStatus:
		ans.Progress, err = a.status(ask.ID)
	default:
		err = transfer.Errorf(transfer.KindVersion, "question of unknown kind %q", ask.Kind)
	}
	ans.Error = transfer.AsError(err)
	a.answer(m.Reply, ans)
}

// status is the present picture of a transfer, or its last one.
func (a *Agent) status(id transfer.ID) (*transfer.Progress, error) {
	if o := a.sched.find(id); o != nil {
		return o.Status(), nil
	}
	var rec *ledger.Source
	var as transfer.State
	err := a.ledger.View(func(t *ledger.Tx) (err error) {
		if rec, err = t.Source(id); err == nil && rec == nil {
			as, err = t.Entombed(id)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if as != "" { // its request has not come
		return &transfer.Progress{ID: id, State: as, Source: a.cfg.Name, Code: as.Code()}, nil
	}
	if rec == nil {
		return nil, transfer.Errorf(transfer.KindNotFound, "%s has no transfer %s", a.cfg.Name, id)
	}
	return &rec.Progress, nil
}

// overAt asks a source whether a transfer has come to its end there.
func (a *Agent) overAt(ctx context.Context, source transfer.AgentName, id transfer.ID) bool {
	ask := wire.Marshal(wire.Ask{V: wire.Version, Kind: wire.AskStatus, ID: id})
	data, err := a.conn.Request(ctx, wire.AskSubject(source), ask, 5*time.Second)
	if err != nil {
		return false
	}
	ans, err := wire.DecodeAnswer(data)
	if err != nil || ans.Progress == nil {
		return false
	}
	p := ans.Progress
	return p.ID == id && p.Source == source && p.State.Final()
}

// Bounds of a preview, and of previews at once.
const (
	previewItems = 1000
	previewTime  = 5 * time.Second
	previews     = 4
)

// previewed takes a question for a preview: of a request that this agent would
// accept, and of a few at once.
func (a *Agent) previewed(reply string, q *transfer.Request) {
	refuse := func(err error) {
		a.answer(reply, wire.Answer{V: wire.Version, Error: transfer.AsError(err)})
	}
	if q == nil {
		refuse(transfer.Errorf(transfer.KindVersion, "a preview has no request"))
		return
	}
	if err := a.acceptable(q); err != nil {
		refuse(err)
		return
	}
	select {
	case a.previews <- struct{}{}:
		a.wg.Go(func() {
			defer func() { <-a.previews }()
			if err := a.sendCfg.CheckItself(q); err != nil {
				refuse(err)
				return
			}
			a.preview(reply, q)
		})
	default:
		refuse(transfer.Errorf(transfer.KindBusy, "%s already shows %d previews, its limit", a.cfg.Name, previews).WithHint("try again in a few seconds"))
	}
}

// preview walks what a request would send, up to a limit, and sends nothing.
func (a *Agent) preview(reply string, q *transfer.Request) {
	ans := wire.Answer{V: wire.Version, ID: q.ID, Preview: &wire.Preview{}}
	p := ans.Preview
	ctx, cancel := context.WithTimeout(a.ctx, previewTime)
	defer cancel()
	size := 0
	_, err := a.fs.Walk(ctx, localfs.WalkRequest{Sources: record.HostPaths(a.cfg.RecordRoot, q.Sources), Recursive: q.Recursive}, func(_ int, it transfer.Item) error {
		p.Items++
		if it.Type == transfer.ItemFile {
			p.Files++
			p.Bytes += it.Size
		}
		if size += 200 + 3*(len(it.Source)+len(it.Name)); len(p.List) < previewItems && size < 512<<10 {
			p.List = append(p.List, wire.PreviewItem{Source: it.Source, Name: it.Name, Type: it.Type, Size: it.Size, Error: it.Err})
		}
		return nil
	})
	if err != nil && ctx.Err() == nil {
		ans.Error = transfer.AsError(err)
	}
	p.More = ctx.Err() != nil
	a.answer(reply, ans)
}
