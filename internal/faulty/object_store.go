package faulty

import (
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// The final errors of an ObjectStore. After any other error the call may have taken effect.
var (
	ErrNoSuchKey      = errors.New("NoSuchKey")
	ErrNoSuchUpload   = errors.New("NoSuchUpload")
	ErrPrecondition   = errors.New("PreconditionFailed")
	ErrInvalidPart    = errors.New("InvalidPart")
	ErrEntityTooSmall = errors.New("EntityTooSmall")
)

// Limits of an ObjectStore: a thousandth of those of S3.
const (
	LeastPart = 5 << 10 // of each part but the last
	MostParts = 10_000
	listPage  = 7
)

// An ObjectStore is a store of objects in memory, like S3. An object appears as a whole or not at all, is replaced as a
// whole, and cannot be renamed or appended to. It consists of numbered parts, which cannot be read before the upload is
// completed. An ObjectStore is safe for concurrent use, and outlives every Session.
type ObjectStore struct {
	mu      sync.Mutex
	objects map[string]Object
	uploads map[string]*upload
	made    int // uploads so far
}

// An Object is the present object of a key.
type Object struct {
	Data     []byte // must not be changed
	ETag     string // of its content: objects with different content have different tags
	Modified time.Time
}

// An upload is an object before its completion.
type upload struct {
	key, label string
	parts      map[int]Object
}

// An Upload is an entry of a listing.
type Upload struct{ Key, ID, Label string }

// NewObjectStore returns an empty store.
func NewObjectStore() *ObjectStore {
	return &ObjectStore{objects: map[string]Object{}, uploads: map[string]*upload{}}
}

// Put stores an object, as another program would.
func (s *ObjectStore) Put(key string, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects[key] = newObject(data)
}

// Remove removes an object, as another program would.
func (s *ObjectStore) Remove(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects, key)
}

// All returns the content of the store: its objects, and its uploads by their ID.
func (s *ObjectStore) All() (objects map[string]Object, uploads map[string]Upload) {
	s.mu.Lock()
	defer s.mu.Unlock()
	uploads = map[string]Upload{}
	for id, u := range s.uploads {
		uploads[id] = Upload{u.key, id, u.label}
	}
	return maps.Clone(s.objects), uploads
}

func newObject(data []byte) Object {
	sum := md5.Sum(data)
	return Object{Data: data, ETag: hex.EncodeToString(sum[:]), Modified: time.Now()}
}

// etagOf returns the tag of an object that consists of parts.
func etagOf(parts []string) string {
	h := md5.New()
	for _, p := range parts {
		b, _ := hex.DecodeString(p)
		h.Write(b)
	}
	return fmt.Sprintf("%x-%d", h.Sum(nil), len(parts))
}

// A Session is a client's access to an ObjectStore. Around, if set, runs each call: it may skip it and fail, run it and
// fail, or wait.
type Session struct {
	Store  *ObjectStore
	Around func(op, key string, call func() error) error
}

func (c Session) do(op, key string, call func(s *ObjectStore) error) error {
	locked := func() error {
		c.Store.mu.Lock()
		defer c.Store.mu.Unlock()
		return call(c.Store)
	}
	if c.Around == nil {
		return locked()
	}
	return c.Around(op, key, locked)
}

// head returns an object without its data.
func (c Session) head(key string) (o Object, size int64, err error) {
	err = c.do("head", key, func(s *ObjectStore) error {
		is, ok := s.objects[key]
		if !ok {
			return ErrNoSuchKey
		}
		o, size = is, int64(len(is.Data))
		o.Data = nil
		return nil
	})
	return o, size, err
}

// get returns the present object. A reader keeps it even if it is replaced meanwhile.
func (c Session) get(key string) (o Object, err error) {
	err = c.do("get", key, func(s *ObjectStore) error {
		is, ok := s.objects[key]
		if !ok {
			return ErrNoSuchKey
		}
		o = is
		return nil
	})
	return o, err
}

// put stores an object, and replaces an existing one.
func (c Session) put(key string, data []byte) error {
	return c.do("put", key, func(s *ObjectStore) error {
		s.objects[key] = newObject(data)
		return nil
	})
}

