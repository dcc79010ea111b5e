package land

import (
	"container/list"
	"ferry/internal/place/local/disk"
	"sync"
)

// cachedDirs bounds the directories that a landing keeps open beyond those in
// use.
const cachedDirs = 64

// A sharedDir directory is open and shared. Its handle stays on the same directory, even if its path leads elsewhere by now.
type sharedDir struct {
	*disk.Dir
	refs  int
	seen  bool          // whether the commit has checked that its file system can be watched
	watch *watch        // of its file system; nil: it cannot be
	elem  *list.Element // in the cache's list of unused ones; nil while in use
}

// A dirCache keeps directory handles by path: those in use and the most recently used ones.
type dirCache struct {
	optional *disk.OptionalFiles // of those that are not in use
	mu       sync.Mutex
	dirs     map[string]*sharedDir
	unused   list.List // of *held, latest first
}

// get returns the cached directory of a path, now in use, or nil if there is none.
func (c *dirCache) get(path string) *sharedDir {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.dirs[path]
	if h != nil {
		c.take(h)
	}
	return h
}

func (c *dirCache) take(h *sharedDir) {
	if h.elem != nil {
		c.unused.Remove(h.elem)
		h.elem = nil
		c.optional.Give()
	}
	h.refs++
}

// put adds a directory in use. If another goroutine added its handle first, put returns that handle.
func (c *dirCache) put(d *disk.Dir) *sharedDir {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h := c.dirs[d.Path()]; h != nil {
		c.take(h)
		d.Close()
		return h
	}

	h := &sharedDir{Dir: d, refs: 1}
	if c.dirs == nil {
		c.dirs = map[string]*sharedDir{}
	}

	c.dirs[d.Path()] = h
	return h
}

// hold adds a reference to a directory in use.
func (c *dirCache) hold(h *sharedDir) *sharedDir {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.take(h)
	return h
}

func (c *dirCache) release(h *sharedDir) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h.refs--
	if h.refs > 0 {
		return
	}

	if c.dirs[h.Path()] != h { // it was forgotten while in use
		h.Close()
		return
	}

	if !c.optional.Take() {
		delete(c.dirs, h.Path())
		h.Close()
		return
	}

	h.elem = c.unused.PushFront(h)
	if c.unused.Len() > cachedDirs {
		c.drop(c.unused.Back().Value.(*sharedDir))
	}
}

func (c *dirCache) drop(h *sharedDir) {
	delete(c.dirs, h.Path())
	c.unused.Remove(h.elem)
	c.optional.Give()
	h.Close()
}

// forget makes the next get open the directory again.
func (c *dirCache) forget(h *sharedDir) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dirs[h.Path()] != h {
		return
	}
	if h.elem != nil {
		c.drop(h)
	}
	delete(c.dirs, h.Path())
}

// clear closes the directories that are not in use.
func (c *dirCache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closeUnused()
}

// forgetAll makes every get open its directory again: if one path leads elsewhere, those above it and below may, too.
func (c *dirCache) forgetAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closeUnused()
	c.dirs = nil
}

func (c *dirCache) closeUnused() {
	for c.unused.Len() > 0 {
		c.drop(c.unused.Back().Value.(*sharedDir))
	}
}
