package receiver

import (
	"context"

	"ferry/internal/wire"
)

// A StoredInput hands stored messages over to a Receiver.
type StoredInput struct{ Receiver *Receiver }

// Take takes a stored message, and returns when it is handled or ctx ends.
func (d StoredInput) Take(ctx context.Context, m StoredMessage) Taking {
	p := &storedParcel{StoredMessage: m, said: make(chan Taking, 1)}
	var why string
	if len(m.Data) > 0 && m.Data[0] == '{' {
		open, err := wire.Decode(m.Data)
		switch {
		case err != nil:
			why = err.Error()
		case open.Kind != wire.KindOpen || open.From != m.From || open.Transfer != m.ID || open.Open.Stored == nil || open.Open.Stored.Epoch != m.Epoch:
			why = "the OPEN in the store is of something else"
		default:
			p.open = open.Open
		}
	} else if h, err := wire.PeekHeader(m.Data); err != nil {
		why = err.Error()
	} else if p.head = h; h.Transfer != m.ID || h.Epoch != m.Epoch {
		why = "a message in the store is of something else"
	}
	if why != "" {
		d.Receiver.cfg.Quiet.Dropped(string(m.From), "the stored data cannot be read", "transfer", m.ID, "error", why)
		return Taking{Verdict: Spent}
	}
	return d.hand(ctx, p)
}

// Absent reports that nothing of the epoch of an OPEN is stored.
func (d StoredInput) Absent(ctx context.Context, at wire.StoredEpoch, open *wire.Message) {
	d.hand(ctx, &storedParcel{StoredMessage: StoredMessage{StoredEpoch: at}, open: open.Open, absent: true, said: make(chan Taking, 1)})
}

// Comes reports the epochs that are being read, or wait for the reader: on a slow link a message takes long. Their
// transfers are not silent.
func (d StoredInput) Comes(epochs []wire.StoredEpoch) {
	d.Receiver.reading.read(epochs, d.Receiver.cfg.Clock.Now())
}

// hand hands a message to its actor and waits for the verdict.
func (d StoredInput) hand(ctx context.Context, p *storedParcel) Taking {
	r := d.Receiver
	r.mu.Lock()
	a := r.actors[p.ID]
	s, asleep := r.sources.sleeping[p.ID]
	switch {
	case r.ctx.Err() != nil:
		r.mu.Unlock()
		return Taking{Verdict: Later}
	case a != nil && a.from != p.From, asleep && s.from != p.From:
		r.mu.Unlock()
		r.cfg.Quiet.Dropped(string(p.From), errTaken.Text, "transfer", p.ID)
		return Taking{Verdict: Spent}
	case a == nil && (r.full(p.From) || r.sources.leaving[p.ID]):
		r.mu.Unlock()
		return Taking{Later, errCrowded}
	case a == nil:
		delete(r.sources.sleeping, p.ID)
		a = r.newActor(p.ID, p.From)
		a.box.putStored(p)
		r.start(a)
	case !a.box.putStored(p):
		r.mu.Unlock()
		return Taking{Verdict: Later}
	}
	r.mu.Unlock()
	select {
	case t := <-p.said:
		return t
	case <-ctx.Done():
	case <-r.ctx.Done():
	}
	return Taking{Verdict: Later}
}
