package wire_test

import (
	"testing"

	"ferry/internal/transfer"
	"ferry/internal/wire"
)

func TestClassOf(t *testing.T) {
	id := transfer.ID{1, 6: 0x70, 8: 0x80}
	for subject, want := range map[string]wire.Class{
		wire.CommandSubject("ALPHA", "alice"):                        wire.ClassCommand,
		wire.ControlSubject("ALPHA", "alice"):                        wire.ClassControl,
		wire.EventSubject("ALPHA"):                                   wire.ClassEvent,
		wire.StoreSubject("ALPHA", "BETA", id, 1):                    wire.ClassStore,
		wire.AskAgent("ALPHA", "alice"):                              wire.ClassAsk,
		wire.InboxSubject("ALPHA", "BETA", "x", 1):                   wire.ClassWord,
		wire.ReplySubject("ALPHA", "BETA"):                           wire.ClassReply,
		wire.BeatSubject("ALPHA"):                                    wire.ClassWord,
		wire.ProgressSubject("ALPHA", "alice"):                       wire.ClassWord,
		wire.DataSubject("ALPHA", "BETA", id):                        wire.ClassData,
		"$JS.ACK.FERRY_COMMAND.command-ALPHA.1.2.3.4.5":              wire.ClassData,
		"$JS.API.CONSUMER.MSG.NEXT.FERRY_COMMAND.command-ALPHA.more": wire.ClassData,
		"ferry.command":                                              wire.ClassCommand,
		"ferry":                                                      wire.ClassData,
	} {
		class, to := wire.ClassOf(subject)
		if class != want || class != wire.ClassData && to != "ALPHA" && subject != "ferry.command" {
			t.Errorf("%s is of class %d, for %s", subject, class, to)
		}
	}
	if wire.ClassAsk.Stored() || !wire.ClassStore.Stored() || !wire.ClassCommand.Stored() {
		t.Error("a class is stored that is not, or the reverse")
	}
}
