package bench

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"

	"ferry/internal/content/digest"
	"ferry/internal/content/record"
	"ferry/internal/transfer"
)

// Kinds of content.
const (
	Random = "random" // cannot be compressed
	Prose  = "prose"  // lines of words, compressible to about a third
)

// A FileSet has files of one size beneath one directory. Its parts, at most ten, are directories themselves, so that
// several transfers can each take one. A file's name is PART/NAME.
type FileSet struct {
	Dir   string // the set's own directory; its base is the set's name
	Size  int64  // of each file, in bytes; for texts see MakeTexts
	Parts []string
	Names []string
	sums  map[string]string // of the copies, by name
	bytes int64             // of all files
}

// MaxParts is the most parts of a set.
const MaxParts = 10

// MakeFiles makes a set of count files. The same arguments make the same bytes.
func MakeFiles(dir string, count int, size int64, content string) (*FileSet, error) {
	s := &FileSet{Dir: dir, Size: size, sums: map[string]string{}}
	parts := min(count, MaxParts)
	for p := range parts {
		s.Parts = append(s.Parts, fmt.Sprint(p))
		if err := os.MkdirAll(filepath.Join(dir, s.Parts[p]), 0o755); err != nil {
			return nil, unwritable(dir, err)
		}
	}

	for i := range count {
		name := fmt.Sprintf("%d/f%06d", i%parts, i)
		sum, err := makeFile(filepath.Join(dir, name), uint64(i), size, content)
		if err != nil {
			return nil, err
		}
		s.Names, s.bytes = append(s.Names, name), s.bytes+size
		s.sums[name] = sum
	}
	return s, nil
}

func unwritable(path string, err error) error {
	return transfer.Errorf(transfer.KindOf(err), "files to measure with cannot be made in %s: %w", path, err).
		WithHint("give --dir a directory with more space, or a smaller --total")
}

func makeFile(path string, seed uint64, size int64, content string) (sum string, err error) {
	f, err := os.Create(path)
	if err != nil {
		return "", unwritable(path, err)
	}

	defer func() {
		if e := f.Close(); err == nil && e != nil {
			err = unwritable(path, e)
		}
	}()

	h := digest.XXH3.New()
	w := bufio.NewWriterSize(io.MultiWriter(f, h), 256<<10)
	if content == Prose {
		err = writeProse(w, seed, size)
	} else {
		var key [32]byte
		key[0], key[1], key[2] = byte(seed), byte(seed>>8), byte(seed>>16)
		_, err = io.CopyN(w, rand.NewChaCha8(key), size)
	}
	if err == nil {
		err = w.Flush()
	}
	if err != nil {
		return "", unwritable(path, err)
	}
	return digest.XXH3.Sum(h), nil
}

// words are the words of prose. Numbers follow them, so that the text does not repeat itself.
var words = []string{"account", "amount", "balance", "branch", "credit", "date", "debit", "entry", "interest", "ledger",
	"note", "number", "office", "order", "payment", "rate", "reference", "statement", "transfer", "value"}

func writeProse(w *bufio.Writer, seed uint64, size int64) error {
	r := rand.New(rand.NewPCG(seed, 1))
	var line []byte
	for left := size; left > 0; left -= int64(len(line)) {
		line = line[:0]
		for range 8 {
			line = fmt.Appendf(line, "%s %d ", words[r.IntN(len(words))], r.IntN(1000))
		}
		line = append(line, '\n')
		line = line[:min(int64(len(line)), left)]
		if _, err := w.Write(line); err != nil {
			return err
		}
	}
	return nil
}

// Name returns the set's name: the base of its directory.
func (s *FileSet) Name() string { return filepath.Base(s.Dir) }

// Bytes returns the bytes of all files.
func (s *FileSet) Bytes() int64 { return s.bytes }

// Verify compares a copy of the whole set, in the directory dir, with the expected one: the number of files, and the
// digest of each. Ferry's sidecars beside record files do not count.
func (s *FileSet) Verify(dir string) error {
	found := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || record.IsSidecar(d.Name()) {
			return err
		}
		found++
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		return s.verify(path, filepath.ToSlash(name))
	})
	if err != nil {
		return err
	}

	if found != len(s.Names) {
		return transfer.Errorf(transfer.KindDigest, "%d of %d files of %s arrived in %s", found, len(s.Names), s.Name(), dir)
	}
	return nil
}

func (s *FileSet) verify(path, name string) error {
	want, ok := s.sums[name]
	if !ok {
		return transfer.Errorf(transfer.KindDigest, "%s arrived, which is no file of the set %s", path, s.Name())
	}

	f, err := os.Open(path)
	if err != nil {
		return transfer.Errorf(transfer.KindOf(err), "the copy %s cannot be checked: %w", path, err)
	}
	defer f.Close()

	h := digest.XXH3.New()
	if _, err := io.CopyBuffer(h, readerOnly{f}, make([]byte, 256<<10)); err != nil {
		return transfer.Errorf(transfer.KindOf(err), "the copy %s cannot be checked: %w", path, err)
	}

	if got := digest.XXH3.Sum(h); got != want {
		return transfer.Errorf(transfer.KindDigest, "the copy %s differs from its source: %s, not %s", path, got, want)
	}
	return nil
}

// readerOnly hides everything but Read, so that io.CopyBuffer uses its buffer.
type readerOnly struct{ io.Reader }
