package audit

// A recent has the facts in memory about the records at the end of a log.
type recent struct {
	repeats  *repeats
	places   *locationCache
	unsealed unsealed // records that a crash has separated from their seal; nil: no agent seals
}

func newRecent() recent { return recent{repeats: newRepeats(), places: newLocationCache()} }

// add adds a record that was appended before.
func (t *recent) add(i int64, raw []byte, r *Record) {
	key := r.stream()
	t.repeats.add(key, r.N, raw)
	t.places.add(key, r.N, i)
	switch {
	case r.Agent == Coordination && (r.Event == Sealed || r.Event == Bound):
		t.unsealed = unsealed{} // earlier records were appended with a seal, or never get one
	case r.Agent != Coordination && t.unsealed != nil:
		g, ok := t.unsealed[key]
		if !ok {
			g.From = r.N
		}
		t.unsealed[key] = span{From: min(g.From, r.N), To: max(g.To, r.N)}
	}
}

// An unsealed has, by numbering, the records at the end of the log without a seal.
type unsealed map[stream]span

func (u unsealed) has(key stream, from, to uint64) bool {
	g, ok := u[key]
	return ok && from <= g.To && g.From <= to
}

// take removes the records that a seal covers.
func (u unsealed) take(key stream, from, to uint64) {
	switch g, ok := u[key]; {
	case !ok || to < g.From || g.To < from:
	case from <= g.From && g.To <= to:
		delete(u, key)
	case from <= g.From:
		u[key] = span{From: to + 1, To: g.To}
	case g.To <= to:
		u[key] = span{From: g.From, To: from - 1}
	}
}
