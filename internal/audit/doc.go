// Package audit is the record of every transfer: its user, its files, its times and its outcomes.
//
// Agents write Records and number them (agent, incarnation, n) in the same ledger transaction as the outcomes. They
// send them in a Batch until coordination answers with a Receipt. Coordination appends them to a Log: one writer, one
// directory, records in the order of their numbers without gaps. A Log has the Merkle tree of RFC 6962 over its
// records. Anyone may keep its size and root as a Checkpoint and compare it with the Log later.
//
// # Seals
//
// In a network with identities each Batch has its agent's signature, a seal. Package witness defines the signed bytes.
// A Log puts the seal after the batch's records, as a record of coordination's own with the event "sealed". Its fields:
//
//   - "seal" has the agent, its ledger's incarnation, the floor, the number of the first record and the count, all as
//     signed
//   - "bound" is the index of the record that names the owner of the key
//   - "signature" is the signature
//   - "others" has the leaves of the batch's records that do not directly precede the seal, with their places in the
//     batch
//
// A record with the event "bound" has in "binding" a witness.Binding. Both records are leaves of the tree like others.
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
// In records the content is the JSON as one zstd frame (RFC 8878) with its content size and the dictionary
// vocabulary.txt, if that is shorter than the JSON. A zstd frame begins with 28 b5 2f fd, and no JSON does. The JSON
// has at most 1 MiB. Hashes and seals cover the JSON, not the compressed bytes.
//
// A cell of the index has the place of a record and the fields of the most common searches:
//
//	 0   8  offset of its frame in records
//	 8  16  transfer ID, zero if it has none
//	24   8  its time, milliseconds since 1970, signed
//
// The hashes are in the order of tlog.StoredHashIndex. A leaf is the SHA-256 of a zero byte and the record's JSON. The
// state is the JSON of a size, its root, the end of that record, and the position of each agent in the log at that
// size. It saves reading all records at a start, and it is a checkpoint that a Log keeps of itself.
//
// # Order, and the effects of a crash
//
// An append writes and syncs records. Then it writes index and hashes, in this order, and syncs both. Then coordination
// sends the receipt. So records covered by index or hashes were durable, and records covered by neither were never
// receipted. A start that finds the last frames of records damaged, and not covered, cuts them off. It completes index
// and hashes from records. It refuses to start on any damage that no crash explains. If records has lost its end
// although index, hashes or state cover it (after a lying disk or a restored copy), the log records that as a "gap",
// and continues.
package audit
