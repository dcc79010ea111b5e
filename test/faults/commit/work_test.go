//go:build linux

package commit_test

import (
	"bytes"
	"fmt"
	"io"
	"path"
	"slices"
	"testing"

	"ferry/internal/faulty"
	"ferry/internal/transfer"
	"ferry/test/flow/network"
)

// A work is one transfer: its source files, the files at the destination before it, and its options.
type work struct {
	name    string
	files   []file
	dirs    []string          // directories that are items
	old     map[string]string // at the destination before; content by name
	process bool              // durability process
	exists  string            // --if-exists
	other   map[string]string // other names of files with a final name that exists
	del     bool              // --delete-source
	archive bool              // --archive /src/done
	plain   bool              // the file system has no rename without replacing
	group   int               // files that are committed together
	one     int               // minimum number of files for one sync of the file system; 0: 16
	set     bool              // items get their names together
	fails   bool              // no item gets its name
	chunk   int
	check   int64 // bytes between checkpoints; 0: none

	sidecar map[string]string // sidecars by name of their file; empty: no sidecar may exist
	library string            // sidecar of the directory LIB, for all files in it

	// newer is a call of a deletion at /src. Another program puts a newer file under the source's name at this call.
	newer faulty.Call
	// consumer takes each file away as soon as it has its name.
	consumer bool
	// from is the number of resume points recorded before the process is killed. The recorded work begins after that; 0
	// means at the beginning.
	from int
}

type file struct {
	name   string
	size   int
	sparse bool // with a hole in the middle
}

// content returns the content of a source.
func (w *work) content(k int) []byte {
	f := w.files[k]
	b, err := io.ReadAll(io.LimitReader(network.Content(uint64(len(w.name)), uint64(k)), int64(f.size)))
	if err != nil {
		panic(err)
	}
	if f.sparse {
		clear(b[f.size/4 : f.size/4*3])
	}
	return b
}

const newerContent = "a newer file, which has the source's name by now"

