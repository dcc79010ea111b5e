// Package conversion decides what becomes of a file's content on its way, and
// does it: code pages and line ends (package codepage), records (package record),
// or both in a row.
//
// Check says whether what a request asks for makes sense by itself. The source's
// agent adds what it knows of a file, its Form; the destination's agent makes the
// Plan of the three and, where something is to be done, a Pipeline, which takes
// the source's bytes in pieces of any size and gives the destination's. Between
// two pieces the pipeline's State is all that a checkpoint needs.
//
//	source      destination   text mode                               binary mode
//	bytes       bytes         code page                               as they are
//	bytes       records       code page, text to records              cut into records
//	records     bytes         records to text, code page              the records' data
//	records     records       records to text, code page, to records  record by record
//
// Where both sides have one code page, only line ends are looked at, and nothing
// where they are right already: such text costs what bytes cost.
package conversion
