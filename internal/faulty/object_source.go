package faulty

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"path"
	"slices"
	"strings"

	"ferry/internal/place"
	"ferry/internal/transfer"
)

// Objects is the place of an ObjectStore. A path is a key. There are no directories, although a key may look like a
// path. The place cannot seek, and does not know the size of some objects before they have been read.
type Objects struct {
	Session     Session
	Incarnation uint64 // of the agent's ledger; part of every label
	Scratch     string // prefix of the keys of tails

	may place.Permit
}

// For returns the place with the rights of a principal. Keys are paths without a first /.
func (o *Objects) For(_ transfer.Place, may place.Permit) place.Source {
	other := *o
	other.may = may
	return &other
}

var (
	_ place.Source  = (*Objects)(nil)
	_ place.Target  = (*Objects)(nil)
	_ place.Deleter = (*Objects)(nil)
)

// unknownEffect returns a wait, for a call that may or may not have taken effect.
func unknownEffect(op string, p transfer.Path, err error) *transfer.Error {
	return transfer.Errorf(transfer.KindUnreachable, "the object store does not answer: %s %s: %w", op, p, err)
}

// Expands reports that a key with a wildcard may be several.
func (o *Objects) Expands(l transfer.Location) (several, unnamed bool) { return l.Pattern, false }