func workloads() []*work {
	one := []file{{"x", 9000, false}}
	few := []file{{"x", 3000, false}, {"sub/y", 700, false}, {"z", 0, false}}
	big := []file{{"big", 23_000, false}}
	return []*work{
		{name: "one file", files: one, group: 1, chunk: 4096},
		{name: "a group", files: few, group: 3, chunk: 2048, dirs: []string{"sub"}},
		{name: "one after another", files: few, group: 1, chunk: 2048},
		{name: "overwrite", files: few, group: 2, chunk: 2048, exists: transfer.IfExistsOverwrite, old: map[string]string{"x": "the old file", "z": "the old z"}},
		{name: "another name", files: few, group: 2, chunk: 2048, exists: transfer.IfExistsRename, dirs: []string{"sub"}, other: map[string]string{"x": "x-1", "sub/y": "sub/y-2"},
			old: map[string]string{"x": "the old file", "sub/y": "the old y", "sub/y-1": "an older y"}},
		{name: "another name, link and unlink", files: one, group: 1, chunk: 2048, exists: transfer.IfExistsRename, plain: true, other: map[string]string{"x": "x-1"},
			old: map[string]string{"x": "the old file"}},
		{name: "link and unlink", files: few, group: 2, chunk: 4096, plain: true},
		{name: "checkpoints", files: big, group: 1, chunk: 3000, check: 6000},
		{name: "checkpoints, in new directories", files: []file{{"a/b/c/big", 14_000, false}, {"a/x", 100, false}}, group: 2, chunk: 3500, check: 7000},
		{name: "resumed", files: append([]file{{"x", 600, false}}, big...), group: 1, chunk: 3000, check: 6000, from: 2},
		{name: "resumed, overwrite", files: big, group: 1, chunk: 5000, check: 5000, from: 1, exists: transfer.IfExistsOverwrite, old: map[string]string{"big": "the old file"}},
		{name: "nested directories", files: []file{{"a/b/c/x", 5000, false}, {"a/b/y", 10, false}}, dirs: []string{"a/b/c", "a/b", "a", "empty"}, group: 4, chunk: 4096},
		{name: "holes", files: []file{{"holes", 20_000, true}}, group: 1, chunk: 2500, check: 10_000},
		{name: "reserved", files: []file{{"large", 70_000, false}}, group: 1, chunk: 35_000, check: 35_000},
		{name: "delete-source", files: few, group: 3, chunk: 4096, del: true},
		{name: "delete-source, resumed", files: big, group: 1, chunk: 4000, check: 8000, from: 1, del: true},
		{name: "delete-source, newer at the mark", files: one, group: 1, chunk: 9000, del: true, newer: faulty.CallDeleting},
		{name: "delete-source, newer at the rename", files: one, group: 1, chunk: 9000, del: true, newer: faulty.CallRename},
		{name: "delete-source, newer at the unlink", files: one, group: 1, chunk: 9000, del: true, newer: faulty.CallUnlink},
		{name: "delete-source, newer at the sync", files: one, group: 1, chunk: 9000, del: true, newer: faulty.CallSyncDir},
		{name: "delete-source, plain", files: one, group: 1, chunk: 9000, del: true, plain: true},
		{name: "a consumer", files: few, group: 2, chunk: 4096, consumer: true},
		{name: "one sync", files: few, group: 3, chunk: 2048, one: 2, dirs: []string{"sub"}},
		{name: "one sync, and then by themselves", files: append([]file{{"v", 200, false}, {"sub/w", 1, false}}, few...), group: 2, chunk: 4096, one: 2},
		{name: "one sync, overwrite", files: few, group: 3, chunk: 4096, one: 2, exists: transfer.IfExistsOverwrite, old: map[string]string{"x": "the old file"}},
		{name: "archive", files: few, group: 3, chunk: 4096, archive: true},
		{name: "archive, newer at the rename", files: one, group: 1, chunk: 9000, archive: true, newer: faulty.CallRename},
		{name: "archive, newer at the sync", files: one, group: 1, chunk: 9000, archive: true, newer: faulty.CallSyncDir},
		{name: "archive, plain", files: one, group: 1, chunk: 9000, archive: true, plain: true},
		{name: "one sync, delete-source", files: few, group: 3, chunk: 4096, one: 3, del: true},
		{name: "process", files: few, group: 2, chunk: 2048, process: true},
		{name: "process, checkpoints", files: big, group: 1, chunk: 6000, check: 6000, process: true},
		{name: "records", files: few, group: 3, chunk: 2048, sidecar: map[string]string{"x": fixed, "sub/y": variable, "z": fixed}},
		{name: "records over others", files: few, group: 2, chunk: 2048, exists: transfer.IfExistsOverwrite, sidecar: map[string]string{"x": fixed, "sub/y": variable, "z": fixed},
			old: map[string]string{"x": "the old file", sideOf("x"): variable, "z": "the old z"}},
		{name: "plain files over records", files: few, group: 3, chunk: 2048, exists: transfer.IfExistsOverwrite, sidecar: map[string]string{"x": "", "sub/y": "", "z": variable},
			old: map[string]string{"x": "the old file", sideOf("x"): variable, "z": "the old z", sideOf("z"): variable}},
		{name: "records, link and unlink", files: few, group: 2, chunk: 4096, plain: true, sidecar: map[string]string{"x": fixed, "z": variable}},
		{name: "records, process", files: few, group: 2, chunk: 4096, process: true, sidecar: map[string]string{"x": fixed, "sub/y": fixed}},
		{name: "records, a consumer", files: one, group: 1, chunk: 9000, consumer: true, sidecar: map[string]string{"x": fixed}},
		{name: "members", files: []file{{"LIB/A", 3000, false}, {"LIB/B", 100, false}, {"LIB/C", 0, false}}, group: 2, chunk: 2048, library: fixed},
		{name: "members of a library that is there", files: []file{{"LIB/A", 3000, false}, {"LIB/B", 100, false}}, group: 1, chunk: 2048, library: fixed,
			old: map[string]string{sideOf("LIB"): fixed}},
		{name: "append", files: few, group: 2, chunk: 2048, exists: transfer.IfExistsAppend, old: map[string]string{"x": "what was there", "z": "the old z"}},
		{name: "append, plain", files: few, group: 1, chunk: 2048, exists: transfer.IfExistsAppend, plain: true, old: map[string]string{"x": "what was there"}},
		{name: "append, resumed", files: big, group: 1, chunk: 3000, check: 6000, from: 2, exists: transfer.IfExistsAppend, old: map[string]string{"big": "what was there"}},
		{name: "append, holes", files: []file{{"holes", 20_000, true}}, group: 1, chunk: 2500, check: 10_000, exists: transfer.IfExistsAppend, old: map[string]string{"holes": "what was there"}},
		{name: "append, delete-source", files: few, group: 3, chunk: 4096, del: true, exists: transfer.IfExistsAppend, old: map[string]string{"sub/y": "the old y"}},
		{name: "append, records", files: few, group: 3, chunk: 4096, sidecar: map[string]string{"x": fixed, "sub/y": variable}, exists: transfer.IfExistsAppend,
			old: map[string]string{"x": "the old records", sideOf("x"): fixed, "z": "the old z"}},
		{name: "a set", files: few, set: true, chunk: 2048},
		{name: "a set, with a directory", files: few, dirs: []string{"sub"}, set: true, chunk: 2048, check: 2048},
		{name: "a set, link and unlink", files: few, set: true, chunk: 4096, plain: true},
		{name: "a set, overwrite", files: few, set: true, chunk: 4096, exists: transfer.IfExistsOverwrite, old: map[string]string{"x": "the old file", "z": "the old z"}},
		{name: "a set, append", files: few, set: true, chunk: 4096, exists: transfer.IfExistsAppend, old: map[string]string{"x": "what was there", "sub/y": "the old y"}},
		{name: "a set, delete-source", files: few, set: true, chunk: 4096, del: true, one: 2},
		{name: "a set, a name is taken", files: few, set: true, fails: true, chunk: 4096, old: map[string]string{"z": "the old z"}},
		{name: "a set, a directory's name is taken", files: few, dirs: []string{"d"}, set: true, fails: true, chunk: 4096, old: map[string]string{"d": "a file"}},
		{name: "process, overwrite", files: few, group: 3, chunk: 4096, process: true, exists: transfer.IfExistsOverwrite, old: map[string]string{"x": "the old file"}},
	}
}

