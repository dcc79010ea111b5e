// Package audit is the record of who moved what, when, and how it ended.
//
// Agents write Records and number them (agent, incarnation, n) in one ledger
// transaction with the outcome they speak of. They send them in a Batch until
// coordination answers with a Receipt. Coordination appends them to a Log: one
// writer, one directory, records in the order of their numbers without gaps,
// and over them the Merkle tree of RFC 6962, whose size and root anyone may
// keep as a Checkpoint and hold against the Log later.
//
// # Who has signed it
//
// In a network with identities each Batch has its agent's signature, a seal (package witness
// says over what). A Log puts it behind the batch's records, as a record of coordination's own
// with the event "sealed": the field "seal" has the agent, its ledger's incarnation, the floor,
// the number of the first record and the count, all as they were signed; "bound", the index of
// the record that says whose key it is; "signature"; and in "others" the leaves of those of the
// batch's records that are not right before it, with their places in the batch. A record with
// the event "bound" has in "binding" a witness.Binding. Both are leaves as others are.
//
// # A directory on disk
//
// All integers are big-endian; crc32c is CRC-32 (Castagnoli).
//
//	lock      empty; the writer holds the operating system's lock on it
//	records   header, then one frame for each record
//	index     header, then one 32-byte cell for each record
//	hashes    header, then one 32-byte hash for each stored node of the tree
//	state     header, then one frame; replaced as a whole
//
// Each file but the lock begins with a header of 32 bytes:
//
//	 0  8  magic: "FerryRec", "FerryIdx", "FerryHsh", "FerrySta"
//	 8  4  version, 2
//	12  8  the log's own incarnation, random, the same in all its files
//	20  8  zero
//	28  4  crc32c of the 28 bytes before
//
// A frame:
//
//	0  4  length n of the content, 1 to 1 MiB
//	4  4  crc32c of the length's 4 bytes and the content
//	8  n  the content: the JSON, one line, no line end
//
// In records the content is the JSON as one zstd frame (RFC 8878) with its content size and the
// dictionary vocabulary.txt, where that is shorter than the JSON. A zstd frame begins with
// 28 b5 2f fd, which no JSON begins with. The JSON has at most 1 MiB. Hashes and seals cover the
// JSON, not the compressed bytes.
//
// A cell of the index tells where a record is and what is looked for most:
//
//	 0   8  offset of its frame in records
//	 8  16  transfer ID, zero if it has none
//	24   8  its time, milliseconds since 1970, signed
//
// The hashes are in the order of tlog.StoredHashIndex; a leaf is the SHA-256 of
// a zero byte and the record's JSON. The state is the JSON of a size, its root,
// where that record ends, and what each agent had in the log by then. It saves
// reading all records at a start, and it is a checkpoint that a Log remembers
// of itself.
//
// # Order, and what a crash leaves
//
// An append writes and syncs records; then it writes index and hashes, in this
// order, and syncs both; then it is receipted. So what index or hashes cover was
// durable in records, and records that neither covers were never receipted. A
// start that finds the last frames of records torn, and not covered, cuts them
// off; it fills what index and hashes lack from records. It refuses to start on
// anything that no crash explains, and where records has lost its end although
// index, hashes or state knew it (a disk that lied, a restored copy) it says so
// in the log with a "gap" record, and goes on.
package audit