// Walk emits objects in the order of their keys: the object with a source's name, the matches of a pattern, or, with
// Recursive, all keys that begin with a source and '/'. It does not support retried requests and a Base.
func (o *Objects) Walk(ctx context.Context, w place.WalkRequest, emit func(transfer.Item) error) (linksSkipped int64, err error) {
	first := 0
	if w.After != nil {
		first = w.After.Arg
	}

	for arg := first; arg < len(w.Args); arg++ {
		after := ""
		if w.After != nil && arg == first {
			after = string(w.After.Source)
		}
		if err := o.walkSource(ctx, w.Args[arg].Source, w.Args[arg].Recursive, after, func(it transfer.Item) error {
			it.Arg = arg
			return emit(it)
		}); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

func (o *Objects) walkSource(ctx context.Context, of transfer.Location, recursive bool, after string, emit func(transfer.Item) error) error {
	source := of.Path
	src := strings.TrimSuffix(path.Clean(string(source)), "/")
	several := of.Pattern
	prefix := src
	if several {
		prefix = src[:strings.IndexAny(src, "*?[")]
	}

	found := after != ""
	for more := true; more; {
		if err := ctx.Err(); err != nil {
			return err
		}
		keys, sizes, again, err := o.Session.list(prefix, after)
		if err != nil {
			return unknownEffect("list", source, err)
		}
		more = again
		for n, key := range keys {
			after = key
			is := key == src || recursive && strings.HasPrefix(key, src+"/")
			if several {
				is, _ = path.Match(src, key)
			}
			if !is || strings.Contains(key, "/.ferry-") || strings.HasPrefix(key, ".ferry-") {
				continue
			}
			found = true
			it := transfer.Item{Type: transfer.ItemFile, Source: transfer.Path(key), Size: max(0, o.said(key, sizes[n]))}
			if it.Name = transfer.Path(path.Base(key)); !several && key != src {
				it.Name = transfer.Path(path.Join(path.Base(src), key[len(src):]))
			}
			if err := o.may.Check(transfer.AuthSource, "/"+key); err != nil {
				it.Type, it.Err = transfer.ItemBad, transfer.AsError(err)
			}
			if err := emit(it); err != nil {
				return err
			}
		}
	}

	if found {
		return nil
	}

	missing := transfer.Errorf(transfer.KindMissing, "%s does not exist", source)
	return emit(transfer.Item{Type: transfer.ItemBad, Source: source, Err: missing})
}

// said returns the size that the place reports for an object. It is unknown for every third one.
func (o *Objects) said(key string, size int64) int64 {
	h := fnv.New32a()
	io.WriteString(h, key)
	if h.Sum32()%3 == 0 {
		return -1
	}
	return size
}

// StatDir fails: there are no directories.
func (o *Objects) StatDir(p transfer.Path) (mode uint32, mtime int64, err error) {
	return 0, 0, transfer.Errorf(transfer.KindMissing, "%s does not exist: an object store has no directories", p)
}

// Files opens objects.
func (o *Objects) Files(transfer.Location) place.Files { return objectFiles{o} }

type objectFiles struct{ o *Objects }

func (f objectFiles) Close() {}

func (f objectFiles) Open(p transfer.Path, _ bool) (place.File, error) {
	if err := errors.Join(mayBeKey(p), f.o.may.Check(transfer.AuthSource, "/"+string(p))); err != nil {
		return nil, err
	}
	is, err := f.o.Session.get(string(p))
	switch {
	case errors.Is(err, ErrNoSuchKey):
		return nil, transfer.Errorf(transfer.KindMissing, "%s does not exist", p)
	case err != nil:
		return nil, unknownEffect("get", p, err)
	}
	return &objectFile{o: f.o, key: string(p), is: is}, nil
}

// An objectFile is an answer that is read to its end.
type objectFile struct {
	o   *Objects
	key string
	is  Object
	at  int
}

func (f *objectFile) Read(b []byte) (n int, err error) {
	err = f.o.Session.do("read", f.key, func(*ObjectStore) error {
		n = copy(b, f.is.Data[f.at:])
		return nil
	})
	if err != nil {
		return 0, unknownEffect("read", transfer.Path(f.key), err)
	}
	if f.at += n; f.at == len(f.is.Data) {
		return n, io.EOF
	}
	return n, nil
}

func (f *objectFile) Close() error { return nil }

// versionFormat begins the version of an object. Its tag follows.
const versionFormat = 1

func (f *objectFile) version() transfer.Version {
	return transfer.Version(append([]byte{versionFormat}, f.is.ETag...))
}

func (f *objectFile) Facts() place.Facts {
	return place.Facts{Version: f.version(), Size: f.o.said(f.key, int64(len(f.is.Data))), Mode: 0o644, Mtime: f.is.Modified.UnixNano(), Allocated: int64(len(f.is.Data)), RealPath: "/" + f.key}
}

func (f *objectFile) Form() (known *transfer.Form, dataset bool, err error) { return nil, false, nil }

func (f *objectFile) Unchanged() error {
	now, _, err := f.o.Session.head(f.key)
	switch {
	case errors.Is(err, ErrNoSuchKey):
		return transfer.Errorf(transfer.KindChanging, "%s was deleted while it was read", f.key)
	case err != nil:
		return unknownEffect("head", transfer.Path(f.key), err)
	case now.ETag != f.is.ETag:
		return transfer.Errorf(transfer.KindChanging, "%s was replaced while it was read", f.key)
	}
	return nil
}

// MayDelete returns nil: all objects can be deleted.
func (o *Objects) MayDelete(*place.WalkRequest) error { return nil }

// AsideName returns a name that is not used: an object is deleted in place, on a condition.
func (o *Objects) AsideName(id transfer.ID, item uint64) string {
	return fmt.Sprintf("%s/%d", id, item)
}

// Delete deletes an object of that version. With again a missing object counts as deleted by an earlier call.
func (o *Objects) Delete(p transfer.Path, v transfer.Version, _ string, again bool) error {
	if len(v) < 2 || v[0] != versionFormat {
		return transfer.Errorf(transfer.KindVersion, "the version of %s is in a format that is not known", p)
	}

	if err := o.may.Check(transfer.AuthDeleteSource, "/"+string(p)); err != nil && !again {
		return err
	}
	tag := string(v[1:])

	switch err := o.Session.remove(string(p), tag); {
	case err == nil, again && errors.Is(err, ErrNoSuchKey):
		return nil
	case errors.Is(err, ErrNoSuchKey):
		return transfer.Errorf(transfer.KindMissing, "%s does not exist", p)
	case errors.Is(err, ErrPrecondition):
		return transfer.Errorf(transfer.KindChanging, "%s has been replaced since it was sent, and stays", p)
	default:
		return unknownEffect("delete", p, err)
	}
}

// DropForm does nothing: the store keeps nothing beside an object.
func (o *Objects) DropForm(transfer.Path) error { return nil }

// Free returns a large number: the free space of an object store is unknown.
func (o *Objects) Free(transfer.Resolution) (int64, error) { return 1 << 50, nil }

// Ready returns nil: an object store is always there, and calls to it report errors.
func (o *Objects) Ready(transfer.Resolution) error { return nil }

// Resolve takes a DEST that ends in '/' as a prefix of keys.
func (o *Objects) Resolve(dest transfer.Location, several bool, may place.Permit) (transfer.Resolution, error) {
	base := transfer.Path(path.Clean(string(dest.Path)))
	if err := errors.Join(mayBeKey(base), may.Reaches(transfer.AuthDest, "/"+string(base))); err != nil {
		return transfer.Resolution{}, err
	}
	return transfer.Resolution{Base: base, Into: several || dest.Directory()}, nil
}

// Resolved returns res unchanged, if may allows it.
func (o *Objects) Resolved(res transfer.Resolution, may place.Permit) (transfer.Resolution, error) {
	return res, errors.Join(mayBeKey(res.Base), may.Reaches(transfer.AuthDest, "/"+string(res.Base)))
}

// mayBeKey refuses a path that cannot be a key, or is one of Ferry's own.
func mayBeKey(p transfer.Path) error {
	if !cleanKey(p) {
		return transfer.Errorf(transfer.KindUsage, "%s is no key of an object", p)
	}
	return nil
}

// cleanKey reports whether a path can be a key, and none of Ferry's own.
func cleanKey(p transfer.Path) bool {
	parts := strings.Split(string(p), "/")
	return len(p) > 0 && len(p) <= 1024 && path.Clean(string(p)) == string(p) && parts[0] != ".." && p != "." &&
		!slices.ContainsFunc(parts, func(s string) bool { return s == "" || strings.HasPrefix(s, ".ferry-") })
}