// remove deletes an object. With ifMatch it only deletes one with that tag.
func (c Session) remove(key, ifMatch string) error {
	return c.do("delete", key, func(s *ObjectStore) error {
		is, ok := s.objects[key]
		switch {
		case !ok && ifMatch != "":
			return ErrNoSuchKey
		case ifMatch != "" && is.ETag != ifMatch:
			return ErrPrecondition
		}
		delete(s.objects, key)
		return nil
	})
}

// list returns one page of the keys that begin with prefix and come after after, in the order of their bytes. more
// reports that there may be others.
func (c Session) list(prefix, after string) (keys []string, sizes []int64, more bool, err error) {
	err = c.do("list", prefix, func(s *ObjectStore) error {
		for _, key := range slices.Sorted(maps.Keys(s.objects)) {
			if !strings.HasPrefix(key, prefix) || key <= after {
				continue
			}
			if more = len(keys) == listPage; more {
				break
			}
			keys, sizes = append(keys, key), append(sizes, int64(len(s.objects[key].Data)))
		}
		return nil
	})
	return keys, sizes, more, err
}

// begin begins an upload. The store's user finds it by its label.
func (c Session) begin(key, label string) (id string, err error) {
	err = c.do("begin", key, func(s *ObjectStore) error {
		s.made++
		id = fmt.Sprintf("upload-%d", s.made)
		s.uploads[id] = &upload{key, label, map[int]Object{}}
		return nil
	})
	return id, err
}

// part stores one part of an upload, numbered from 1, and replaces an earlier one.
func (c Session) part(id string, n int, data []byte) (etag string, err error) {
	data = slices.Clone(data)
	err = c.do("part", id, func(s *ObjectStore) error {
		u := s.uploads[id]
		switch {
		case u == nil:
			return ErrNoSuchUpload
		case n < 1 || n > MostParts:
			return ErrInvalidPart
		}
		u.parts[n] = newObject(data)
		etag = u.parts[n].ETag
		return nil
	})
	return etag, err
}

// parts lists the tags and sizes of an upload's parts, up to the first gap in their numbers.
func (c Session) parts(key, id string) (etags []string, sizes []int64, err error) {
	err = c.do("parts", id, func(s *ObjectStore) error {
		u := s.uploads[id]
		if u == nil || u.key != key {
			return ErrNoSuchUpload
		}
		for n := 1; ; n++ {
			p, ok := u.parts[n]
			if !ok {
				return nil
			}
			etags, sizes = append(etags, p.ETag), append(sizes, int64(len(p.Data)))
		}
	})
	return etags, sizes, err
}

// A condition must hold for an upload to be completed.
type condition struct {
	match string // the tag of the existing object; empty: there must be none
}

// complete turns an upload into the object of its key, from the parts with those tags. The upload is gone then.
func (c Session) complete(id string, etags []string, when condition) error {
	key := ""
	c.Store.mu.Lock()
	if u := c.Store.uploads[id]; u != nil {
		key = u.key
	}
	c.Store.mu.Unlock()
	return c.do("complete", key, func(s *ObjectStore) error {
		u := s.uploads[id]
		if u == nil {
			return ErrNoSuchUpload
		}
		if is := s.objects[u.key]; is.ETag != when.match {
			return ErrPrecondition
		}
		var all []byte
		for n, tag := range etags {
			p, ok := u.parts[n+1]
			if !ok || p.ETag != tag {
				return ErrInvalidPart
			}
			if n < len(etags)-1 && len(p.Data) < LeastPart {
				return ErrEntityTooSmall
			}
			all = append(all, p.Data...)
		}
		if len(etags) == 0 {
			return ErrInvalidPart
		}
		o := newObject(all)
		o.ETag = etagOf(etags)
		s.objects[u.key] = o
		delete(s.uploads, id)
		return nil
	})
}

// abort ends an upload. A missing upload is no error.
func (c Session) abort(id string) error {
	return c.do("abort", id, func(s *ObjectStore) error {
		delete(s.uploads, id)
		return nil
	})
}

// uploadsOf lists the uploads with labels that begin with label.
func (c Session) uploadsOf(label string) (all []Upload, err error) {
	err = c.do("uploads", label, func(s *ObjectStore) error {
		for id, u := range s.uploads {
			if strings.HasPrefix(u.label, label) {
				all = append(all, Upload{u.key, id, u.label})
			}
		}
		return nil
	})
	return all, err
}
