package cli

import (
	"github.com/spf13/pflag"

	"ferry/internal/transfer"
)

// contentFlags are the flags of ferry send that convert the content of files.
type contentFlags struct {
	fromEncoding, toEncoding, eol, replace, longLines string
	keepBlanks                                        bool
	to, from                                          recordFlags
}

// recordFlags are the attributes of one side's records.
type recordFlags struct {
	recfm          string
	lrecl, blksize int
}

func (f *contentFlags) add(fl *pflag.FlagSet) {
	fl.StringVar(&f.fromEncoding, "from-encoding", "", "code page of the source, in text mode (default: the source agent's)")
	fl.StringVar(&f.toEncoding, "to-encoding", "", "code page of the destination, in text mode (default: the destination agent's)")
	fl.StringVar(&f.eol, "eol", "", "line ends at the destination, in text mode: lf, crlf or nl (default: the destination's)")
	fl.StringVar(&f.replace, "replace", "", "replacement for text that cannot be converted (default: the file fails)")
	fl.StringVar(&f.to.recfm, "recfm", "", "records at the destination: F, FB, V, VB or U, with an A at the end for ASA")
	fl.IntVar(&f.to.lrecl, "lrecl", 0, "their length, 1 to 32760 bytes")
	fl.IntVar(&f.to.blksize, "blksize", 0, "length of their blocks; 0 chooses it")
	fl.StringVar(&f.from.recfm, "from-recfm", "", "records of the source (default: the attributes kept beside it, in text mode and for data sets)")
	fl.IntVar(&f.from.lrecl, "from-lrecl", 0, "their length")
	fl.IntVar(&f.from.blksize, "from-blksize", 0, "length of their blocks")
	fl.StringVar(&f.longLines, "long-lines", "", "lines that are longer than a record: wrap, truncate or fail (default wrap)")
	fl.BoolVar(&f.keepBlanks, "keep-trailing-blanks", false, "keep the blanks at the end of fixed records that become text")
}

func (f *contentFlags) content() transfer.Content {
	return transfer.Content{FromEncoding: f.fromEncoding, ToEncoding: f.toEncoding, EOL: f.eol, Replace: f.replace,
		FromRecords: f.from.records(), ToRecords: f.to.records(), LongLines: f.longLines, KeepBlanks: f.keepBlanks}
}

func (f *recordFlags) records() transfer.Records {
	return transfer.Records{RECFM: f.recfm, LRECL: f.lrecl, BLKSIZE: f.blksize}
}
