// Package codepage converts text from one code page to another, and its line ends with it.
//
// Lookup finds a Page by a name such as IBM-1047, Cp1047 or UTF-8. A Converter takes the source's bytes in order, in
// pieces of any size, and appends the destination's. Between two pieces its State describes it completely; the State is
// small and goes into a checkpoint. A converter made by Resume from a State continues as if there had been no stop,
// even in the middle of a character.
//
// No text is changed silently. Bytes that are no character of the source's page, and characters that the destination's
// page lacks, end the conversion with a Fault, unless a replacement is configured. The Fault has the offset, the line
// and the bytes. Only characters that a page's own table gives two encodings are written in the preferred one.
//
// Line ends are LF, CR LF and, from an EBCDIC page, NL (0x15); they may be mixed, and each becomes the destination's. A
// CR that no LF or NL follows is a character. A text that does not end in a line end still does not.
//
// The tables are those of golang.org/x/text. For the pages that it lacks, generate.go made them from the C library's
// iconv and a Java runtime. The tests compare them with other authorities (ICU, Python) and list each difference;
// docs/text-and-records.md explains them.
package codepage
