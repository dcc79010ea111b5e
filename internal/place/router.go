package place

import (
	"context"
	"errors"

	"ferry/internal/transfer"
)

// A Host is the place that a Router passes everything to for that it has no Route.
type Host interface {
	Source
	Target
	Archiver
	OverlapChecker
	Examiner
	FileBudget
	Linker
}

// A Route is a further place of a Router. All its fields are set: a place that is no source has a Source that refuses.
type Route struct {
	Of     transfer.Place
	Source Source
	Target Target
	// Holds reports whether a directory, as Location.TempDirs has it, is one of Target.
	Holds func(dir transfer.Path) bool
}

// A Router is a Source and a Target that has a place for each transfer.Place. A request, and each DEST, names one of
// them.
type Router struct {
	Host
	routes []Route
}

var (
	_ Source         = (*Router)(nil)
	_ Target         = (*Router)(nil)
	_ OverlapChecker = (*Router)(nil)
	_ Actor          = (*Router)(nil)
)

// NewRouter returns a Router. No two routes have the same transfer.Place.
func NewRouter(host Host, routes ...Route) *Router { return &Router{host, routes} }

// route returns the index of the Route of a place, or -1 if the place is the host's.
func (r *Router) route(of transfer.Place) int {
	for n := range r.routes {
		if r.routes[n].Of == of {
			return n
		}
	}
	return -1
}

// As returns the places with operations in the name of a principal.
func (r *Router) As(principal string) Source {
	as := &Router{r.Host, append([]Route(nil), r.routes...)}
	for n := range as.routes {
		as.routes[n].Source = As(as.routes[n].Source, principal)
	}
	return as
}

// For returns the source of one request.
func (r *Router) For(of transfer.Place, may Permit) Source {
	return r.source(of).For(of, may)
}

// source returns the place of the sources of a request.
func (r *Router) source(of transfer.Place) Source {
	if n := r.route(of); n >= 0 {
		return r.routes[n].Source
	}
	return r.Host
}

// CheckOverlap asks the place of DEST. A place that is no OverlapChecker finds no overlap.
func (r *Router) CheckOverlap(w *WalkRequest, dest transfer.Location, several bool) error {
	if c, ok := r.source(dest.Place).(OverlapChecker); ok {
		return c.CheckOverlap(w, dest, several)
	}
	return nil
}

// target returns the place of a DEST.
func (r *Router) target(of transfer.Place) Target {
	if n := r.route(of); n >= 0 {
		return r.routes[n].Target
	}
	return r.Host
}

// Resolve asks the place of a DEST.
func (r *Router) Resolve(dest transfer.Location, several bool, may Permit) (transfer.Resolution, error) {
	return r.target(dest.Place).Resolve(dest, several, may)
}

// Resolved asks the place of a DEST.
func (r *Router) Resolved(res transfer.Resolution, may Permit) (transfer.Resolution, error) {
	return r.target(res.Place).Resolved(res, may)
}

// Ready asks the place of a DEST.
func (r *Router) Ready(at transfer.Resolution) error { return r.target(at.Place).Ready(at) }

// Free asks the place of a DEST.
func (r *Router) Free(at transfer.Resolution) (int64, error) { return r.target(at.Place).Free(at) }

// Land returns a Landing with a landing of each place.
func (r *Router) Land(cfg LandConfig) Landing {
	l := &routed{router: r, host: r.Host.Land(cfg)}
	for _, to := range r.routes {
		l.others = append(l.others, to.Target.Land(cfg))
	}
	return l.choose(cfg.Resolution)
}

// A routed Landing lands the items of one transfer, those of one destination in its Landing.
type routed struct {
	Landing
	router *Router
	host   Landing
	others []Landing // by route
	at     int       // the route of Landing, or -1
}

// choose sets the Landing for a destination.
func (l *routed) choose(at transfer.Resolution) *routed {
	l.Landing = l.host
	if l.at = l.router.route(at.Place); l.at >= 0 {
		l.Landing = l.others[l.at]
	}
	return l
}

// At returns the landing of another destination, perhaps at another place.
func (l *routed) At(to Destination) Landing {
	other := &routed{router: l.router, host: l.host.At(to)}
	for _, of := range l.others {
		other.others = append(other.others, of.At(to))
	}
	return other.choose(to.Resolution)
}

// Commit decides the items of a group that go to the host, and then those of each route.
func (l *routed) Commit(ctx context.Context, group []Pending) (done []transfer.Outcome, err error) {
	host, others := []Pending(nil), make([][]Pending, len(l.others))
	for _, p := range group {
		at := l
		if p.At != nil {
			at = p.At.(*routed)
			p.At = at.Landing
		}
		if at.at < 0 {
			host = append(host, p)
		} else {
			others[at.at] = append(others[at.at], p)
		}
	}
	if len(host) > 0 {
		done, err = l.host.Commit(ctx, host)
	}
	for n, of := range l.others {
		if len(others[n]) > 0 && err == nil {
			var more []transfer.Outcome
			more, err = of.Commit(ctx, others[n])
			done = append(done, more...)
		}
	}
	return done, err
}

// RemoveLeftovers makes each place remove its leftovers.
func (l *routed) RemoveLeftovers(dirs []transfer.Path, some bool) error {
	host, others := []transfer.Path(nil), make([][]transfer.Path, len(l.others))
	for _, d := range dirs {
		if n := l.router.leftoversRoute(d); n >= 0 {
			others[n] = append(others[n], d)
		} else {
			host = append(host, d)
		}
	}
	var all error
	for n, of := range l.others {
		if len(others[n]) > 0 {
			all = errors.Join(all, of.RemoveLeftovers(others[n], some))
		}
	}
	return errors.Join(l.host.RemoveLeftovers(host, some), all)
}

// leftoversRoute returns the route that has a directory of leftovers, or -1 if the directory is the host's.
func (r *Router) leftoversRoute(dir transfer.Path) int {
	for n := range r.routes {
		if r.routes[n].Holds(dir) {
			return n
		}
	}
	return -1
}

// Close closes the landing of each place.
func (l *routed) Close() error {
	err := l.host.Close()
	for _, of := range l.others {
		err = errors.Join(err, of.Close())
	}
	return err
}
