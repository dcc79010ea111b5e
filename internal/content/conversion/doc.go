// Package conversion plans and does the conversion of a file's content: of code pages and line ends (package codepage),
// of records (package record), or of both in turn.
//
// Check checks a request by itself. The source's agent adds its knowledge of a file, its Form. The destination's agent
// makes the Plan from the request, the Form and the Target. If the content must change, it makes a Pipeline, which
// takes the source's bytes in pieces of any size and gives the destination's. Between two pieces a checkpoint needs
// only the pipeline's State.
//
//	source      destination   text mode                               binary mode
//	bytes       bytes         code page                               as they are
//	bytes       records       code page, text to records              cut into records
//	records     bytes         records to text, code page              the records' data
//	records     records       records to text, code page, to records  record by record
//
// If both sides have the same code page, the pipeline only searches for line ends, and changes no bytes if they are
// right already: such text costs as much as plain bytes.
package conversion
