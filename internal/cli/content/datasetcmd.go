package content

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"ferry/internal/cli/output"
	"ferry/internal/cli/usage"
	"ferry/internal/client/view"
	"ferry/internal/content/record"
	"ferry/internal/node/config"
	"ferry/internal/transfer"
)

// NewDataset makes the command `ferry dataset`.
func NewDataset() *cobra.Command {
	c := &cobra.Command{Use: "dataset", Short: "Look at record files: data sets kept in ordinary files", Args: usage.NoArgs,
		Long: `Shows record files of this host: their RECFM, LRECL and BLKSIZE, their number of
records, and the number of tracks of a 3390 that they would take.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	c.AddCommand(newDatasetLs(), newDatasetShow())
	return c
}

func newDatasetLs() *cobra.Command {
	var dir string
	var asJSON bool
	var limit int
	c := &cobra.Command{Use: "ls", Short: "List the record files beneath a directory, by name", Args: usage.NoArgs,
		Long: `Lists the files beneath a record root that have attributes kept beside them, and
reads each to count its records. A damaged file is listed with its defect, and the
result code is 1.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 {
				return transfer.Errorf(transfer.KindUsage, "--limit %d is out of range; it begins at 1", limit)
			}
			l, err := openDatasets(dir)
			if err != nil {
				return err
			}
			defer l.root.Close()
			return listDatasets(cmd, l, limit, asJSON)
		}}
	c.Flags().StringVar(&dir, "root", ".", "the record root")
	c.Flags().IntVar(&limit, "limit", 1000, "how many at most")
	c.Flags().BoolVar(&asJSON, "json", false, "one JSON object a line")
	config.Never(c, "root") // an agent's FERRY_ROOT may be several
	return c
}

