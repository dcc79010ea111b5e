package place

import (
	"slices"
	"testing"

	"ferry/internal/transfer"
)

// A limited place lacks a promise.
type limited struct{ noting }

func (l limited) Limits() []string { return []string{l.name + " lacks a promise"} }

// An appending place can append.
type appending struct{ noting }

func (appending) Appends() {}

// limitedRouter returns a Router over files that can append, and a queue that lacks a promise as a target.
func limitedRouter() *Router {
	queue := noting{name: "queue", log: &[]string{}}
	return NewRouter(appending{noting{name: "files"}}, Route{Of: "queue", Source: queue, Target: limited{queue}, Holds: func(transfer.Path) bool { return false }})
}

// The limits of a Router are those of the place that a source or a DEST names.
func TestLimitsOfEachPlace(t *testing.T) {
	r := limitedRouter()
	for _, c := range []struct {
		got, want []string
	}{
		{TargetLimits(r, "queue"), []string{"queue lacks a promise"}},
		{TargetLimits(r, transfer.Files), nil},
		{SourceLimits(r, "queue"), nil},
		{SourceLimits(r, transfer.Files), nil},
		{TargetLimits(limited{noting{name: "pipe"}}, transfer.Streams), []string{"pipe lacks a promise"}},
		{TargetLimits(nil, transfer.Files), nil},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("the limits are %q, want %q", c.got, c.want)
		}
	}
}

// A Router appends to files of its host, and not to a DEST at a Route without an Appender.
func TestRouteThatCannotAppend(t *testing.T) {
	r := limitedRouter()
	if !Appends(r, transfer.Files) || !Appends(r, transfer.Datasets) {
		t.Error("the files of the host cannot be appended to")
	}
	if Appends(r, "queue") {
		t.Error("a queue can be appended to")
	}
}
