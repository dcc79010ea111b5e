package place

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"ferry/internal/transfer"
)

// A noting place appends its calls to a log.
type noting struct {
	Host
	name string
	log  *[]string
	fail error
}

func (n noting) note(format string, args ...any) {
	*n.log = append(*n.log, n.name+" "+fmt.Sprintf(format, args...))
}

func (n noting) As(principal string) Source {
	n.name += " as " + principal
	return n
}

func (n noting) For(transfer.Place, Permit) Source {
	n.note("for")
	return n
}

func (n noting) Resolve(dest transfer.Location, _ bool, _ Permit) (transfer.Resolution, error) {
	n.note("resolve %s", dest.Path)
	return transfer.Resolution{Place: dest.Place, Base: dest.Path}, nil
}

func (n noting) Resolved(res transfer.Resolution, _ Permit) (transfer.Resolution, error) {
	n.note("resolved %s", res.Base)
	return res, nil
}

func (n noting) Ready(at transfer.Resolution) error {
	n.note("ready %s", at.Base)
	return nil
}

func (n noting) Free(at transfer.Resolution) (int64, error) {
	n.note("free %s", at.Base)
	return 0, nil
}

func (n noting) CheckOverlap(*WalkRequest, transfer.Location, bool) error {
	n.note("overlap")
	return nil
}

func (n noting) Land(LandConfig) Landing { return notingLanding{noting: n} }

type notingLanding struct {
	Landing
	noting
}

func (n notingLanding) At(Destination) Landing { return n }

func (n notingLanding) Path(name transfer.Path) transfer.Path {
	return transfer.Path(n.name) + "/" + name
}

func (n notingLanding) Commit(_ context.Context, group []Pending) (done []transfer.Outcome, err error) {
	for _, p := range group {
		n.note("commit %d", p.Outcome.Item)
		done = append(done, p.Outcome)
	}
	return done, n.fail
}

func (n notingLanding) RemoveLeftovers(dirs []transfer.Path, some bool) error {
	n.note("tidy %v %v", dirs, some)
	return n.fail
}

func (n notingLanding) Close() error {
	n.note("close")
	return nil
}

// routedTo returns a Router over files and two further places, and its log.
func routedTo(fail map[string]error) (*Router, *[]string) {
	log := &[]string{}
	of := func(name string) noting { return noting{name: name, log: log, fail: fail[name]} }
	route := func(p transfer.Place) Route {
		return Route{Of: p, Source: of(string(p)), Target: of(string(p)), Holds: func(dir transfer.Path) bool { return strings.HasPrefix(string(dir), string(p)+":") }}
	}
	return NewRouter(of("files"), route("queue"), route("sftp")), log
}

func wantLog(t *testing.T, log *[]string, want ...string) {
	t.Helper()
	if !slices.Equal(*log, want) {
		t.Errorf("calls %q, want %q", *log, want)
	}
	*log = nil
}

// A request and a DEST go to the place that they name. A place without a route is the host's.
func TestRouterChoosesByPlace(t *testing.T) {
	r, log := routedTo(nil)
	for of, name := range map[transfer.Place]string{transfer.Files: "files", transfer.Datasets: "files", "queue": "queue", "sftp": "sftp"} {
		res, err := r.Resolve(transfer.Location{Place: of, Path: "x"}, false, nil)
		if err == nil {
			_, err = r.Resolved(res, nil)
		}
		if err == nil {
			err = r.Ready(res)
		}
		if err == nil {
			_, err = r.Free(res)
		}
		if err != nil {
			t.Error(err)
		}
		wantLog(t, log, name+" resolve x", name+" resolved x", name+" ready x", name+" free x")
		r.For(of, nil)
		wantLog(t, log, name+" for")
	}

	As(r, "ann").For("sftp", nil)
	As(r, "ann").For(transfer.Files, nil)
	wantLog(t, log, "sftp as ann for", "files for")
	r.routes[0].Source = struct{ Source }{r.routes[0].Source} // no OverlapChecker
	for _, of := range []transfer.Place{"queue", "sftp", transfer.Files} {
		if err := r.CheckOverlap(nil, transfer.Location{Place: of}, false); err != nil {
			t.Error(err)
		}
	}
	wantLog(t, log, "sftp overlap", "files overlap")
}

// A group with items of several places is committed place by place, those of the host first. After an error of a place
// the next one is not asked.
func TestRouterCommitsPlaceByPlace(t *testing.T) {
	errFull := errors.New("full")
	for fails, want := range map[string][]string{
		"":      {"files commit 1", "files commit 4", "queue commit 3", "sftp commit 2"},
		"queue": {"files commit 1", "files commit 4", "queue commit 3"},
		"files": {"files commit 1", "files commit 4"},
	} {
		r, log := routedTo(map[string]error{fails: errFull})
		l := r.Land(LandConfig{})
		to := func(of transfer.Place) Landing {
			return l.At(Destination{Resolution: transfer.Resolution{Place: of}})
		}
		if got := to("sftp").Path("x"); got != "sftp/x" {
			t.Errorf("an item at a route has the path %s", got)
		}
		var group []Pending
		for n, at := range []Landing{nil, to("sftp"), to("queue"), to(transfer.Files)} {
			group = append(group, Pending{At: at, Outcome: transfer.Outcome{Item: uint64(n + 1)}})
		}
		done, err := l.Commit(t.Context(), group)
		if fails != "" != errors.Is(err, errFull) || len(done) != len(want) {
			t.Errorf("%d outcomes, %v", len(done), err)
		}
		wantLog(t, log, want...)
	}
}

// Each place removes its own leftovers, although another one fails. A route without leftovers is not asked.
func TestRouterRemovesLeftoversOfEachPlace(t *testing.T) {
	errAway := errors.New("away")
	r, log := routedTo(map[string]error{"queue": errAway})
	l := r.Land(LandConfig{})
	if err := l.RemoveLeftovers([]transfer.Path{"/d", "queue:Q"}, true); !errors.Is(err, errAway) {
		t.Error(err)
	}
	wantLog(t, log, "queue tidy [queue:Q] true", "files tidy [/d] true")
	if err := l.RemoveLeftovers(nil, false); err != nil {
		t.Error(err)
	}
	wantLog(t, log, "files tidy [] false")
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	wantLog(t, log, "files close", "queue close", "sftp close")
}
