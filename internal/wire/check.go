package wire

import (
	"net"
	"strconv"
	"strings"
	"unicode/utf8"

	"ferry/internal/transfer"
)

// The ranges of a peer's figures and texts, for any peer. A message with a value out of range is rejected: a correct
// agent does not send one. A check that depends on the state of the transfer (an ACK of a message never sent) belongs
// to the component that keeps that state.
const (
	MaxNonce     = 1 << 40 // OPENs of a transfer, and pardons
	MaxEpoch     = 1 << 31 // epochs of a transfer
	MaxItems     = 1 << 40 // items of a transfer
	MaxSize      = 1 << 60 // bytes of a file, and offsets in it
	MaxCredit    = 1 << 60 // bytes of an epoch's running total
	MaxAhead     = 1 << 36 // bytes of credit beyond those already sent
	MaxSeq       = 1 << 60 // messages of an epoch
	MaxBatch     = 1 << 62 // numbers of batches of outcomes
	MaxOutcomes  = 512     // outcomes of a batch
	MaxSegments  = 4096    // segments of a point's prefix
	MaxText      = 64 << 10
	maxPlace     = 1 << 20         // places in a queue
	maxStamp     = 253402300799999 // milliseconds: the end of the year 9999
	maxMark      = 64              // bytes of the name of a ledger or of a run
	maxPrincipal = 1024            // bytes of a principal's token
	maxSum       = 160             // bytes of a digest as METHOD:HEX
	maxJoined    = 64 << 10        // bytes of a path that cannot be sent; it may be longer than a valid one
	maxMode      = 0o777
)

// A rule is one check of a range: the complaint if it does not hold, and whether it holds.
type rule struct {
	what string
	ok   bool
}

// broken returns the complaint of the first rule that does not hold, or "".
func broken(rules ...rule) string {
	for _, r := range rules {
		if !r.ok {
			return r.what
		}
	}
	return ""
}

func within[T int | int64 | uint64 | uint32](v, low, high T) bool { return low <= v && v <= high }

// check rejects a message with a missing field or one out of range.
func (m *Message) check() error {
	var what string
	switch {
	case m.Transfer.IsZero():
		what = "no transfer ID"
	case m.From == "":
		what = "no sender"
	case m.Open != nil:
		what = m.Open.check()
	case m.Accept != nil:
		what = m.Accept.check()
	case m.Resolved != nil:
		what = broken(rule{"no nonce that can be", within(m.Resolved.Nonce, 1, MaxNonce)}, rule{"destinations that are none", m.Resolved.fits()})
	case m.Busy != nil:
		what = m.Busy.check()
	case m.Refuse != nil:
		what = broken(rule{"no nonce that can be", within(m.Refuse.Nonce, 0, MaxNonce)}, said(m.Refuse.Error, "error"))
	case m.Ack != nil:
		what = m.Ack.check()
	case m.Resync != nil:
		what = m.Resync.check()
	case m.Outcomes != nil:
		what = m.Outcomes.check()
	case m.Cancel != nil:
		what = broken(rule{"a principal that is none", principal(m.Cancel.Principal)})
	case m.OutcomesAck != nil:
		what = broken(rule{"no batch that can be", m.OutcomesAck.Batch < MaxBatch})
	}

	if what != "" {
		return transfer.Errorf(transfer.KindMalformed, "control message %s has %s", m.Kind, what)
	}
	return nil
}

// said returns the rule that an error must be there.
func said(e *transfer.Error, what string) rule { return rule{"no " + what, e != nil && sentence(e)} }

func sentence(e *transfer.Error) bool {
	return e == nil || len(e.Text) <= MaxText && len(e.Hint) <= MaxText
}

func (o *Open) check() string {
	s := o.Request.Settings
	return broken(
		rule{"no nonce that can be", within(o.Nonce, 1, MaxNonce)},
		rule{"a source incarnation that is none", mark(o.Source) && o.Source != ""},
		rule{"a destination incarnation that is none", mark(o.Dest)},
		rule{"an epoch out of its range", o.Epoch < MaxEpoch},
		rule{"a chunk size that cannot be carried", within(o.MaxChunk, 1, transfer.MaxChunk)},
		rule{"settings out of their range", s.Check() == nil},
		rule{"a pardon that cannot be", within(o.Pardon, 0, MaxNonce)},
		rule{"outcomes out of their range", o.Recorded <= MaxItems},
		rule{"a principal that is none", principal(o.Principal)},
		rule{"items, which are the source's business", o.Request.Items == nil && o.Request.Rest == nil},
		rule{"triggers or programs of the source, which are its business", o.Request.Triggers == nil && o.Request.Programs.OfSource() == nil},
		rule{"targets that are none", o.Targets.fits()},
		rule{"a way to the direct lane that is none", o.Direct.check()},
		rule{"stored delivery that cannot be", o.Stored.fits()})
}

func (s *StoredState) fits() bool {
	return s == nil || s.Store != "" && mark(s.Store) && s.Epoch > 0 && s.Epoch < MaxEpoch && s.Last <= MaxSeq && (s.Ledger == "" || mark(s.Ledger))
}

