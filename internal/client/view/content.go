package view

import (
	"encoding/hex"
	"strings"

	"ferry/internal/content/codepage"
	mftconfig "ferry/internal/mft/config"
	"ferry/internal/transfer"
)

// A CodePageRow is a code page.
type CodePageRow struct {
	Name     string   `json:"name"`
	Aliases  []string `json:"aliases"`
	About    string   `json:"about"`
	EBCDIC   bool     `json:"ebcdic"`
	MinBytes int      `json:"min_bytes"` // of a character
	MaxBytes int      `json:"max_bytes"`
	Shifts   bool     `json:"shifts"`  // shift-out and shift-in around characters of two bytes
	Newline  string   `json:"newline"` // bytes in hexadecimal
	Blank    string   `json:"blank"`
}

// CodePageOf returns the form of a code page.
func CodePageOf(p *codepage.Page) *CodePageRow {
	r := &CodePageRow{Name: p.Name(), Aliases: p.Aliases(), About: p.About(), EBCDIC: p.EBCDIC(), Shifts: p.Shifts(),
		Newline: strings.ToUpper(hex.EncodeToString(p.Newline())), Blank: strings.ToUpper(hex.EncodeToString(p.Blank()))}
	r.MinBytes, r.MaxBytes = p.Width()
	return r
}

// A DatasetEntry is a record file. Lengths are of the records' data.
type DatasetEntry struct {
	Dataset  string          `json:"dataset,omitempty"` // of a path that is a data set's
	Path     transfer.Path   `json:"path"`              // beneath the root, or as it was given
	RECFM    string          `json:"recfm,omitempty"`
	LRECL    int             `json:"lrecl,omitempty"`
	BLKSIZE  int             `json:"blksize,omitempty"`
	Encoding string          `json:"encoding,omitempty"`
	Bytes    int64           `json:"bytes"`
	Records  int64           `json:"records"`
	Shortest int             `json:"shortest"`
	Longest  int             `json:"longest"`
	Short    bool            `json:"short_last_record,omitempty"`
	Blocks   int64           `json:"blocks"`
	Tracks   int64           `json:"tracks"`
	Share    float64         `json:"tracks_share"` // the last track by the part that is taken
	Error    *transfer.Error `json:"error,omitempty"`
}

// An ImportLine is the outcome for one object of a configuration of IBM MQ MFT, or for a file made of it.
type ImportLine struct {
	MessageType string `json:"message_type"` // import
	mftconfig.Note
}

// ImportOf returns the form of an outcome of an import.
func ImportOf(n mftconfig.Note) ImportLine { return ImportLine{TypeImport, n} }
