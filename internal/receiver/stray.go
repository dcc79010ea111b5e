package receiver

import (
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// strayChunk is a message from the Receiver to one of its actors: a chunk message came while no epoch is open. It is no
// message of the wire.
const strayChunk wire.Kind = "stray-chunk"

// stray returns the strayChunk for a message with that header.
func stray(h wire.Header) *wire.Message {
	return &wire.Message{Kind: strayChunk, Transfer: h.Transfer, Busy: &wire.Busy{Epoch: h.Epoch}}
}

// lives records that the source sends in an epoch, though a message of the epoch may take long to come.
func lives(i *incoming, epoch uint32) {
	if !i.ep.Live {
		i.strayed(epoch)
		return
	}
	if epoch == i.entry.In.Epoch {
		i.ep.silentAt = i.r.cfg.Clock.Now().Add(sourceSilent)
	}
}

// strayed answers a source that still sends in an epoch that is not open here: this process may have started after it.
// Without the answer, the source would notice only by the silence, which is long on a slow link.
func (i *incoming) strayed(epoch uint32) {
	now := i.r.cfg.Clock.Now()
	if i.entry.In == nil || i.ep.Live || i.withdrawn || i.entry.In.State != transfer.Receiving || now.Sub(i.answered) < resyncRepeat {
		return
	}
	i.answered = now
	i.r.send(i.from, &wire.Message{Kind: wire.KindBusy, Transfer: i.id, Busy: &wire.Busy{Epoch: epoch,
		Reason: transfer.Errorf(transfer.KindBusy, "%s has no epoch open; the transfer must be opened again", i.r.cfg.Agent)}})
}
