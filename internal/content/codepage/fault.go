package codepage

import (
	"fmt"
	"strconv"
	"unicode"

	"ferry/internal/transfer"
)

// A Fault is text that cannot be converted: the bytes are no character of the source's page, or the destination's page
// lacks the character. It is the cause of an error of kind transfer.KindUnmappable.
type Fault struct {
	Offset int64  // of the first of Bytes in the source, from 0
	Line   int64  // from 1
	Bytes  []byte // of the source; at most four
	Char   rune   // their character in the source's page; -1: none
	Page   string // the source's if Char is -1, otherwise the destination's
	Reason Reason
}

// A Reason is the kind of a Fault.
type Reason uint8

// The reasons.
const (
	NotInPage   Reason = iota // the destination's page lacks the character
	NoCharacter               // the bytes are no character of the source's page
	CutShort                  // the text ends within a character
	LoneShift                 // a shift-out without the shift-in that must end it
	OtherOrder                // the byte-order mark is that of the other byte order
	LoneEscape                // an escape sequence to characters of two bytes without the one that must end them
)

func (f *Fault) Error() string {
	at := fmt.Sprintf("at offset %d (line %d)", f.Offset, f.Line)
	switch f.Reason {
	case NotInPage:
		shown := ""
		if unicode.IsGraphic(f.Char) && f.Char != ' ' {
			shown = " " + strconv.QuoteRune(f.Char)
		}
		return fmt.Sprintf("character U+%04X%s %s, bytes %X, is not in code page %s", f.Char, shown, at, f.Bytes, f.Page)
	case CutShort:
		return fmt.Sprintf("the text ends within a character of code page %s %s, bytes %X", f.Page, at, f.Bytes)
	case LoneShift:
		return fmt.Sprintf("a shift-out (0E) has no shift-in (0F) before the text or its line ends %s; code page %s needs one", at, f.Page)
	case LoneEscape:
		return fmt.Sprintf("characters of two bytes are not ended by an escape sequence to ASCII (1B2842) before the text or its line ends %s; code page %s needs one", at, f.Page)
	case OtherOrder:
		return fmt.Sprintf("the byte-order mark %X at the beginning is that of the other byte order than code page %s", f.Bytes, f.Page)
	}
	return fmt.Sprintf("bytes %X %s are no character of code page %s", f.Bytes, at, f.Page)
}

// failure returns the error that ends a conversion.
func (f *Fault) failure() error {
	hint := "correct the source, name the code page that it is in, or give a replacement"
	if f.Reason == NotInPage {
		hint = "choose a code page that has it, or give a replacement"
	}
	return transfer.Errorf(transfer.KindUnmappable, "%w", f).WithHint(hint)
}