func newDatasetShow() *cobra.Command {
	var dir, recfm string
	var lrecl, blksize int
	var asJSON bool
	c := &cobra.Command{Use: "show NAME", Short: "Show one record file", Args: usage.OneArg("a data set or a file"),
		Long: `Shows one record file. NAME is a data set beneath --root, 'HLQ.NAME' or
'HLQ.LIB(MEMBER)', quoted from the shell as well, or the path of a file. Attributes
are those given with it or with flags, otherwise those kept beside the file.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			given, err := record.FromFlags(recfm, lrecl, blksize)
			if err != nil {
				return err
			}
			e, err := showDataset(args[0], dir, cmd.Flags().Changed("root"), given)
			if err != nil {
				return err
			}
			if asJSON {
				output.JSON(cmd, e)
			} else {
				printEntry(cmd.OutOrStdout(), e)
			}
			if e.Error != nil {
				return e.Error
			}
			return nil
		}}
	c.Flags().StringVar(&dir, "root", ".", "the record root")
	c.Flags().StringVar(&recfm, "recfm", "", "record format: F, FB, V, VB or U, with A for ASA control characters")
	c.Flags().IntVar(&lrecl, "lrecl", 0, "record length, 1 to 32760; of V and VB with the 4 bytes of the descriptor word")
	c.Flags().IntVar(&blksize, "blksize", 0, "block length, at most 32760; 0 has it chosen")
	c.Flags().BoolVar(&asJSON, "json", false, "a JSON object")
	config.Never(c, "root", "recfm", "lrecl", "blksize") // they belong to one file
	return c
}

// datasets are the record files beneath a root.
type datasets struct{ root *os.Root }

func openDatasets(dir string) (*datasets, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, transfer.Errorf(transfer.KindUsage, "record root %s cannot be used: %w", dir, err).WithHint("correct --root")
	}
	return &datasets{root}, nil
}

// nameOf returns the data set of a record file, or its path.
func nameOf(e *view.DatasetEntry) string { return output.Or(e.Dataset, e.Path.String()) }

func listDatasets(cmd *cobra.Command, l *datasets, limit int, asJSON bool) error {
	n, bad, more := 0, 0, false
	err := output.ListOf(cmd, asJSON, "file with attributes of records", []string{"NAME", "RECFM", "LRECL", "BLKSIZE", "BYTES", "RECORDS", "TRACKS"}, func(row output.Row) error {
		return l.each(func(e *view.DatasetEntry) error {
			if n == limit {
				more = true
				return fs.SkipAll
			}
			n++
			records := strconv.FormatInt(e.Records, 10)
			if e.Error != nil {
				bad++
				records = "not sound"
				fmt.Fprintf(cmd.ErrOrStderr(), "ferry: %s: %s\n", output.Printable(nameOf(e)), output.Printable(e.Error.Error()))
			}
			row(e, nameOf(e), e.RECFM, strconv.Itoa(e.LRECL), strconv.Itoa(e.BLKSIZE), strconv.FormatInt(e.Bytes, 10), records, strconv.FormatInt(e.Tracks, 10))
			return nil
		})
	})
	if err != nil {
		return err
	}

	if more {
		fmt.Fprintf(cmd.ErrOrStderr(), "ferry: there are more than %d; --limit shows more\n", limit)
	}

	if bad > 0 {
		return output.Exit(transfer.CodeFailed)
	}
	return nil
}

// each calls fn for each file with attributes, sorted by path. A file or directory that cannot be read is an entry with
// an error.
func (l *datasets) each(fn func(*view.DatasetEntry) error) error {
	return fs.WalkDir(l.root.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return fn(&view.DatasetEntry{Path: transfer.Path(p), Error: unreadable(p, err)})
		}
		if !d.Type().IsRegular() || strings.HasPrefix(d.Name(), ".ferry-") {
			return nil
		}
		s, ok, err := l.sidecar(p)
		if err != nil {
			return fn(&view.DatasetEntry{Path: transfer.Path(p), Error: transfer.AsError(err)})
		}
		if !ok {
			return nil
		}
		return fn(l.look(p, s))
	})
}

// sidecar reads the attributes kept beside a file, or beside its directory where
// that is a partitioned data set.
func (l *datasets) sidecar(p string) (s record.Sidecar, ok bool, err error) {
	for _, of := range []string{p, path.Dir(p)} {
		if of == "." {
			break
		}
		name := record.SidecarPath(of)
		b, err := l.small(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return s, false, unreadable(name, err)
		}
		s, err = record.DecodeSidecar(b)
		return s, err == nil, err
	}
	return s, false, nil
}

// small reads a file, and at most one byte more than a sidecar may have.
func (l *datasets) small(name string) ([]byte, error) {
	f, _, err := l.open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, record.MaxSidecar+1))
}

// open opens a regular file. It refuses others: a pipe would block it.
func (l *datasets) open(name string) (*os.File, int64, error) {
	st, err := l.root.Lstat(name)
	if err != nil {
		return nil, 0, err
	}
	if !st.Mode().IsRegular() {
		return nil, 0, transfer.Errorf(transfer.KindWrongType, "%s is no regular file", transfer.Path(name))
	}
	f, err := l.root.Open(name)
	return f, st.Size(), err
}

// look reads a file and returns its entry.
func (l *datasets) look(p string, s record.Sidecar) *view.DatasetEntry {
	e := &view.DatasetEntry{Path: transfer.Path(p), RECFM: s.RECFM(), LRECL: s.LRECL, BLKSIZE: s.BLKSIZE, Encoding: s.Encoding}
	if d, ok := record.AtPath(p); ok {
		e.Dataset = d.String()
	}

	f, size, err := l.open(p)
	if err != nil {
		e.Error = unreadable(p, err)
		return e
	}
	defer f.Close()

	sum, err := record.Summarize(f, size, s.Attributes)
	e.Bytes, e.Records, e.Shortest, e.Longest, e.Short, e.Blocks = sum.Bytes, sum.Records, sum.Shortest, sum.Longest, sum.Short, sum.Blocks
	e.Tracks, e.Share = sum.Space.Tracks(), sum.Space.Share()
	if err != nil {
		e.Bytes = size
		e.Error = unreadable(p, err)
	}
	return e
}

// unreadable names the file in an error that does not; a sentence about its
// records is kept.
func unreadable(name string, err error) *transfer.Error {
	kind := transfer.KindOf(err)
	var e *transfer.Error
	switch {
	case errors.As(err, &e):
		return e
	case kind == transfer.KindInternal:
		kind = transfer.KindUnreadable
	}
	return transfer.Errorf(kind, "%s cannot be read: %w", transfer.Path(name), err)
}

// showDataset returns the entry of the file that an argument names.
func showDataset(arg, dir string, dirGiven bool, given record.Attributes) (*view.DatasetEntry, error) {
	name := arg
	if record.IsDataset(arg) {
		d, err := record.ParseDataset(arg)
		if err != nil {
			return nil, err
		}
		if !d.Attributes.IsZero() && !given.IsZero() {
			return nil, transfer.Errorf(transfer.KindUsage, "attributes are given twice, with %s and as flags", arg)
		}
		if name = d.Path(); given.IsZero() {
			given = d.Attributes
		}
	} else if !dirGiven { // any file of the host
		abs, err := filepath.Abs(arg)
		if err != nil {
			return nil, transfer.Errorf(transfer.KindUsage, "%s: %w", arg, err)
		}
		dir = filepath.VolumeName(abs) + string(filepath.Separator)
		if name, err = filepath.Rel(dir, abs); err != nil {
			return nil, transfer.Errorf(transfer.KindUsage, "%s: %w", arg, err)
		}
	}

	l, err := openDatasets(dir)
	if err != nil {
		return nil, err
	}
	defer l.root.Close()

	name = path.Clean(filepath.ToSlash(name))
	if st, err := l.root.Lstat(name); err != nil {
		return nil, unreadable(arg, err)
	} else if st.IsDir() {
		return nil, transfer.Errorf(transfer.KindWrongType, "%s is a directory, which is a partitioned data set at most", transfer.Path(arg)).
			WithHint("name a member, 'HLQ.LIB(MEMBER)'; `ferry dataset ls` lists them")
	}

	s := record.Sidecar{}
	if given.IsZero() {
		var ok bool
		if s, ok, err = l.sidecar(name); err != nil {
			return nil, err
		} else if !ok {
			return nil, transfer.Errorf(transfer.KindUsage, "no attributes are kept beside %s", transfer.Path(arg)).WithHint("give them: --recfm FB --lrecl 80")
		}
	} else if s.Attributes, err = given.Resolve(); err != nil {
		return nil, err
	}

	e := l.look(name, s)
	if !record.IsDataset(arg) {
		e.Path = transfer.Path(arg) // as it was asked for
	}
	return e, nil
}

// printEntry writes an entry as text.
func printEntry(w io.Writer, e *view.DatasetEntry) {
	records := fmt.Sprintf("%d, of %d to %d bytes", e.Records, e.Shortest, e.Longest)
	switch {
	case e.Records == 0:
		records = "none"
	case e.Short:
		records += ", the last one cut short"
	}

	if e.Error != nil {
		records += ", then it is not sound"
	}

	attributes := record.Attributes{LRECL: e.LRECL, BLKSIZE: e.BLKSIZE}
	attributes.Format, attributes.ASA, _ = record.ParseRECFM(e.RECFM)
	rows := [][]string{{"name", nameOf(e)}, {"path", e.Path.String()}, {"attributes", attributes.String()}, {"code page", output.Or(e.Encoding, "-")},
		{"bytes", strconv.FormatInt(e.Bytes, 10)}, {"records", records}, {"blocks", strconv.FormatInt(e.Blocks, 10)},
		{"tracks of a 3390", fmt.Sprintf("%d, %.1f of them filled", e.Tracks, e.Share)}}
	output.Table(w, rows)
}
