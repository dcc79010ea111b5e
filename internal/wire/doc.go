// Package wire has every message that crosses between agents, and the subjects
// that carry them; nothing else may invent one.
//
// # Control messages
//
// A control message is one JSON object of at most 1 MiB and 32 levels:
//
//	{"v":1,"kind":"open","from":"SRC","transfer":"0190…","body":{…}}
//
// Unknown fields are ignored, so that a later version may add some; an unknown
// kind is refused, and so is a version other than this one's, the one before
// and the one after. Paths travel as bytes with %XX where text needs it.
//
// The conversation about one transfer, on the two agents' REPLY subjects
// (source on the left):
//
//	OPEN(nonce, request, incarnations)      →
//	                                        ←  ACCEPT(nonce, epoch, settings, credit, resume)
//	                                           or BUSY(nonce, place, reason) or REFUSE(nonce, error)
//	chunk messages of the epoch, on the lane →
//	                                        ←  ACK(epoch, sequence, credit, safe point)
//	                                        ←  RESYNC(new epoch, credit, resume)     at a gap
//	                                        ←  BUSY(epoch, reason)                   no space: the epoch is over
//	                                        ←  OUTCOMES(batch, outcomes, last)
//	OUTCOMES-ACK(batch)                     →
//	CANCEL                                  →
//	                                        ←  CANCELLED
//
// Who repeats what: OPEN and CANCEL are repeated by the source until they are
// answered, OUTCOMES by the destination until acknowledged, ACK every second
// while data is owed, RESYNC every second until the epoch's first message. Only
// chunk messages, ACK and RESYNC carry the epoch and are dropped when it is old.
//
// # Who speaks
//
// A message is its subject's agent's own: what is on ferry.event.A,
// ferry.progress.A and ferry.register.A is believed of A, and of transfers whose
// source is A (of the audit records of a destination, of those whose destination
// it is), whatever the message itself says. Answers go to an inbox of the asker,
// and say by an ID what they are about. Every number and text has a range
// (check.go, askcheck.go); a message that is out of it is not read.
//
// # Chunk messages
//
// Integers are big-endian. A message is a header and frames; it may have none
// (the first message of an epoch says at least that the epoch is obeyed).
//
//	offset size
//	 0      1   version, 1
//	 1      1   flags; 1: the sender had to wait for credit before this message. Others are 0, and ignored
//	 2     16   transfer ID
//	18      4   epoch
//	22      8   sequence, from 1 in every epoch
//	30      2   number of frames
//	32      8   XXH3-64 of the whole message with these eight bytes zero
//	40      …   frames
//
// A frame is a type byte and:
//
//	1 BEGIN  8 item  1 item type  1 flags (1: again from the start; 2: with a form)  4 mode
//	         8 size  8 mtime (ns)  8 allocated bytes  8 offset where data will start
//	         8 dev  8 ino  8 id size  8 id mtime  8 id ctime
//	         2+n name  2+n source path
//	         with a form: 2+n code page  2+n line end  2+n RECFM  4 LRECL  4 BLKSIZE
//	2 DATA   8 item  8 offset  4+n bytes
//	3 HOLE   8 item  8 offset  8 length of a run of zeros
//	4 END    8 item  8 size  1+n digest as METHOD:HEX (empty: none)
//	5 FAIL   8 item  1 kind  2+n text  2+n source path   it cannot be sent
//	6 SKIP   8 item   the sender leaves off: the receiver has decided the item
//	7 LAST   8 number of items in the whole transfer
//	8 CDATA  8 item  8 offset  4 plain length  1 format (1: s2, 2: zstd)  4+n compressed bytes
//	9 TAIL   8 item  1+n XXH3-128 in hex of the bytes since the BEGIN
//
// The form says what the source's agent knows of a file's content; it is there
// where the request can want it converted (package conversion). The texts of a form
// have 64 bytes at most. Where such an item is resumed, a TAIL goes before its END: a receiver
// that has what it wrote, and no longer what it was made of, checks with it what
// came since, while the source has checked what came before.
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
// that a resume skips.
package wire
