//go:build linux

package disk_test

import (
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ferry/internal/transfer"
)

// of makes a row of one name.
func of(what, name string) shape { return shape{name: what, names: []string{name}} }

// inCase returns the error of a name that exists in another spelling.
func inCase(name, as string) said {
	return said{transfer.KindExists, "DST/" + name + " exists already as " + as +
		": the names differ only in case, and this file system takes them for one; send it to another directory, or under another name"}
}

var shapes = []shape{
	of("an ordinary name", "report 2024.txt"),
	of("a space before", " before"),
	of("a space behind", "behind "),
	of("a point behind", "behind."),
	of("only a space", " "),
	of("a hidden name", ".hidden"),
	of("three points", "..."),
	of("points before", "..before"),
	of("a name like an option", "-rf"),
	of("a name like a long option", "--delete-source"),
	of("one dash", "-"),
	of("a new line", "two\nlines"),
	of("a new line at the end", "line\n"),
	of("a carriage return", "a\rb"),
	of("a tabulator", "a\tb"),
	of("an escape sequence", "\x1b[31mred\x1b[0m"),
	of("a bell and a delete", "\a\x7f"),
	of("every control character", "\x01\x02\x03\x04\x05\x06\x0b\x0c\x0e\x0f\x10\x1f"),
	of("a single quote", "it's"),
	of("a double quote", `a "name"`),
	of("a back quote", "`id`"),
	of("a back slash", `a\b`),
	of("a way up on Windows", `..\..\up`),
	of("a variable", "$HOME ${x} %PATH%"),
	of("a command", "$(id); rm -rf . &"),
	of("a tilde", "~"),
	of("an exclamation mark", "!!"),
	of("a hash", "#1"),
	of("an asterisk", "*"),
	of("two asterisks", "**"),
	of("a question mark", "?"),
	of("brackets", "[a-z]"),
	of("braces", "{a,b}"),
	of("a percent sign", "100%"),
	of("what looks like an escape of a path", "%41%2F%00"),
	of("a colon", "a:b"),
	of("a drive of Windows", "C:"),
	of("an agent and a path", "ALPHA:in"),
	of("signs that Windows forbids", `<>|"*?`),
	of("names that Windows reserves", "CON"),
	of("a device of Windows with an extension", "nul.txt"),
	of("a port of Windows", "COM1"),
	of("a number", "0"),
	of("JSON", `{"a":[1,null]}`),
	of("XML", `<a b="c">&amp;<b>`),
	of("an emoji", "🚀"),
	of("emojis joined", "👩‍👩‍👧‍👦"),
	of("a right-to-left override", "abc\u202egpj.exe"),
	of("a name of zero width", "\u200b"),
	of("a byte order mark", "\ufeffname"),
	of("a composed letter", "caf\u00e9"),
	of("a decomposed letter", "cafe\u0301"),
	of("Hangul", "한글"),
	of("a byte of Latin-1", "caf\xe9"),
	of("bytes that are no text", "\xff\xfe\xfd"),
	of("an overlong slash", "a\xc0\xafb"),
	of("a surrogate", "\xed\xa0\x80"),
	of("255 letters", strings.Repeat("n", 255)),
	of("255 bytes of three-byte letters", strings.Repeat("日", 85)),
	of("255 bytes that are no text", strings.Repeat("\xff", 255)),
	of("nearly a name of Ferry's own", ".ferry"),
	of("a name like a temporary's", "ferry-0.part"),

	{name: "a composed and a decomposed letter", names: []string{"\u00e9", "e\u0301"}},
	// Scenario 24, where the file system folds case.
	{name: "names that differ in case", names: []string{"README", "ReadMe", "other"}, whole: true,
		fold: &shape{lacks: []string{"ReadMe"}, said: []said{inCase("ReadMe", "README")}}},
	{name: "names that differ in case, to be replaced", names: []string{"README", "ReadMe", "readme", "other"}, whole: true, flags: overwrite,
		fold: &shape{lacks: []string{"ReadMe", "readme"}, said: []said{inCase("ReadMe", "README"), inCase("readme", "README")}}},
	{name: "names that differ in the case of other letters", names: []string{"É", "é", "K", "\u212a"}, whole: true, flags: overwrite,
		fold: &shape{lacks: []string{"é", "\u212a"}, said: []said{inCase("é", "É"), inCase("\u212a", "K")}}},
	{name: "directories that differ in case", names: []string{"D/x", "d/x", "d/y"}, whole: true,
		fold: &shape{lacks: []string{"d"}, said: []said{inCase("d", "D"), inCase("d", "D"), inCase("d", "D")}}},
	{name: "directories that differ in case, to be replaced", names: []string{"D/x", "d/x", "d/y"}, whole: true, flags: overwrite,
		fold: &shape{lacks: []string{"d"}, said: []said{inCase("d", "D"), inCase("d", "D"), inCase("d", "D")}}},
	{name: "a directory and a file that differ in case", names: []string{"A/x", "a"}, whole: true, flags: overwrite,
		fold: &shape{lacks: []string{"a"}, said: []said{{transfer.KindWrongType, "DST/a is a directory; a file cannot take its place; choose another destination"}}}},
	{name: "names of Ferry's own", names: []string{".ferry-x", "y/.ferry-0.part", "z"}, whole: true, check: kept("z", "y")},

	{name: "no bytes", build: func(b *shaping) { b.file("f", 0) }},
	{name: "one byte", build: func(b *shaping) { b.file("f", 1) }},
	{name: "sizes around those at which things change", build: func(b *shaping) {
		for _, size := range []int64{511, 512, 513, 4095, 4096, 4097, 64<<10 - 1, 64 << 10, 64<<10 + 1, 256<<10 - 1, 256 << 10, 256<<10 + 1, mib - 1, mib, mib + 1} {
			b.file(fmt.Sprint(size), size)
		}
	}},
	{name: "2,000 files", build: func(b *shaping) {
		for k := range 2000 {
			b.file(fmt.Sprintf("%04d", k), int64(k%7))
		}
	}},
	{name: "a directory 100 deep", names: []string{strings.Repeat("d/", 100) + "f"}, whole: true},
	{name: "a path of 3,800 bytes", names: []string{strings.Repeat(strings.Repeat("d", 189)+"/", 20) + "f"}, whole: true},
	{name: "a path that is too long", build: (*shaping).tooDeep, check: func(_, dst *shaped) { dst.stat("f") }},
	{name: "empty directories", build: func(b *shaping) { b.mkdir("a/b/c", 0o755); b.mkdir("z", 0o755) }},
	{name: "modes of files", build: func(b *shaping) {
		for _, mode := range []os.FileMode{0o400, 0o444, 0o600, 0o755, 0o777, 0o666, 0o711} {
			name := fmt.Sprintf("%o", mode)
			b.file(name, 100)
			must(b.t, os.Chmod(b.dir+"/"+name, mode))
		}
	}},
	{name: "modes of directories", build: func(b *shaping) {
		for _, mode := range []os.FileMode{0o700, 0o755, 0o777, 0o750} {
			b.file(fmt.Sprintf("%o/f", mode), 100)
			b.mkdir(fmt.Sprintf("%o", mode), mode)
		}
	}},
	{name: "bits that are not for others to have", build: func(b *shaping) {
		b.file("f", 100)
		must(b.t, unix.Chmod(b.dir+"/f", 0o6755))
	}, check: func(_, dst *shaped) {
		if st := dst.stat("f"); st.Mode&0o7777 != 0o755 {
			dst.t.Errorf("f has mode %o", st.Mode)
		}
	}},
	{name: "times", build: func(b *shaping) {
		for k, when := range []time.Time{time.Unix(0, 0), time.Unix(-1_000_000_000, 999_999_999), time.Unix(0, 1), time.Date(2038, 1, 19, 3, 14, 8, 0, time.UTC), time.Date(2200, 1, 1, 0, 0, 0, 123_456_789, time.UTC)} {
			b.file(fmt.Sprint(k), 10)
			must(b.t, os.Chtimes(fmt.Sprint(b.dir, "/", k), when, when))
		}
	}},

	{name: "a file of holes", build: func(b *shaping) { b.holes("f", 100*mib, 0, 50*mib, 100*mib-1) }, check: sparse},
	{name: "a hole at the end", build: func(b *shaping) { b.holes("f", 20*mib, 0) }, check: sparse},
	{name: "a hole at the beginning", build: func(b *shaping) { b.holes("f", 20*mib, 20*mib-1) }, check: sparse},
	{name: "nothing but a hole", build: func(b *shaping) { b.holes("f", 20*mib) }, check: sparse},
	{name: "more than 4 GiB, nearly all of it holes", build: func(b *shaping) { b.holes("f", 5<<30, 0, 1<<32-1, 1<<32, 5<<30-1) }, check: sparse},
	{name: "space that was reserved and not written", build: func(b *shaping) {
		b.open("f", func(f *os.File) error { return syscall.Fallocate(int(f.Fd()), 0, 0, 8*mib) })
	}},
	{name: "zeros that were written", build: func(b *shaping) { must(b.t, os.WriteFile(b.dir+"/f", make([]byte, 8*mib), 0o644)) }},
	{name: "two names of one file", build: func(b *shaping) { b.file("f", 5000); must(b.t, os.Link(b.dir+"/f", b.dir+"/g")) },
		check: func(src, dst *shaped) {
			if dst.stat("f").Nlink != 1 || dst.stat("g").Nlink != 1 || dst.stat("f").Size != 5000 || dst.stat("g").Size != 5000 {
				dst.t.Error("the two names have not become two files")
			}
		}},
	{name: "links", build: func(b *shaping) {
		b.file("f", 100)
		b.file("dir/g", 100)
		for name, to := range map[string]string{"to-file": "f", "to-nothing": "gone", "to-directory": "dir", "to-itself": "to-itself", "up": "../..", "out": "/etc"} {
			must(b.t, os.Symlink(to, b.dir+"/"+name))
		}
	}, check: kept("f", "dir", "dir/g")},
	{name: "a pipe and a socket", build: func(b *shaping) {
		b.file("f", 100)
		must(b.t, syscall.Mkfifo(b.dir+"/pipe", 0o644))
		l, err := net.Listen("unix", b.n.Path("ALPHA", "s"))
		must(b.t, err)
		defer l.Close()
		must(b.t, os.Link(b.n.Path("ALPHA", "s"), b.dir+"/socket"))
	}, lacks: []string{"pipe", "socket"}, said: []said{{transfer.KindWrongType, "source SRC/pipe" + notSent}, {transfer.KindWrongType, "source SRC/socket" + notSent}}},
}

