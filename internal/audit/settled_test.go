package audit

import (
	"encoding/json"
	"testing"
	"time"

	"ferry/internal/qmgr/roles"
	"ferry/internal/security/authority/authoritytest"
	"ferry/internal/security/identity"
	"ferry/internal/security/word"
	"ferry/internal/transfer"
)

// An accepting is a log without some records of A1, and the person that accepts the gap.
type accepting struct {
	*signing
	t   *testing.T
	log *Log
	ann *identity.Identity
	n   uint64 // of A1's next record
}

func newAccepting(t *testing.T) *accepting {
	s := newSigning(t)
	a := &accepting{signing: s, t: t, log: open(t, t.TempDir()), ann: authoritytest.Identity(t, s.net, identity.User, "ann", roles.User), n: 10}
	t.Cleanup(func() { closeLog(t, a.log) })
	s.bind(t, a.log)
	s.append(t, a.log, 1, 1, 3)
	s.append(t, a.log, a.n, a.n, a.n) // 4 to 9 are lost
	a.n++
	return a
}

// question returns the parts of a record that a member's signed question to an agent gives it.
func (a *accepting) question(by *identity.Identity, to, body string) Vouched {
	a.t.Helper()
	st := word.Statement{Kind: word.Ask, To: identity.Name{Network: by.Name().Network, Role: identity.Agent, Name: to}, ID: transfer.NewID(time.Now())}
	w, signed, err := word.Open(word.Sign(by, st, []byte(body), time.Now()))
	if err != nil {
		a.t.Fatal(err)
	}
	author, err := word.NewChecker(by, identity.Agent, to).Check(w, signed, word.Ask, st.ID, by.Name().Token(), time.Now())
	if err != nil {
		a.t.Fatal(err)
	}
	return Vouched{Author: author, Evidence: word.EvidenceOf(w, signed, by.Roots().Of(identity.UnitOthers))}
}

// settling is a batch with a record of A1 that accepts the gaps.
func settling(t *testing.T, n uint64, principal string, v Vouched) Batch {
	rec := Record{Agent: "A1", Incarnation: FormatIncarnation(1), N: n, Time: time.Now(), Event: Settled, Source: "A1", Principal: principal, Reason: "restored", Vouched: v}
	return Batch{V: 1, Agent: "A1", Incarnation: rec.Incarnation, Floor: n, Records: []json.RawMessage{encoded(t, rec)}}
}

// record appends a sealed record of A1 that accepts the gaps.
func (a *accepting) record(principal string, v Vouched) {
	a.t.Helper()
	b := settling(a.t, a.n, principal, v)
	b.Sign(a.a1, a.n)
	if _, err := a.by.Append(a.log, b); err != nil {
		a.t.Fatal(err)
	}
	a.n++
}

// settle appends such a record, and returns the gaps that count as accepted, for each way to verify the log.
func (a *accepting) settle(principal string, v Vouched) (signed, files int64) {
	a.t.Helper()
	a.record(principal, v)
	with, err := a.log.VerifySigned(a.t.Context(), a.roots)
	if err != nil {
		a.t.Fatal(err)
	}
	without, err := a.log.Verify(a.t.Context(), nil)
	if err != nil || with.Found+with.Accepted != 1 || without.Found+without.Accepted != 1 {
		a.t.Fatalf("%+v, %+v, %v", with, without, err)
	}
	return with.Accepted, without.Accepted
}

const accepts = `{"v":1,"kind":"accept","body":{"reason":"restored"}}`

