// Package record reads and writes record files: the data sets of z/OS, kept in ordinary files. It knows their
// attributes (RECFM, LRECL, BLKSIZE), their names, and the space that they would take on a 3390. It converts text to
// records and back, bytes to records and back, and records to other records.
//
// The package opens no files. A Converter takes and gives bytes in pieces of any size, and its state can be saved after
// any of them. The package has no code pages of its own. A Page describes the parts of a code page that a conversion
// needs: the blank, the line end, and the control characters of ASA.
//
// # The bytes of a record file
//
//	F, FB   the records, one after the other, each of LRECL bytes; nothing
//	        between them
//	V       each record after a record descriptor word
//	VB      blocks, each of them a block descriptor word and then records,
//	        each after a record descriptor word
//	U       the blocks, each after a block descriptor word
//
//	record descriptor word, 4 bytes
//	  0  2  length of the record, these 4 bytes included; big-endian
//	  2  2  zero (the two low bits of byte 2 are not, in a spanned record)
//	block descriptor word, 4 bytes
//	  0  2  length of the block, these 4 bytes included; big-endian. The first
//	        bit is set in the extended form of the large block interface only
//	  2  2  zero
//
// Both words are those of z/OS DFSMS Using Data Sets (SC23-6855), chapter on record formats. On a disk of z/OS the
// device knows where a block begins and ends; a file does not. Hence two choices of Ferry's. V has no block descriptor
// words: every block holds one record, so they would repeat its length. It is the format of FTP with its option RDW. U
// has one before each block, since the length of a block is its only structure.
//
// LRECL counts the record descriptor word of V and VB, as on z/OS: the data of a record of V has at most LRECL-4 bytes.
// With ASA (an A at the end of RECFM) the first byte of the data says how far the printer moves before it prints the
// rest. Spanned records (VS, VBS) and machine control characters (M) are refused.
//
// # ASA control characters
//
// In text, the characters that end a line become the control character of the next record, and vice versa, as in the C
// library of z/OS (z/OS XL C/C++ Programming Guide, on ASA text files), which MQ MFT uses:
//
//	one line end    ' '     form feed         '1'
//	two             '0'     carriage return   '+'
//	three           '-'
//
// Other combinations take several records, without text. The first record differs from the library's: the library reads
// its ' ' as a line end, so that text would come back with an empty line before it. Here ' ' is no line end there, '0'
// is one and '-' two, so that the text comes back unchanged. The line end at the end of the text is no record, and is
// added again when records become text.
package record
