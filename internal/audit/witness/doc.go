// Package witness has the means to check the audit log: keys that sign batches and checkpoints, bindings of keys to
// identities, signed notes, cosignatures, proofs of the Merkle tree, and the memory of a witness, which detects another
// log. The package sends no question and opens no log. Anyone with a record and its proof can check it offline.
//
// # Keys and bindings
//
// Each agent and coordination has an Ed25519 key for the audit log, beside its identity. A Binding names the key's
// owner. It is signed with the key of the identity's certificate (ECDSA, P-256, ASN.1) over the SHA-256 of these lines,
// each with a line end:
//
//	ferry audit key v1
//	the identity, ferry://NETWORK/ROLE/NAME
//	the Ed25519 key, 32 bytes in base64
//	its time, seconds since 1970, in decimal
//
// The certificate is valid at that time and leads to the network's root. The key's signatures stay valid after the
// certificate has expired. The ID of a binding is the first 16 bytes of the SHA-256 of the lines, in hexadecimal.
//
// # Batches
//
// A seal is an agent's signature over a batch, over these lines:
//
//	ferry audit batch v1
//	the agent's identity
//	the incarnation of its ledger, 16 digits of hexadecimal
//	three numbers with spaces between: the floor (the agent has dropped its records below it),
//	the number of the first record, and the count of records
//	the root of the tree of RFC 6962 over the records, in base64
//
// The leaves are those of the audit log. So a seal can be proved for one record with the hashes from its leaf to that
// root.
//
// # Checkpoints
//
// A checkpoint is a signed note (C2SP signed-note, tlog-checkpoint) with the text
//
//	ferry/NETWORK/audit
//	the number of records in the log, in decimal
//	the root of its tree, in base64
//	log INCARNATION, 16 digits of hexadecimal
//
// The last line is an extension line. A log that was begun anew has another incarnation, so coordination itself signs
// that it is another log. Coordination signs with its key under the name in the first line. A witness adds a
// cosignature (C2SP tlog-cosignature, cosignature/v1) under the name ferry/NETWORK/agent/NAME. The ID of its key has
// the type 0x04. The signed message is "cosignature/v1\ntime SECONDS\n" and the text. The cosignature is those seconds,
// 8 bytes big-endian, and then 64 bytes of signature.
//
// # Proofs
//
// Proofs are lists of hashes. Those between two sizes and those of one record are as in RFC 6962. The proof of a run of
// records (Run) has the roots of the greatest subtrees beside the run, from left to right, in the order in which the
// split of the tree at powers of two yields them.
package witness
