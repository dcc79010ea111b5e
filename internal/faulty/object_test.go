package faulty

import (
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"ferry/internal/place"
	"ferry/internal/place/placetest"
)

// inStore returns an object store as a place.
func inStore(*testing.T) *placetest.Fixture {
	s := NewObjectStore()
	const base = "base"
	open := func() *Objects { return &Objects{Session: Session{Store: s}, Incarnation: 7} }
	return &placetest.Fixture{
		Source: open(), Target: open(), Base: base,
		Put: func(name string, content []byte) error {
			s.Put(path.Join(base, name), slices.Clone(content))
			return nil
		},
		Get: func(name string) ([]byte, error) {
			o, err := Session{Store: s}.get(path.Join(base, name))
			return o.Data, err
		},
		Remove: func(name string) error { s.Remove(path.Join(base, name)); return nil },
		Names: func() (names []string) {
			objects, uploads := s.All()
			for key := range objects {
				names = append(names, strings.TrimPrefix(key, base+"/"))
			}
			for id := range maps.Keys(uploads) {
				names = append(names, ".ferry-"+id)
			}
			return names
		},
		Again: func() (place.Source, place.Target) { return open(), open() },
	}
}

func TestObjectsContract(t *testing.T) { placetest.Run(t, inStore) }