// holes makes a sparse file with a byte at each of the offsets.
func (b *shaping) holes(name string, size int64, bytes ...int64) {
	b.t.Helper()
	b.open(name, func(f *os.File) error {
		for _, at := range bytes {
			if _, err := f.WriteAt([]byte{'x'}, at); err != nil {
				return err
			}
		}
		return f.Truncate(size)
	})
}

// sparse expects a file with holes to have arrived with holes.
func sparse(src, dst *shaped) {
	dst.t.Helper()
	a, b := src.stat("f"), dst.stat("f")
	if a.Size != b.Size || b.Blocks*512 > a.Blocks*512+mib {
		dst.t.Errorf("%d bytes on %d arrived as %d on %d", a.Size, a.Blocks*512, b.Size, b.Blocks*512)
	}
	sameHoles(src, dst, a.Size)
}

// sameHoles compares the data between the holes of two files.
func sameHoles(src, dst *shaped, size int64) {
	dst.t.Helper()
	var files [2]*os.File
	for i, s := range []*shaped{src, dst} {
		f, err := os.Open(s.dir + "/f")
		must(dst.t, err)
		defer f.Close()
		files[i] = f
	}
	var x, y [64 << 10]byte
	for at := int64(0); at < size; {
		next := size
		for _, f := range files {
			if data, err := unix.Seek(int(f.Fd()), at, unix.SEEK_DATA); err == nil {
				next = min(next, data)
			}
		}
		if next == size {
			return // only holes follow
		}
		n := min(int64(len(x)), size-next)
		_, err := files[0].ReadAt(x[:n], next)
		must(dst.t, err)
		_, err = files[1].ReadAt(y[:n], next)
		must(dst.t, err)
		if x != y {
			dst.t.Errorf("the files differ between %d and %d", next, next+n)
			return
		}
		at = next + n
	}
}

// tooDeep makes a file with a path too long for system calls, in a directory with a short enough path.
func (b *shaping) tooDeep() {
	b.t.Helper()
	b.file("f", 100)
	at := b.dir
	for len(at) < 3850 {
		at += "/" + strings.Repeat("d", min(200, 3850-len(at)))
	}
	must(b.t, os.MkdirAll(at, 0o755))
	fd, err := unix.Open(at, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(b.t, err)
	defer unix.Close(fd)
	file, err := unix.Openat(fd, long[:255], unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
	must(b.t, err)
	must(b.t, unix.Close(file))
	b.said = []said{{transfer.KindUnreadable, fmt.Sprintf("a source beneath %.200s… has a path of %d bytes; the limit is 4096", at, len(at)+256)}}
}