// fits reports whether the numbers of targets ascend. The receiver checks the content of the targets.
func (t *Targets) fits() bool {
	if t == nil {
		return true
	}
	last := t.After
	for n := range t.List {
		if t.List[n].N <= last || t.List[n].N > MaxItems || len(t.List[n].Archive) > transfer.MaxPath { // an archive is for the source only
			return false
		}
		last = t.List[n].N
	}
	return len(t.List) > 0
}

func (r *Resolved) fits() bool {
	if len(r.List) == 0 {
		return r.After <= MaxItems && r.Known < r.After
	}
	return r.After <= MaxItems && resolved(r.List) && r.Known == r.List[len(r.List)-1].N
}

func resolved(all []transfer.Resolved) bool {
	last := uint64(0)
	for n := range all {
		r := &all[n]
		if r.N <= last || r.N > MaxItems || !plainPath(r.Base, transfer.MaxPath) || !r.Place.Known() || (r.Base == "") != (r.Error != nil) || !sentence(r.Error) {
			return false
		}
		last = r.N
	}
	return true
}

func (a *Accept) check() string {
	s := a.Settings
	return broken(
		rule{"no nonce that can be", within(a.Nonce, 1, MaxNonce)},
		rule{"an epoch out of its range", a.Epoch > 0 && a.Epoch <= MaxEpoch},
		rule{"a destination incarnation that is none", mark(a.Dest) && a.Dest != ""},
		rule{"settings out of their range", s.Check() == nil && s == s.Or(transfer.Settings{ChunkSize: -1, WindowSize: -1, FrameSize: -1, CheckpointInterval: -1})},
		rule{"a lane that is none", a.Lane == transfer.LaneQueue || a.Lane == transfer.LaneDirect},
		rule{"a credit out of its range", within(a.Credit, 0, MaxAhead)},
		rule{"a number of missing digests out of its range", within(a.Sums, 0, transfer.MaxUndecided)},
		rule{"a destination that is none", plainPath(a.Resolution.Base, transfer.MaxPath) && a.Resolution.Place.Known() && resolved(a.Resolved)},
		rule{"a reason that is too long", len(a.LaneReason) <= MaxText},
		rule{"an instance that is none", mark(a.Instance)},
		rule{"a way to the direct lane that is none", a.Direct.check()},
		rule{"a place to resume that cannot be", resume(&a.Resume)})
}

func (b *Busy) check() string {
	return broken(
		rule{"no nonce that can be", within(b.Nonce, 0, MaxNonce)},
		rule{"a place out of its range", within(b.Place, 0, maxPlace)},
		said(b.Reason, "reason"))
}

func (a *Ack) check() string {
	return broken(
		rule{"no epoch", a.Epoch > 0},
		rule{"a sequence out of its range", within(a.Seq, 0, MaxSeq)},
		rule{"a credit out of its range", within(a.Credit, 0, MaxCredit)},
		rule{"bytes out of their range", within(a.Bytes, 0, MaxCredit)},
		rule{"a run-ahead out of its range", within(a.Ahead, 0, MaxCredit)},
		rule{"an arrived sequence out of its range", within(a.Here, 0, MaxSeq)},
		rule{"a time out of its range", within(a.At, 0, maxStamp)},
		rule{"a safe point that cannot be", a.Safe == nil || a.Safe.Item < MaxItems && within(a.Safe.Offset, 0, MaxSize)})
}

func (a *Alive) check() string { return broken(rule{"no epoch", a.Epoch > 0}) }

func (r *Resync) check() string {
	return broken(
		rule{"no epoch", r.Epoch > 0},
		rule{"a credit out of its range", within(r.Credit, 0, MaxAhead)},
		rule{"a reason that is too long", len(r.Reason) <= MaxText},
		rule{"a way to the direct lane that is none", r.Direct.check()},
		rule{"a place to resume that cannot be", resume(&r.Resume)})
}

func (o *Outcomes) check() string {
	if o.Batch >= MaxBatch || len(o.Outcomes) > MaxOutcomes {
		return "a batch that cannot be"
	}
	if o.Program != nil && !(o.Last && sentence(o.Program)) {
		return "a program's end that cannot be"
	}
	for n := range o.Outcomes {
		if what := outcome(&o.Outcomes[n]); what != "" {
			return "an outcome with " + what
		}
	}
	return ""
}

func outcome(o *transfer.Outcome) string {
	w := transfer.Written{}
	if o.Written != nil {
		w = *o.Written
	}

	return broken(
		rule{"an item out of its range", o.Item < MaxItems && o.To <= MaxItems},
		rule{"a type that is none", within(uint32(o.Type), uint32(transfer.ItemFile), uint32(transfer.ItemBad))},
		rule{"a path that is none", plainPath(o.Path, maxJoined) && plainPath(o.Source, maxJoined) && plainPath(o.Picked, maxJoined)},
		rule{"a size out of its range", within(o.Size, 0, MaxSize)},
		rule{"a digest that is none", len(o.Digest) <= maxSum && len(o.SrcSum) <= maxSum && len(w.Digest) <= maxSum},
		rule{"figures out of their range", within(w.Size, 0, MaxSize) && within(w.Base, 0, w.Size) && within(w.Records, 0, MaxSize) && within(w.Long, 0, MaxSize)},
		rule{"a word for a taken file that is none", o.Taken.Known()},
		rule{"a note that is too long", len(o.Note) <= MaxText},
		rule{"an error that is too long", sentence(o.Err)})
}

