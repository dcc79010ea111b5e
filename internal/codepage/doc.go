// Package codepage converts text from one code page to another, and its line
// ends with it.
//
// A Page is what a name such as IBM-1047, Cp1047 or UTF-8 means (Lookup). A
// Converter takes the source's bytes in order, in pieces of any size, and
// appends the destination's. Between two pieces it is wholly described by its
// State, which is small and goes into a checkpoint: a converter made by Resume
// from a State continues as if there had been no stop, whatever byte the stop
// was at, in the middle of a character included.
//
// Nothing is changed unseen. Bytes that are no character of the source's page,
// and characters that the destination's page lacks, end the conversion with a
// Fault that names the offset, the line and the bytes, unless a replacement is
// configured. Only characters that a page's own table gives two encodings are
// written in the preferred one.
//
// Line ends are LF, CR LF and, from an EBCDIC page, NL (0x15); they may be
// mixed, and each becomes the destination's. A CR that no LF or NL follows is a
// character. A text that does not end in a line end still does not.
//
// The tables are those of golang.org/x/text and, for the pages that it lacks,
// those of the C library's iconv and of a Java runtime, from which generate.go
// made them. The tests compare them with other authorities (ICU, Python) and know
// each difference; docs/text-and-records.md explains them.
package codepage