// durable is the value of transfer.Request.Durable.
func (w *work) durable() bool { return !w.process || w.del }

// closes returns the number of items that close a group.
func (w *work) closes() int {
	if w.set {
		return w.items()
	}
	return w.group
}

// items returns the number of items; directories come after the files.
func (w *work) items() int { return len(w.files) + len(w.dirs) }

func (w *work) itemName(item int) string {
	if item < len(w.files) {
		return w.files[item].name
	}
	return w.dirs[item-len(w.files)]
}

// lands returns the name under which a file arrives.
func (w *work) lands(name string) string {
	if other, ok := w.other[name]; ok {
		return other
	}
	return name
}

func source(name string) transfer.Path { return transfer.Path("/src/" + name) }

// lay makes the file system before the work begins, all of it durable.
func (w *work) lay(t *testing.T) *faulty.Memory {
	t.Helper()
	// Without syncs, Ferry tells a file that a power cut left incomplete from a stranger's by its time. So the file
	// system must not lose the time alone.
	m := faulty.NewMemory(faulty.MemoryOptions{Plain: w.plain, Ordered: !w.durable()})
	for _, d := range []string{"/src", "/dst", "/src/sub", "/src/a/b/c", "/src/LIB", "/state"} {
		must(t, m.MkdirAll(d))
	}
	for k, f := range w.files {
		must(t, m.WriteFile(string(source(f.name)), w.content(k)))
	}
	for _, name := range sortedKeys(w.old) {
		must(t, m.MkdirAll(path.Dir("/dst/"+name)))
		must(t, m.WriteFile("/dst/"+name, []byte(w.old[name])))
	}
	m.Settle()
	return m
}

func sortedKeys[V any](m map[string]V) (keys []string) {
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// arrives returns the content under the name of file k after its arrival.
func (w *work) arrives(k int) []byte {
	if w.exists == transfer.IfExistsAppend {
		return append([]byte(w.old[w.files[k].name]), w.content(k)...)
	}
	return w.content(k)
}

// whole reports whether content is all of file k.
func (w *work) whole(k int, content []byte) bool { return bytes.Equal(content, w.arrives(k)) }

func (w *work) String() string { return fmt.Sprintf("%q", w.name) }

var strangersFile = []byte("a stranger's file")
