// Package wire defines every message between agents, and the subjects that carry them. No other package may define one.
//
// # Control messages
//
// A control message is one JSON object of at most 1 MiB and 32 levels. A message of 96 bytes or more may travel as one
// frame of zstd (RFC 8878) with its content size and a vocabulary (package compress, Pack):
//
//	{"v":1,"kind":"open","from":"SRC","transfer":"0190…","body":{…}}
//
// Unknown fields are ignored, so that a later version may add some. An unknown kind is refused. The versions accepted
// are this one, the one before and the one after. Paths travel as bytes with %XX where text needs it.
//
// # Ranges
//
// A message is read only if all of it is in range, from any sender. check.go has the rules. An agent's name has 2 to 28
// characters, which the reader turns into capitals.
//
//	nonce, pardon         1 (pardon: 0) to 2^40
//	epoch                 from 1
//	item, number of items below 2^40; batch below 2^62; sequence up to 2^60
//	size, offset, bytes   0 to 2^60
//	credit                0 to 2^36 in ACCEPT and RESYNC; in ACK that much beyond the bytes already sent
//	sums of ACCEPT        0 to transfer.MaxUndecided
//	settings              as transfer.Settings.Check accepts them; ACCEPT has all of them
//	max_chunk             1 to transfer.MaxChunk
//	points of a resume    transfer.MaxUndecided at most, with prefixes of 4,096 segments at most,
//	                      without a gap, which end at the point
//	outcomes of a batch   512 at most
//	incarnation, instance 64 printable characters at most
//	principal             1,024 printable characters at most
//	sentence, hint        64 KiB at most
//	address               HOST:PORT, port 1 to 65535, 8 of them at most; pin and token 64 hex digits
//	mode of BEGIN         permissions only
//
// A check that depends on the state of a transfer belongs to the component that keeps that state:
//
//   - sender: an ACK of a message never sent, an outcome of an item not begun or of another file than the item's
//   - receiver: a LAST that does not match the items
//   - agent: a name that differs from the subject's
//
// A message that fails such a check is dropped and counted. The log reports it once a minute at most (package quiet).
//
// # The conversation
//
// The messages about one transfer, on the two agents' REPLY subjects (source on the left):
//
//	OPEN(nonce, request, incarnations, targets)  →
//	                                        ←  RESOLVED(nonce, targets, known), if OPEN does not have
//	                                           all targets, or starts after the known ones
//	                                        ←  ACCEPT(nonce, epoch, settings, credit, resume)
//	                                           or BUSY(nonce, place, reason, program) or REFUSE(nonce, error)
//	chunk messages of the epoch, on the lane →
//	ALIVE(epoch), while one takes more than 2 s on the link  →
//	                                        ←  ACK(epoch, sequence, credit, safe point)
//	                                        ←  RESYNC(new epoch, credit, resume, direct)  at a gap, or when this host's address has changed
//	                                        ←  BUSY(epoch, reason)                   no space: the epoch is over
//	                                        ←  OUTCOMES(batch, outcomes, last, program)
//	OUTCOMES-ACK(batch)                     →
//	CANCEL                                  →
//	                                        ←  CANCELLED
//
// The source repeats OPEN and CANCEL until they are answered. The destination repeats:
//
//   - OUTCOMES until they are acknowledged
//   - ACK every second while messages wait to be processed, or while bytes arrive that do not yet complete a message
//   - RESYNC every second until the epoch's first message
//   - ACCEPT if a message of an earlier epoch arrives instead
//
// Only chunk messages, ALIVE, ACK and RESYNC carry the epoch. They are dropped if it is old.
//
// The request of OPEN has the programs that the destination is to run. It has neither the programs nor the triggers of
// the source. BUSY with program says that a program runs at the destination. ACCEPT follows a program before the
// transfer. The last outcomes follow a program after the transfer; their program field has its failure. The recovery
// time-out does not count meanwhile. Package transfer defines programs and their limits (Program). A name that leads
// out of a directory refuses the OPEN.
//
// # Origin
//
// The origin of a message is the agent in its subject. A message on ferry.event.A, ferry.beat.A, ferry.progress.A.* or
// ferry.ask.*.A is accepted as a statement about A and about transfers with the source A, and about nothing else that
// the message names. An audit record of a destination is accepted for transfers with that destination.
//
// On ferry.log.xml.A.ID coordination publishes its log of a transfer of A, and on ferry.status.xml.A.ID its progress,
// in the XML of MQ MFT, if configured to. No part of Ferry subscribes to them. On ferry.beat.A a second instance of A
// may publish, too, with a message of its own kind (Standby), which is no heartbeat. Answers go to an inbox that names
// the asker and the answerer (InboxSubject). They name their object by an ID. Every number and text has a range
// (check.go, askcheck.go); a message with one out of range is rejected.
//
// # Chunk messages
//
// Integers are big-endian. A message is a header and any number of frames. It may have none: the first message of an
// epoch says at least that the source has begun the epoch.
//
//	offset size
//	 0      1   version, 1
//	 1      1   flags; 1: the sender had to wait for credit before this message;
//	            2: it waits for an acknowledgement of this message. Other bits are 0, and ignored
//	 2     16   transfer ID
//	18      4   epoch
//	22      8   sequence, from 1 in every epoch
//	30      2   number of frames
//	32      8   XXH3-64 of the whole message with these eight bytes zero
//	40      …   frames
//
// A frame is a type byte, the item, and the fields of the type. Numbers are in 7-bit groups, the least significant
// first (encoding/binary's Uvarint). In the table u is an unsigned number, s a signed one in zigzag form (Varint), and
// t a text: its length (u) and its bytes. The item is s, the difference from that of the previous frame of the message.
// Before the first frame the base of every difference is zero or empty.
//
//	1 BEGIN  1 item type  1 flags (1: again from the start; 2: with a form; 4: the size is
//	         not known, and 0 here; 8: with a target)
//	         u mode  u size  u allocated bytes  u offset where data will start
//	         s mtime (ns) less that of the BEGIN before
//	         version  name  source path, each as: u the length of the prefix shared with the version
//	         (name, source path) of the BEGIN before, t the rest
//	         with a form: t code page  t line end  t RECFM  u LRECL  u BLKSIZE
//	         with a target: u its number, from 1; without one it lands at the transfer's DEST
//	2 DATA   u offset  t bytes
//	3 HOLE   u offset  u length of a run of zeros
//	4 END    u size
//	5 FAIL   1 kind  t text  t source path   it cannot be sent
//	6 SKIP   the sender stops sending the item: the receiver has decided it
//	7 LAST   the item is the number of items in the whole transfer; the last frame, and of a set the first one, too
//	8 CDATA  u offset  u plain length  1 format (1: s2, 2: zstd)  t compressed bytes
//	9 SUM    the file's digest as t METHOD, t bytes; empty METHOD: t the digest as text (empty:
//	         none)  t XXH3-128 in hex of the bytes since a resume; empty but for content that may
//	         be converted
//
// After 1 MiB of names in a message, a name shares no prefix with the one before it. Otherwise a short message could
// stand for gigabytes of names.
//
// The form describes a file's content as the source's agent knows it. A BEGIN has one if the request may require a
// conversion (package conversion). The texts of a form have at most 64 bytes. If such an item is resumed, its SUM has
// the digest of the bytes since the resume: the receiver keeps only the converted bytes, so it cannot check the source
// bytes before the resume. The source checks those.
//
// CDATA carries 1 byte to 1 MiB of plain bytes like DATA, always in fewer bytes. Package compress defines the formats.
// Offset, plain length, the cost in credit and every digest except the message's refer to the plain bytes. The
// message's hash covers the bytes of the message. A sender makes CDATA only if the request asks for compression. A
// version without CDATA refuses that setting at OPEN, and so never gets one.
//
// A directory is BEGIN alone. A second BEGIN of an undecided item starts it again. The frames of one item are in order.
// Items are in order, except for those that a resume skips. The SUM of a file follows when the sender has digested the
// file. If that takes longer than sending it, the SUM comes between the frames of later items. No item begins while
// more SUMs are missing than ACCEPT allows.
package wire