// resume reports whether a destination's resume is within range: the set of decided items, and points with prefixes
// without gaps.
func resume(r *transfer.Resume) bool {
	if r.Decided.Below() > MaxItems || len(r.Points) > transfer.MaxUndecided {
		return false
	}

	for n := range r.Points {
		p := &r.Points[n]
		if p.Item >= MaxItems || !within(p.Source, 0, MaxSize) || len(p.Prefix) > MaxSegments {
			return false
		}
		at := int64(0)
		for _, s := range p.Prefix {
			if s.End <= at || len(s.Sum) > maxSum {
				return false
			}
			at = s.End
		}
		if at != p.Source {
			return false
		}
	}
	return true
}

// mark reports whether s can name a run or a ledger. A mark is only compared with other marks.
func mark(s string) bool { return len(s) <= maxMark && printed(s) }

// principal reports whether s can name a principal: it is a token of a subject. s may be empty.
func principal(s string) bool { return len(s) <= maxPrincipal && printed(s) }

func printed(s string) bool {
	for _, c := range []byte(s) {
		if c <= ' ' || c >= 0x7f {
			return false
		}
	}
	return true
}

// plainPath reports whether p can be a path: it has no NUL and at most most bytes. p may be empty.
func plainPath(p transfer.Path, most int) bool {
	return len(p) <= most && strings.IndexByte(string(p), 0) < 0
}

// CheckAddresses returns an error if peers would reject the addresses as those of an agent on the direct lane. Its
// errors are of kind Usage.
func CheckAddresses(addresses []string) error {
	if len(addresses) > maxAddresses {
		return transfer.Errorf(transfer.KindUsage, "there are %d addresses of the direct lane; the limit is %d", len(addresses), maxAddresses)
	}
	for _, a := range addresses {
		if !address(a) {
			return transfer.Errorf(transfer.KindUsage, "%q is no address of the direct lane; write it as HOST:PORT", a)
		}
	}
	return nil
}

// check reports whether d is valid, or nil. The addresses of a peer decide where this agent connects, so a value that
// no correct agent sends is rejected.
func (d *Direct) check() bool {
	if d == nil {
		return true
	}
	return (d.Mode == DirectTLS || d.Mode == DirectPlain) && digits(d.Pin, 0, 64) && digits(d.Token, 0, 64) && CheckAddresses(d.Addresses) == nil
}

// digits reports whether s is empty, or consists of hexadecimal digits in one of the given lengths.
func digits(s string, lengths ...int) bool {
	for _, n := range lengths {
		if len(s) == n {
			return strings.Trim(s, "0123456789abcdef") == ""
		}
	}
	return false
}

// address reports whether s is HOST:PORT with a port from 1 to 65535.
func address(s string) bool {
	if len(s) > maxAddress || !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return false
	}
	host, port, err := net.SplitHostPort(s)
	if err != nil || host == "" {
		return false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}

// odd describes the first field of a frame that is out of range, or returns "".
func (f *Frame) odd() string {
	b := f.Begin
	switch {
	case f.Item >= MaxItems:
		return "an item out of its range"
	case !within(f.Offset, 0, MaxSize) || !within(f.Length, 0, MaxSize):
		return "figures out of their range"
	case len(f.Data) > transfer.MaxChunk:
		return "more data than a chunk may have"
	case len(f.Digest) > maxSum || len(f.Tail) > maxSum:
		return "a digest that is none"
	case f.Fail != nil && !plainPath(f.Source, maxJoined):
		return "a path that is none"
	case b == nil:
		return ""
	}

	return broken(
		rule{"a type that is none", b.Type == transfer.ItemFile || b.Type == transfer.ItemDir},
		rule{"a mode with more than permissions", b.Mode <= maxMode},
		rule{"figures out of their range", within(b.Size, -1, MaxSize) && within(b.Allocated, 0, MaxSize) && within(b.Offset, 0, MaxSize) && (b.Size < 0 || b.Offset <= b.Size)},
		rule{"a path that is none", plainPath(b.Name, transfer.MaxPath) && plainPath(b.Source, maxJoined)},
		rule{"a version that is none", len(b.Version) <= transfer.MaxVersion},
		rule{"a form that is none", b.Form == nil || form(b.Form)})
}

func form(m *transfer.Form) bool {
	for _, s := range []string{m.Encoding, m.EOL, m.Records.RECFM} {
		if len(s) > transfer.MaxEncoding || !utf8.ValidString(s) {
			return false
		}
	}
	return within(m.Records.LRECL, 0, maxRecord) && within(m.Records.BLKSIZE, 0, maxRecord)
}

// maxRecord bounds the record lengths of a form. Package record has their exact ranges.
const maxRecord = 1 << 30
