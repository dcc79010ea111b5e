package writing

import (
	"context"
	"sync"
	"time"

	"ferry/internal/content/compress"
	"ferry/internal/content/conversion"
	"ferry/internal/flow"
	"ferry/internal/place"
	"ferry/internal/receiver/entry"
	"ferry/internal/transfer"
)

// An Agent is the parts of an agent that all its Writers share.
type Agent struct {
	Ctx          context.Context // the run of the agent
	Entries      *entry.Entries
	Place        place.Target
	Content      conversion.Defaults                   // of text files here
	ItemSlots    *ItemSlots                            // for items that are begun and undecided
	Slots        int                                   // transfers that may have an open epoch
	May          func(principal string) place.Permit   // the rights of a principal on files here
	Wake         func(transfer.ID, transfer.AgentName) // makes a transfer ask for item slots again
	ClearSuspect func(transfer.ID)                     // clears a transfer that has made progress without a crash
	Unswept      func()                                // temporaries could not be removed, and are to be removed later

	decoder compress.Decoder
	chunks  sync.Pool // *[]byte: memory of restored chunks
}

func (a *Agent) now() time.Time { return a.Entries.Clock.Now() }

func (a *Agent) wake(w *waiter) {
	if w != nil {
		a.Wake(w.id, w.from)
	}
}

// groupItems returns the number of items that closes a group: with few item slots, no transfer may hold most of them.
func (a *Agent) groupItems() int { return min(flow.GroupItems, max(1, a.ItemSlots.most/4)) }

// MostUnsummed returns how many ended files of a transfer may lack the source's digest when another item begins. With
// those of all other transfers they leave one item slot free. Otherwise each transfer could wait for an item slot of another
// one's files, while the digests that would release them are behind the waiting messages.
func (a *Agent) MostUnsummed() int { return max(0, a.ItemSlots.most/(2*max(1, a.Slots))-1) }

// An Epoch is the state of an epoch that the conversation and its Writer share. The zero value is no open epoch.
type Epoch struct {
	Live   bool
	Stored bool  // its messages come from the store
	Taken  int64 // data bytes so far

	// Reasons to end the epoch, for the conversation to act on between messages.
	Again string          // why another epoch must begin; messages that come meanwhile are discarded
	Stop  *transfer.Error // why the transfer must wait
}

// Ending reports whether the epoch is over, or about to be: background work may have ended while a frame was taken.
func (e *Epoch) Ending() bool { return !e.Live || e.Again != "" || e.Stop != nil }

// Events take the results of a Writer, in the goroutine of the Writer.
type Events interface {
	// Decided reports outcomes that are on record now.
	Decided([]transfer.Outcome)
	// ReportDue reports that the source has yet to hear of a safe point, or of items that begin again.
	ReportDue()
	// ReportNow reports that the Writer waits: pending news must not wait for it.
	ReportNow()
}
