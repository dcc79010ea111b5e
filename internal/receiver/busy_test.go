package receiver

import (
	"testing"

	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A BUSY that answers an OPEN has the OPEN's nonce: if the destination refuses the transfer for now, if the epoch that
// the OPEN was to restart ends instead, and while a program runs.
func TestBusyHasTheNonceOfItsQuestion(t *testing.T) {
	reason := transfer.Errorf(transfer.KindNoSpace, "no space")
	for name, answer := range map[string]func(r *Receiver, i *incoming){
		"turned away": func(r *Receiver, i *incoming) {
			r.answerBusy(&wire.Message{Kind: wire.KindOpen, From: "ALPHA", Transfer: i.id, Open: &wire.Open{Nonce: 9}}, reason)
		},
		"an epoch ends": func(_ *Receiver, i *incoming) {
			i.opening = 9
			i.endEpoch(reason)
		},
		"a program runs": func(_ *Receiver, i *incoming) { i.post.running(&wire.Open{Nonce: 9}, transfer.PreDest) },
	} {
		r, id, said := resting(t)
		answer(r, live(t, r, id))
		if len(said.all) != 1 || said.all[0].Kind != wire.KindBusy || said.all[0].Busy.Nonce != 9 || said.all[0].Busy.Place == 0 {
			t.Errorf("%s: the source was told %+v", name, said.all)
		}
	}
}
