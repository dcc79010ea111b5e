package protocol_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ferry/internal/content/digest"
	"ferry/internal/transfer"
	"ferry/test/campaign"
)

// TestCampaignObjects moves files from and to object stores. Calls fail, get no answer, or are the last ones before a
// crash, while other programs store objects under the same keys.
func TestCampaignObjects(t *testing.T) {
	campaign.Run(t, campaign.Spec{Name: "objects",
		What: "calls to object stores fail, are not answered or are the last before a crash, while other programs replace sources and take destination keys",
		Unit: "seeds", Full: 20_000, Short: 200, Packages: append([]string{"internal/place"}, product...)}, func(t *testing.T, c *campaign.C) {
		each(besetObjects)(t, c)
		t.Log(&toll)
	})
}

// TestObjectSeeds runs the beginning of that campaign in every test run.
func TestObjectSeeds(t *testing.T) { spread(t, 1, 60, besetObjects) }

// A visitor is another program that stores objects.
type visitor struct {
	w       *world
	mu      sync.Mutex
	stored  map[string][]string // its objects at the destination, by key
	sources map[string][]string // contents of a source, by its destination key
	deletes bool                // sources are deleted
}

// besetObjects is one seed.
func besetObjects(t *testing.T, _ uint64, r *rand.Rand) {
	s := &script{r: r}
	set := setup{settings: small, memory: true, park: true, wake: s.one(2), objects: sidesWithObjects[1+s.n(2)]}
	bubble(t, set, func(w *world) {
		w.crashes(s)
		w.objectBreakage(s)
		safe := watchSafety(w)
		w.slow(s.time(20 * time.Millisecond))
		v := &visitor{w: w, stored: map[string][]string{}, sources: map[string][]string{}}
		for n := range 2 + s.n(8) {
			name := fmt.Sprintf("in/d%d/f%d", n%2, n)
			v.replace(name, content(uint64(n), []int{0, s.n(300), s.n(60 << 10)}[s.n(3)]))
		}
		exists := []string{"", transfer.IfExistsOverwrite, transfer.IfExistsSkip}[s.n(3)]
		id := w.submitAnyhow(transfer.Request{Items: transfer.ItemsOf("in"), Dest: transfer.File("out/"), Recovery: transfer.Duration(10 * time.Minute), Options: transfer.Options{Recursive: true, Disposition: disposition(s.one(2)), IfExists: exists, Checksum: []string{"", "md5", "none"}[s.n(3)]}})
		visited := s.one(2)
		if visited {
			v.hurries(s)
			v.visits(s)
		}
		w.events(s)
		pass(s.time(3 * time.Second))
		w.heal(s, []transfer.ID{id})
		if !visited && !slices.Contains(set.objects, srcName) { // a source that is replaced begins again
			safe.report(w.t)
		}
		v.check(id, exists)
		w.checkIdle()
	})
}

// replace stores a source.
func (v *visitor) replace(name string, data []byte) {
	must(v.w.t, v.w.src.host().put(name, data))
	v.sources["out/"+name] = append(v.sources["out/"+name], string(data))
}

// visits lets the visitor act several times.
func (v *visitor) visits(s *script) {
	for range 1 + s.n(6) {
		pass(s.time(100 * time.Millisecond))
		names := slices.Sorted(func(yield func(string) bool) {
			for key := range v.sources {
				if !yield(key) {
					return
				}
			}
		})
		key := names[s.n(len(names))]
		theirs := content(uint64(1000+s.n(1000)), 1+s.n(9000))
		toll.add("visits", 1)
		if s.one(2) {
			v.replace(strings.TrimPrefix(key, "out/"), theirs)
			continue
		}
		v.store(key, theirs)
	}
}

// hurries lets the visitor take keys just before an upload gets them.
func (v *visitor) hurries(s *script) {
	v.w.change(func(w *world) {
		next := w.inject
		w.inject = func(n *node, op, key string) error {
			if op == "complete" && !s.over() && s.one(8) {
				toll.add("visits", 1)
				v.store(key, content(uint64(2000+s.n(1000)), 1+s.n(9000)))
			}
			if next == nil {
				return nil
			}
			return next(n, op, key)
		}
	})
}

// store stores an object at the destination.
func (v *visitor) store(key string, data []byte) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.stored[key] = append(v.stored[key], string(data))
	v.w.dst.store.Put(key, data)
}

// check compares the objects with the sources, the visitor's objects and the reports. A key has the object stored last,
// and an object recorded as arrived is a whole source.
func (v *visitor) check(id transfer.ID, exists string) {
	t := v.w.t
	t.Helper()
	rec := v.w.source(id)
	v.deletes = rec.Request.Removes()
	m, err := digest.ParseMethod(rec.Request.Checksum)
	must(t, err)
	decided := map[string]transfer.Outcome{}
	for item, all := range outcomes(v.w, v.w.dst, id) {
		o := all[0]
		if o.Type == transfer.ItemDir {
			continue
		}
		decided[string(o.Path)] = o
		if len(all) != 1 {
			t.Errorf("item %d was decided %d times", item, len(all))
		}
		if o.OK() && m != digest.None && !v.isSource(string(o.Path), o.Digest, m) {
			t.Errorf("%s is on record as arrived with digest %s, and no source was that", o.Path, o.Digest)
		}
		if kind := transfer.KindOf(asError(o.Err)); !o.OK() && kind != transfer.KindExists && kind != transfer.KindSkipped && kind != transfer.KindChanging && kind != transfer.KindMoved && kind != transfer.KindMissing {
			t.Errorf("%s has failed: %v", o.Path, o.Err)
		}
	}
	for key := range v.sources {
		v.checkKey(key, decided, exists)
	}
}

func asError(e *transfer.Error) error {
	if e == nil {
		return nil
	}
	return e
}

func (v *visitor) isSource(key, sum string, m digest.Method) bool {
	return slices.ContainsFunc(v.sources[key], func(data string) bool {
		h := m.New()
		h.Write([]byte(data))
		return m.Sum(h) == sum
	})
}

func (v *visitor) checkKey(key string, decided map[string]transfer.Outcome, exists string) {
	t, o, theirs := v.w.t, decided[key], v.stored[key]
	there, err := v.w.dst.host().get(key)
	ours := err == nil && slices.Contains(v.sources[key], string(there))
	switch {
	case len(theirs) > 0 && exists != transfer.IfExistsOverwrite && (err != nil || string(there) != theirs[len(theirs)-1]):
		t.Errorf("%s: what another program has stored last is not there: %d bytes, %v", key, len(there), err)
	case len(theirs) == 0 && o.OK() && o.Path != "" && !ours:
		t.Errorf("%s is on record as arrived and has %d bytes that no source has had: %v", key, len(there), err)
	case err == nil && !ours && !slices.Contains(theirs, string(there)):
		t.Errorf("%s has %d bytes that nobody has stored", key, len(there))
	}
	name := strings.TrimPrefix(key, "out/")
	last := v.sources[key][len(v.sources[key])-1]
	source, err := v.w.src.host().get(name)
	switch {
	case err == nil && string(source) != last:
		t.Errorf("the source %s has %d bytes, and %d were stored last", name, len(source), len(last))
	case err != nil && (!v.deletes || !o.OK()):
		t.Errorf("the source %s is gone, and it did not arrive: %v", name, o.Err)
	case err != nil && len(theirs) == 0 && string(there) != last:
		t.Errorf("the source %s is gone with content that is not at the destination", name)
	}
}
