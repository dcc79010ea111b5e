// Package wire has every message that crosses between agents, and the subjects
// that carry them; nothing else may invent one.
//
// # Control messages
//
// A control message is one JSON object of at most 1 MiB and 32 levels; where it has
// 96 bytes or more it may travel as one frame of zstd (RFC 8878) with its content size
// and a vocabulary (package compress, Pack):
//
//	{"v":1,"kind":"open","from":"SRC","transfer":"0190…","body":{…}}
//
// Unknown fields are ignored, so that a later version may add some; an unknown
// kind is refused, and so is a version other than this one's, the one before
// and the one after. Paths travel as bytes with %XX where text needs it.
//
// # Ranges
//
// A message is read only if all of it is in range, whoever says it; check.go has the
// rules. An agent's name is 2 to 28 characters, in capitals once it is read.
//
//	nonce, pardon         1 (pardon: 0) to 2^40
//	epoch                 from 1
//	item, number of items below 2^40; batch below 2^62; sequence up to 2^60
//	size, offset, bytes   0 to 2^60
//	credit                0 to 2^36 in ACCEPT and RESYNC; in ACK that much beyond what was sent
//	sums of ACCEPT        0 to transfer.MaxUndecided
//	settings              as transfer.Settings.Check has them; in ACCEPT all of them are there
//	max_chunk             1 to transfer.MaxChunk
//	points of a resume    transfer.MaxUndecided at most, with prefixes of 4,096 segments at most, that
//	                      have no gap and end where the point is
//	outcomes of a batch   512 at most
//	incarnation, instance 64 printable characters at most
//	principal             1,024 printable characters at most
//	sentence, hint        64 KiB at most
//	address               HOST:PORT, port 1 to 65535, 8 of them at most; pin and token 64 hex digits
//	mode of BEGIN         permissions only
//
// What depends on where a transfer stands is checked by who knows that: an ACK of what
// was not sent, an outcome of an item that was not begun or of another file than the
// item's (sender), a LAST that does not fit (receiver), a name that the subject does
// not bear out (agent). What is not believed is dropped, counted and said in the log
// once a minute at most (package quiet).
//
// The conversation about one transfer, on the two agents' REPLY subjects
// (source on the left):
//
//	OPEN(nonce, request, incarnations, targets)  →
//	                                        ←  RESOLVED(nonce, targets, known), where OPEN has more of
//	                                           them, or begins behind those that are known
//	                                        ←  ACCEPT(nonce, epoch, settings, credit, resume)
//	                                           or BUSY(nonce, place, reason, program) or REFUSE(nonce, error)
//	chunk messages of the epoch, on the lane →
//	ALIVE(epoch), while one is on the line for more than 2 s  →
//	                                        ←  ACK(epoch, sequence, credit, safe point)
//	                                        ←  RESYNC(new epoch, credit, resume, direct)  at a gap, or when this host's address has changed
//	                                        ←  BUSY(epoch, reason)                   no space: the epoch is over
//	                                        ←  OUTCOMES(batch, outcomes, last, program)
//	OUTCOMES-ACK(batch)                     →
//	CANCEL                                  →
//	                                        ←  CANCELLED
//
// Who repeats what: OPEN and CANCEL are repeated by the source until they are
// answered, OUTCOMES by the destination until acknowledged, ACK every second
// while messages wait to be taken in, or bytes come and no message is through, RESYNC every second until the epoch's first
// message, and ACCEPT where a message of an earlier epoch comes instead. Only
// chunk messages, ALIVE, ACK and RESYNC carry the epoch and are dropped when it is old.
//
// The request of OPEN has the programs that the destination is to run, and neither those of the
// source nor its triggers. BUSY with program says that one of them runs: before the
// transfer, so that ACCEPT follows, or after it; then the last outcomes follow, whose program says why
// it failed. The recovery time-out does not count meanwhile. What a program may be, package transfer says
// (Program, and its limits); a name that leads out of a directory refuses the OPEN.
//
// # Who speaks
//
// A message is its subject's agent's own: what is on ferry.event.A, ferry.beat.A,
// ferry.progress.A.* and ferry.ask.*.A is believed of A, and of transfers whose
// source is A (of the audit records of a destination, of those whose destination
// it is), whatever the message itself says. On ferry.log.xml.A.ID and ferry.status.xml.A.ID coordination says in the
// XML of MQ MFT what its log has of a transfer of A, and how far it is, where it is told to; nobody of Ferry's listens. On ferry.beat.A a second instance of A may
// speak, too, in a message of its own kind (Standby), which is no heartbeat. Answers go to an inbox that names who
// has asked and who answers (InboxSubject), and say by an ID what they are about. Every number and text has a range
// (check.go, askcheck.go); a message that is out of it is not read.
//
// # Chunk messages
//
// Integers are big-endian. A message is a header and frames; it may have none
// (the first message of an epoch says at least that the epoch is obeyed).
//
//	offset size
//	 0      1   version, 1
//	 1      1   flags; 1: the sender had to wait for credit before this message;
//	            2: it waits for an acknowledgement of this message. Others are 0, and ignored
//	 2     16   transfer ID
//	18      4   epoch
//	22      8   sequence, from 1 in every epoch
//	30      2   number of frames
//	32      8   XXH3-64 of the whole message with these eight bytes zero
//	40      …   frames
//
// A frame is a type byte, the item, and what the type says. Numbers are in 7-bit groups,
// the least significant first (encoding/binary's Uvarint): u is an unsigned one, s a
// signed one in zigzag form (Varint), t a text: its length (u) and its bytes. The item
// is s, the difference from that of the frame before in the message; before the first
// frame everything that something is the difference from is zero or empty.
//
//	1 BEGIN  1 item type  1 flags (1: again from the start; 2: with a form; 4: the size is
//	         not known, and 0 here; 8: with a target)
//	         u mode  u size  u allocated bytes  u offset where data will start
//	         s mtime (ns) less that of the BEGIN before
//	         version  name  source path, each as: u how many bytes are those of the version
//	         (name, source path) in the BEGIN before, t the rest
//	         with a form: t code page  t line end  t RECFM  u LRECL  u BLKSIZE
//	         with a target: u its number, from 1; without one it lands at the transfer's DEST
//	2 DATA   u offset  t bytes
//	3 HOLE   u offset  u length of a run of zeros
//	4 END    u size
//	5 FAIL   1 kind  t text  t source path   it cannot be sent
//	6 SKIP   the sender leaves off: the receiver has decided the item
//	7 LAST   the item is the number of items in the whole transfer; the last frame, and of a set the first one, too
//	8 CDATA  u offset  u plain length  1 format (1: s2, 2: zstd)  t compressed bytes
//	9 SUM    the file's digest as t METHOD, t bytes; empty METHOD: t the digest as text (empty:
//	         none)  t XXH3-128 in hex of the bytes since a resume; empty but for content that may
//	         be converted
//
// After 1 MiB of names in a message a name has nothing in common with the one before
// it: a short message must not stand for names of gigabytes.
//
// The form says what the source's agent knows of a file's content; it is there
// where the request can want it converted (package conversion). The texts of a form
// have 64 bytes at most. Where such an item is resumed, its SUM says what has come since: a
// receiver that has what it wrote, and no longer what it was made of, checks that,
// while the source has checked what came before.
//
// CDATA says what DATA says of 1 byte to 1 MiB of plain bytes, always in fewer
// (n is less than the plain length). The formats are package compress's.
// Offset, plain length, the cost in credit and every digest but the message's
// are those of the plain bytes; the message's hash is over what is in it. A
// sender makes CDATA only where the request asks for compression: a version that
// does not know it refuses that word at OPEN, and is never sent one.
//
// A directory is BEGIN alone. A second BEGIN of an undecided item starts it
// again. Everything of one item is in order; items are in order but for those
// that a resume skips. The SUM of a file comes once the sender has digested it,
// between the frames of later items where that takes longer than sending it; no item
// begins while more SUMs are missing than ACCEPT allows.
package wire
