package audit

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"ferry/internal/audit/witness"
	"ferry/internal/qmgr/roles"
	"ferry/internal/security/authority"
	"ferry/internal/security/authority/authoritytest"
	"ferry/internal/security/identity"
	"ferry/internal/transfer"
)

// A signing is a network with an agent A1 that seals its batches.
type signing struct {
	net         *authority.Authority
	roots       *identity.Roots
	service, a1 *witness.Key
	by          Sealer
}

func newSigning(t testing.TB) *signing {
	t.Helper()
	a := authoritytest.New(t)
	key := func(role identity.Role, name string, as roles.Role) (*identity.Identity, *witness.Key) {
		i := authoritytest.Identity(t, a, role, name, as)
		k, err := witness.OpenKey(i, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return i, k
	}
	s := &signing{net: a}
	var i *identity.Identity
	i, s.service = key(identity.Coordination, "", roles.Coordination)
	_, s.a1 = key(identity.Agent, "A1", roles.Agent)
	s.roots = i.Roots()
	return s
}

// bind records A1's key.
func (s *signing) bind(t testing.TB, l *Log) {
	t.Helper()
	at, err := Bind(l, s.a1.Binding())
	if err != nil {
		t.Fatal(err)
	}
	s.by = Sealer{s.a1.Party(), at}
}

func (s *signing) batch(t testing.TB, floor, from, to uint64) Batch {
	t.Helper()
	b := batchOf(t, "A1", 1, floor, from, to)
	b.Sign(s.a1, from)
	text, err := EncodeBatch(&b) // as on the wire
	if err != nil {
		t.Fatal(err)
	}
	b, err = DecodeBatch(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (s *signing) append(t testing.TB, l *Log, floor, from, to uint64) Receipt {
	t.Helper()
	r, err := s.by.Append(l, s.batch(t, floor, from, to))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// signed fails unless the log is sound and has the given numbers of signed and unsigned records.
func (s *signing) signed(t testing.TB, l *Log, want, unsigned int64) {
	t.Helper()
	r, err := l.VerifySigned(t.Context(), s.roots)
	if err != nil || r.Found != 0 || r.Signed != want || r.Unsigned != unsigned {
		t.Fatalf("%+v, %v; want %d signed and %d unsigned", r, err, want, unsigned)
	}
}

func TestSealedBatches(t *testing.T) {
	s := newSigning(t)
	l := open(t, t.TempDir())
	defer closeLog(t, l)
	appendOK(t, l, batchOf(t, "B1", 1, 1, 1, 3)) // of an agent that does not sign
	s.bind(t, l)
	if r := s.append(t, l, 1, 1, 4); r.Have != 4 {
		t.Fatalf("%+v", r)
	}
	s.append(t, l, 1, 1, 4) // again: nothing is appended
	size := l.Size()
	s.append(t, l, 1, 3, 7) // two of them again
	if got := l.Size(); got != size+4 {
		t.Errorf("%d records more, want 3 and their seal", got-size)
	}
	s.append(t, l, 10, 10, 11) // 8 and 9 are lost
	s.append(t, l, 8, 8, 9)    // and arrive late
	s.signed(t, l, 11, 3)

	good := s.batch(t, 1, 12, 13)
	for name, change := range map[string]func(*Batch){
		"a record changed":  func(b *Batch) { b.Records[1] = bytes.Replace(b.Records[1], []byte(`"size"`), []byte(`"sizf"`), 1) },
		"one fewer":         func(b *Batch) { b.Records = b.Records[:1] },
		"another floor":     func(b *Batch) { b.Floor = 12 },
		"another ledger":    func(b *Batch) { *b = batchOf(t, "A1", 2, 1, 12, 13); b.Seal = good.Seal },
		"another agent":     func(b *Batch) { *b = batchOf(t, "B1", 1, 1, 12, 13); b.Seal = good.Seal },
		"no seal":           func(b *Batch) { b.Seal = nil },
		"nothing is sealed": func(b *Batch) { b.Records = nil },
	} {
		b := good
		b.Records = append([]json.RawMessage(nil), good.Records...)
		change(&b)
		if _, err := s.by.Append(l, b); transfer.KindOf(err) != transfer.KindDenied {
			t.Errorf("%s: %v", name, err)
		}
	}
	spaced := good
	spaced.Records = []json.RawMessage{append([]byte(" "), good.Records[0]...)}
	spaced.Sign(s.a1, 12)
	_, err := s.by.Append(l, spaced)
	wantKind(t, err, transfer.KindUsage)
	s.signed(t, l, 11, 3)
}

// If a crash separates the seal from its records, the batch comes again, perhaps with other limits, and is sealed.
func TestSealsAfterACrash(t *testing.T) {
	s := newSigning(t)
	dir := t.TempDir()
	l := open(t, dir)
	s.bind(t, l)
	s.append(t, l, 1, 1, 2)
	whole := l.Size()
	end := l.tip.end
	s.append(t, l, 1, 3, 6)
	closeLog(t, l)
	records := load(t, dir, recordsName)
	cut := func(frames int) []byte {
		w := newWalker(bytes.NewReader(records), end, int64(len(records)))
		for range frames {
			if _, err := w.next(); err != nil {
				t.Fatal(err)
			}
		}
		return records[:w.at+5] // and a part of the next
	}
	for frames := range 5 {
		torn := copyDir(t, dir)
		store(t, torn, recordsName, cut(frames))
		covers(t, torn, whole)
		l := open(t, torn)
		s.append(t, l, 1, 3, 4)
		s.append(t, l, 1, 5, 6)
		s.append(t, l, 1, 7, 9)
		s.signed(t, l, 9, 0)
		closeLog(t, l)
	}
}

// A process with write access to all files and with coordination's key still lacks the key of an agent.
func TestRecordsCannotBeWrittenInAnAgentsName(t *testing.T) {
	s := newSigning(t)
	dir := t.TempDir()
	l := open(t, dir)
	s.bind(t, l)
	s.append(t, l, 1, 1, 3)
	s.append(t, l, 1, 4, 6)
	closeLog(t, l)
	records := load(t, dir, recordsName)
	list := frames(t, records)
	for i, body := range list {
		for name, to := range map[string][]byte{
			"edited": bytes.Replace(body, []byte(`"size":`), []byte(`"size":7`), 1), "another signature": bytes.Replace(body, []byte(`"signature":"`), []byte(`"signature":"AAAA`), 1),
			"another count": bytes.Replace(body, []byte(`"count":3`), []byte(`"count":2`), 1), "without a key": bytes.Replace(body, []byte(`"bound":0`), []byte(`"bound":1`), 1),
			"no seal": bytes.Replace(body, []byte(`"event":"sealed"`), []byte(`"event":"warning"`), 1),
		} {
			if bytes.Equal(to, body) {
				continue
			}
			c := append([][]byte(nil), list...)
			c[i] = to
			other := t.TempDir()
			build(t, join(records, c), other)
			ro, err := OpenLogReadOnly(other)
			if err != nil {
				t.Fatal(err)
			}
			if r, err := ro.VerifySigned(t.Context(), s.roots); err == nil && r.Found == 0 && !(name == "no seal" && r.Unsigned > 0) {
				t.Errorf("record %d, %s: %+v", i, name, r)
			}
			closeLog(t, ro)
		}
	}
}

// The places of an agent's records are known after a start, too.
func TestRunsOfAnAgent(t *testing.T) {
	s := newSigning(t)
	dir := t.TempDir()
	l := open(t, dir)
	s.bind(t, l)
	s.append(t, l, 1, 1, 5)
	appendOK(t, l, batchOf(t, "B1", 1, 1, 1, 3))
	s.append(t, l, 1, 6, 9)
	for range 2 {
		p := Prover{l}
		c := p.At("network")
		var next uint64 = 1
		runs, missing, err := p.Runs("A1", FormatIncarnation(1), 1, 9, c.Size)
		if err != nil || missing || len(runs) != 2 {
			t.Fatalf("%+v, %v, %v", runs, missing, err)
		}
		for _, r := range runs {
			leaves := leavesOf(nil)
			for n := range uint64(r.Count) {
				leaves = append(leaves, leavesOf([]entry{{body: encoded(t, recordOf("A1", 1, next+n))}})...)
			}
			if err := witness.CheckRun(r.Proof, c, r.Index, leaves); err != nil || r.First != next {
				t.Errorf("%+v: %v", r, err)
			}
			next += uint64(r.Count)
		}
		if at, ok, err := p.search(stream{"A1", 1}, 7); !ok || err != nil || at.count != 3 || at.from != 7 {
			t.Errorf("%+v, %v, %v", at, ok, err)
		}
		other := c
		other.Root[0] ^= 1
		if !p.Has(c) || p.Has(other) || p.Has(witness.Checkpoint{Size: c.Size + 1, Log: c.Log}) || p.Has(witness.Checkpoint{Size: c.Size, Root: c.Root, Log: "0"}) {
			t.Error("the log does not recognise its checkpoints")
		}
		if _, missing, err := p.Runs("A1", FormatIncarnation(1), 10, 12, c.Size); !missing || err != nil {
			t.Errorf("%v, %v", missing, err)
		}
		if runs, _, err := p.Runs("A1", FormatIncarnation(1), 6, 9, c.Size-3); err != nil || len(runs) != 1 || runs[0].Count != 2 {
			t.Errorf("below a size: %+v, %v", runs, err)
		}
		if _, _, err := p.Runs("A1", "x", 1, 2, 3); err == nil {
			t.Error("an incarnation that is none")
		}
		closeLog(t, l)
		l = open(t, dir)
	}
	closeLog(t, l)
}

// proof returns the proof of the second record of A1, cosigned by A1.
func (s *signing) proof(t testing.TB, l *Log) *Proof {
	t.Helper()
	c := Prover{l}.At(s.service.Party().Name.Network)
	raw, rec, err := l.Read(2)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Prover{l}.Prove(2, raw, &rec, c)
	if err != nil {
		t.Fatal(err)
	}
	note, err := s.service.Sign(c)
	if err != nil {
		t.Fatal(err)
	}
	line, err := s.a1.Cosign(note, epoch)
	if err == nil {
		note, err = witness.AddCosignature(note, line, s.a1.Party())
	}
	if err != nil {
		t.Fatal(err)
	}
	p.Roots, p.Checkpoint, p.Signer, p.Witnesses = string(s.roots.PEM()), string(note), s.service.Binding(), []*witness.Binding{s.a1.Binding()}
	return p
}

func (s *signing) log(t testing.TB) *Log {
	t.Helper()
	l := open(t, t.TempDir())
	s.bind(t, l)
	s.append(t, l, 1, 1, 5)
	return l
}

func TestProofOfARecord(t *testing.T) {
	s := newSigning(t)
	l := s.log(t)
	defer closeLog(t, l)
	text, err := EncodeProof(s.proof(t, l))
	if err != nil {
		t.Fatal(err)
	}
	p, err := DecodeProof(text)
	if err != nil {
		t.Fatal(err)
	}
	done, err := p.Check(s.roots.Hash())
	if err != nil || !done.Signed || done.Record.N != 2 || done.Size != 7 || len(done.Witnesses) != 1 || !done.Witnesses[0].Time.Equal(epoch) {
		t.Fatalf("%+v, %v", done, err)
	}
	for name, change := range map[string]func(*Proof){
		"the record": func(p *Proof) {
			p.Record = string(bytes.Replace([]byte(p.Record), []byte(`"item"`), []byte(`"iten"`), 1))
		},
		"its place":              func(p *Proof) { p.Index++ },
		"its place in the batch": func(p *Proof) { p.Seal.At = 0 },
		"the number":             func(p *Proof) { p.Seal.First = 2 },
		"the floor":              func(p *Proof) { p.Seal.Floor++ },
		"the count":              func(p *Proof) { p.Seal.Count-- },
		"the path":               func(p *Proof) { p.Seal.Path = p.Seal.Path[1:] },
		"the signature":          func(p *Proof) { p.Seal.Signature[0] ^= 1 },
		"the signer":             func(p *Proof) { p.Seal.Signer = s.service.Binding() },
		"the checkpoint":         func(p *Proof) { p.Checkpoint = p.Checkpoint[:20] + "9" + p.Checkpoint[20:] },
		"who has signed it":      func(p *Proof) { p.Signer = s.a1.Binding() },
		"the inclusion":          func(p *Proof) { p.Inclusion = p.Inclusion[1:] },
		"a witness":              func(p *Proof) { p.Witnesses[0] = s.service.Binding() },
		"the roots":              func(p *Proof) { p.Roots = "" },
	} {
		q, err := DecodeProof(text)
		if err != nil {
			t.Fatal(err)
		}
		change(q)
		if _, err := q.Check(s.roots.Hash()); transfer.KindOf(err) != transfer.KindDigest {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err = p.Check(newSigning(t).roots.Hash())
	wantKind(t, err, transfer.KindDigest, "another network")
	p.Seal = nil
	if done, err := p.Check(s.roots.Hash()); err != nil || done.Signed {
		t.Errorf("without a seal: %+v, %v", done, err)
	}
}

// FuzzProof: no text proves anything but the proved record.
func FuzzProof(f *testing.F) {
	s := newSigning(f)
	l := s.log(f)
	defer closeLog(f, l)
	p := s.proof(f, l)
	text, err := EncodeProof(p)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	p.Seal = nil
	text, _ = EncodeProof(p)
	f.Add(text)
	f.Add([]byte(`{"v":1,"signer":{}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		q, err := DecodeProof(text)
		if err != nil {
			return
		}
		if done, err := q.Check(s.roots.Hash()); err == nil && string(done.Raw) != p.Record {
			t.Errorf("%s is proved", done.Raw)
		}
	})
}

// The cost of seals, for batches of 100 records.
func BenchmarkSeals(b *testing.B) {
	s := newSigning(b)
	for _, way := range []string{"plain", "sealed"} {
		b.Run(way, func(b *testing.B) {
			dir := filepath.Join(b.TempDir(), "log")
			l := open(b, dir)
			defer closeLog(b, l)
			s.bind(b, l)
			const each = 100
			list := make([]Batch, b.N)
			for n := range list {
				list[n] = s.batch(b, 1, uint64(n)*each+1, uint64(n+1)*each)
			}
			b.ResetTimer()
			for n := range list {
				var err error
				if way == "plain" {
					_, err = l.Append(list[n])
				} else {
					_, err = s.by.Append(l, list[n])
				}
				if err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			if info, err := os.Stat(filepath.Join(dir, recordsName)); err == nil {
				b.ReportMetric(float64(info.Size())/float64(b.N*each), "B/record")
			}
		})
	}
}

// Other agents have appended many records since an agent's first ones. The log finds the old records in several
// questions. Each question reads a part of the log.
func TestRunsThatAreFarBack(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	appendOK(t, l, batchOf(t, "A1", 1, 1, 1, 5))
	appendOK(t, l, batchOf(t, "B1", 1, 1, 1, 3))
	appendOK(t, l, batchOf(t, "A1", 1, 1, 6, 9))
	const others = lookBackMost + 3*lookBackStep
	for n := uint64(1); n <= others; n += 2000 {
		appendOK(t, l, smallBatch("C1", n, min(n+1999, others)))
	}
	closeLog(t, l)
	l = open(t, dir)
	defer closeLog(t, l)
	p := Prover{l}
	size := l.Size()
	for first, want := range map[uint64]int{1: 5, 6: 4} {
		asked := 0
		for {
			runs, missing, err := p.Runs("A1", FormatIncarnation(1), first, 9, size)
			if err != nil || missing || asked > 4 {
				t.Fatalf("from %d on, question %d: %+v, %v, %v", first, asked, runs, missing, err)
			}
			asked++
			if len(runs) > 0 {
				if runs[0].First != first || runs[0].Count != want {
					t.Errorf("from %d on: %+v", first, runs[0])
				}
				break
			}
		}
		if asked < 2 && first == 1 {
			t.Error("the log is too short to need a second question")
		}
	}
}