// An agent alone, or with a question that was about something else, cannot accept that its records are missing.
func TestForgedSettlements(t *testing.T) {
	a := newAccepting(t)
	ann := a.ann.Name().Token()
	eve := authoritytest.Identity(t, a.net, identity.User, "eve", roles.User)
	itself := authoritytest.Identity(t, a.net, identity.Agent, "A1", roles.Agent)
	other := authoritytest.Identity(t, a.net, identity.Agent, "B1", roles.Agent)
	stranger := authoritytest.Identity(t, authoritytest.New(t), identity.User, "ann", roles.User)
	with := func(change func(*Vouched)) Vouched {
		v := a.question(a.ann, "A1", accepts)
		author, evidence := *v.Author, *v.Evidence
		v = Vouched{Author: &author, Evidence: &evidence}
		change(&v)
		return v
	}
	for name, c := range map[string]struct {
		principal string
		v         Vouched
	}{
		"no author":            {ann, Vouched{}},
		"no evidence":          {ann, with(func(v *Vouched) { v.Evidence = nil })},
		"another body":         {ann, with(func(v *Vouched) { v.Evidence.Body = []byte(accepts + " ") })},
		"another signature":    {ann, with(func(v *Vouched) { v.Author.Signature = a.question(a.ann, "A1", accepts).Author.Signature })},
		"another certificate":  {ann, with(func(v *Vouched) { v.Evidence.Chain = a.question(eve, "A1", accepts).Evidence.Chain })},
		"another name":         {ann, with(func(v *Vouched) { v.Author.By.Name = "root" })},
		"another principal":    {eve.Name().Token(), a.question(a.ann, "A1", accepts)},
		"another agent":        {ann, a.question(a.ann, "B1", accepts)},
		"another question":     {ann, a.question(a.ann, "A1", `{"v":1,"kind":"set","body":{"reason":"restored"}}`)},
		"another reason":       {ann, a.question(a.ann, "A1", `{"v":1,"kind":"accept","body":{"reason":"a test"}}`)},
		"no reason":            {ann, a.question(a.ann, "A1", `{"v":1,"kind":"accept","body":{}}`)},
		"the agent itself":     {"A1", a.question(itself, "A1", accepts)},
		"another agent's":      {other.Name().Token(), a.question(other, "A1", accepts)},
		"a certificate's name": {ann, with(func(v *Vouched) { v.Author.By.Network = "another123" })},
	} {
		if signed, files := a.settle(c.principal, c.v); signed != 0 || files != 0 {
			t.Errorf("%s: the gap is accepted: %d, %d", name, signed, files)
		}
	}
	if signed, _ := a.settle(stranger.Name().Token(), a.question(stranger, "A1", accepts)); signed != 0 {
		t.Error("a member of another network has accepted the gap")
	}
}

// A person's signed question proves that the person has accepted the gaps before its record, once.
func TestProvedSettlement(t *testing.T) {
	a := newAccepting(t)
	v := a.question(a.ann, "A1", accepts)
	if signed, files := a.settle(a.ann.Name().Token(), v); signed != 1 || files != 1 {
		t.Errorf("the gap is not accepted: %d, %d", signed, files)
	}
	if signed, files := a.settle(a.ann.Name().Token(), Vouched{}); signed != 1 || files != 1 { // which takes nothing back
		t.Errorf("the gap is not accepted any more: %d, %d", signed, files)
	}

	a.append(t, a.log, a.n+3, a.n+3, a.n+3) // more records are lost
	a.n += 4
	a.record(a.ann.Name().Token(), v)
	if r, err := a.log.VerifySigned(t.Context(), a.roots); err != nil || r.Accepted != 1 || r.Found != 1 {
		t.Errorf("a question accepts gaps that came after it: %+v, %v", r, err)
	}
}

// In a network without identities nothing is signed, and the agent's record counts.
func TestSettlementWithoutIdentities(t *testing.T) {
	l := open(t, t.TempDir())
	t.Cleanup(func() { closeLog(t, l) })
	appendOK(t, l, batchOf(t, "A1", 1, 1, 1, 3))
	appendOK(t, l, batchOf(t, "A1", 1, 10, 10, 10))
	appendOK(t, l, settling(t, 11, "ann", Vouched{}))
	if r, err := l.Verify(t.Context(), nil); err != nil || r.Accepted != 1 || r.Found != 0 {
		t.Errorf("%+v, %v", r, err)
	}
}
