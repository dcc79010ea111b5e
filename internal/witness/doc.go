// Package witness has what the audit log is held to: keys that sign batches and checkpoints,
// bindings that say whose a key is, signed notes, cosignatures, proofs of the Merkle tree, and
// the memory of somebody who has seen a log and notices when it is another. It asks nobody and
// opens no log: whoever has a record with its proof can check it offline.
//
// # Keys and bindings
//
// Each agent and coordination has an Ed25519 key for the audit log, beside its identity. A
// Binding says whose it is. It is signed with the key of the identity's certificate (ECDSA,
// P-256, ASN.1) over the SHA-256 of these lines, each with a line end:
//
//	ferry audit key v1
//	the identity, ferry://NETWORK/ROLE/NAME
//	the Ed25519 key, 32 bytes in base64
//	its time, seconds since 1970, in decimal
//
// The certificate is good at that time and leads to the network's root. A key stays good for
// what it has signed when the certificate has ended. The ID of a binding is the first 16 bytes
// of the SHA-256 of the lines, in hexadecimal.
//
// # Batches
//
// A seal is an agent's signature over a batch, over these lines:
//
//	ferry audit batch v1
//	the agent's identity
//	the incarnation of its ledger, 16 digits of hexadecimal
//	three numbers with spaces between: below which the agent has dropped its records, that of
//	the first record, and how many there are
//	the root of the tree of RFC 6962 over the records, in base64
//
// The leaves are those of the audit log, so that a seal can be shown for one record with the
// hashes that lead from it to that root.
//
// # Checkpoints
//
// A checkpoint is a signed note (C2SP signed-note, tlog-checkpoint) with the text
//
//	ferry/NETWORK/audit
//	how many records the log has, in decimal
//	the root of its tree, in base64
//	log INCARNATION, 16 digits of hexadecimal
//
// The last line is an extension line: a log that was begun anew has another incarnation, so
// coordination itself has signed that it is another one. Coordination signs with its key under
// the name in the first line. A witness adds a cosignature (C2SP tlog-cosignature,
// cosignature/v1) under the name ferry/NETWORK/agent/NAME: its key's ID has the type 0x04, it
// is made over "cosignature/v1\ntime SECONDS\n" and the text, and is those seconds, 8 bytes
// big-endian, and then 64 bytes of signature.
//
// # Proofs
//
// Proofs are lists of hashes: between two sizes as in RFC 6962, of one record as in RFC 6962, and
// of a run of records (Run): the roots of the greatest subtrees beside the run, from left to
// right, as the split of the tree at powers of two meets them.
package witness
