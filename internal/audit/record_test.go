package audit

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"ferry/internal/transfer"
)

func fullRecord() Record {
	return Record{V: 1, Agent: "A.1", Incarnation: FormatIncarnation(0xfeed), N: 3, Time: epoch, Event: Completed, Role: RoleSource, Transfer: idOf(1), Source: "A.1", Destination: "B1", Originator: &transfer.Originator{User: "u", Host: "h"}, Job: "job", Meta: map[string]string{"k": "<v>"}, Principal: "U%40H", Request: FactsOf(&transfer.Request{Items: transfer.ItemsOf("a\xff", "b"), Dest: transfer.File("/d/"), Settings: transfer.DefaultSettings(), Options: transfer.Options{Mode: "binary"}}), Items: []transfer.Outcome{{Item: 1, Type: transfer.ItemFile, Path: "/d/a%\xff", Err: transfer.Errorf(transfer.KindDigest, "no")}}, State: transfer.Partial, Code: 20, Error: &transfer.Error{Kind: transfer.KindDigest, Text: "t"}, Reason: "r", Limits: []string{"no-replace rename"}, Gap: &Gap{Agent: "A.1", Incarnation: FormatIncarnation(0xfeed), From: 1, To: 2}, Text: "text", Figures: Figures{Counts: &transfer.Counts{Items: 2, Files: 1}, Lane: "queue", Seconds: 1.5, Resumes: 2, BytesResent: 3}}
}

func TestRecordRoundTrip(t *testing.T) {
	r := fullRecord()
	r.Time = epoch.In(time.FixedZone("", 3600))
	b := encoded(t, r)
	got, err := Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	want := fullRecord()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
	if again := encoded(t, got); string(again) != string(b) {
		t.Errorf("not stable:\n%s\n%s", b, again)
	}
	for _, w := range []string{`"time":"2026-03-01T12:00:00Z"`, `"k":"<v>"`, `"path":"\u0000/d/a%25%FF"`} {
		if !strings.Contains(string(b), w) {
			t.Errorf("%s\ndoes not have %s", b, w)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	good := string(encoded(t, recordOf("A1", 1, 1)))
	with := func(old, new string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("%s has no %s", good, old)
		}
		return strings.Replace(good, old, new, 1)
	}
	if _, err := Decode([]byte(with(`{"v":1`, `{"later":[{}],"v":1`))); err != nil {
		t.Errorf("an unknown field: %v", err)
	}
	for name, c := range map[string]struct {
		text string
		kind transfer.Kind
	}{
		"empty":             {"", transfer.KindUsage},
		"cut":               {good[:len(good)-1], transfer.KindUsage},
		"two":               {good + good, transfer.KindUsage},
		"no object":         {`[1]`, transfer.KindUsage},
		"version 2":         {with(`"v":1`, `"v":2`), transfer.KindVersion},
		"no version":        {with(`"v":1,`, ``), transfer.KindVersion},
		"agent's form":      {with(`"agent":"A1"`, `"agent":"A 1"`), transfer.KindUsage},
		"incarnation":       {with(`"0000000000000001"`, `"1"`), transfer.KindUsage},
		"upper incarnation": {with(`"0000000000000001"`, `"000000000000000A"`), transfer.KindUsage},
		"number":            {with(`"n":1`, `"n":0`), transfer.KindUsage},
		"negative number":   {with(`"n":1`, `"n":-1`), transfer.KindUsage},
		"event":             {with(`"event":"item"`, `"event":""`), transfer.KindUsage},
		"time":              {with(`"time":"2026-03-01T12:00:01Z",`, ``), transfer.KindUsage},
		"not UTF-8":         {with(`"role":"destination"`, "\"role\":\"\xff\""), transfer.KindUsage},
		"deep":              {with(`{"v"`, `{"x":`+strings.Repeat("[", 32)+strings.Repeat("]", 32)+`,"v"`), transfer.KindTooLarge},
		"large":             {with(`{"v"`, `{"x":"`+strings.Repeat("a", MaxRecord)+`","v"`), transfer.KindTooLarge},
	} {
		if _, err := Decode([]byte(c.text)); transfer.KindOf(err) != c.kind {
			t.Errorf("%s: %v, want kind %v", name, err, c.kind)
		}
	}
	if _, err := Decode([]byte(with(`{"v"`, `{"x":`+strings.Repeat("[", 31)+`"]]]"`+strings.Repeat("]", 31)+`,"v"`))); err != nil {
		t.Errorf("32 deep: %v", err)
	}
}

func TestEncodeRefuses(t *testing.T) {
	r := recordOf("A1", 1, 1)
	r.Text = strings.Repeat("x", MaxRecord)
	_, err := Encode(&r)
	wantKind(t, err, transfer.KindTooLarge, "limit is 1047552")
	r = recordOf("A1", 1, 0)
	_, err = Encode(&r)
	wantKind(t, err, transfer.KindUsage, "no number")
}

// Every record that can be encoded can be sent. Every batch filled by Add can be decoded, with its records' bytes
// unchanged.
func TestBatchHoldsWhatAddTakes(t *testing.T) {
	r := recordOf("A1", 1, 1)
	r.Text = strings.Repeat("<", MaxRecord-len(encoded(t, r))-len(`,"text":""`))
	big := encoded(t, r)
	if len(big) != MaxRecord {
		t.Fatalf("the record has %d bytes", len(big))
	}
	name := transfer.AgentName(strings.Repeat("A", 28))
	for _, fill := range []json.RawMessage{big, encoded(t, recordOf("A1", 1, 1))} {
		b := Batch{Agent: name, Incarnation: FormatIncarnation(1<<64 - 1), Floor: MaxNumber}
		for b.Add(fill) {
		}
		text, err := EncodeBatch(&b)
		if err != nil {
			t.Fatal(err)
		}
		if len(text) < MaxBatch-2*batchEnvelope {
			t.Errorf("a full batch has only %d bytes", len(text))
		}
		got, err := DecodeBatch(text)
		if err != nil {
			t.Fatal(err)
		}
		for i, raw := range got.Records {
			if string(raw) != string(fill) {
				t.Fatalf("record %d changed", i)
			}
		}
		if len(got.Records) != len(b.Records) || got.Floor != b.Floor || got.Agent != name {
			t.Errorf("the batch changed")
		}
	}
}

func TestBatchRefuses(t *testing.T) {
	for text, kind := range map[string]transfer.Kind{
		`{"v":2,"agent":"A1","incarnation":"0000000000000001","floor":1,"records":[]}`:           transfer.KindVersion,
		`{"v":1,"agent":"a","incarnation":"0000000000000001","floor":1,"records":[]}`:            transfer.KindUsage,
		`{"v":1,"agent":"A1","incarnation":"x","floor":1,"records":[]}`:                          transfer.KindUsage,
		`{"v":1,"agent":"COORDINATION","incarnation":"0000000000000001","floor":1,"records":[]}`: transfer.KindUsage,
		`{"v":1,"agent":"A1","incarnation":"0000000000000001","floor":-1,"records":[]}`:          transfer.KindUsage,
		strings.Repeat(" ", MaxBatch+1):                                                          transfer.KindTooLarge,
	} {
		if _, err := DecodeBatch([]byte(text)); transfer.KindOf(err) != kind {
			t.Errorf("%.90s: %v, want kind %v", text, err, kind)
		}
	}
}

func TestReceiptRoundTrip(t *testing.T) {
	want := Receipt{V: 1, Agent: "A1", Incarnation: FormatIncarnation(2), Have: 3, Index: -1}
	b, err := EncodeReceipt(want)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := DecodeReceipt(b); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	_, err = DecodeReceipt([]byte(`{"v":9}`))
	wantKind(t, err, transfer.KindVersion)
}

// Any records within FitItems and FactsOf can be encoded, with the worst names and metadata.
func TestWorstRecordsFit(t *testing.T) {
	worstPath := transfer.Path(strings.Repeat("\x01", transfer.MaxPath))
	o := transfer.Outcome{Item: 1 << 63, Type: transfer.ItemBad, Path: worstPath, Source: worstPath, Size: 1 << 62,
		Note: strings.Repeat("\x01", 100), Version: transfer.Version(strings.Repeat("\xff", transfer.MaxVersion)),
		Err: &transfer.Error{Kind: 255, Text: strings.Repeat("\x01", 1000), Hint: strings.Repeat("\x01", 1000)}}
	var items []transfer.Outcome
	for range 1000 {
		items = append(items, o)
	}
	n := FitItems(items)
	if n < 1 || n == len(items) {
		t.Fatalf("%d fit", n)
	}
	r := recordOf("A1", 1, 1)
	r.Items = items[:n]
	encoded(t, r)
	if FitItems(items[:1]) != 1 || FitItems(nil) != 0 || FitItems(make([]transfer.Outcome, 256)) != 256 {
		t.Error("few items do not fit")
	}

	q := &transfer.Request{Dest: transfer.File(worstPath), Meta: map[string]string{}}
	for i := range 1000 {
		q.Items = append(q.Items, transfer.RequestItem{Source: transfer.File(worstPath)})
		if i < transfer.MaxMeta {
			k := string(rune('a'+i/26)) + string(rune('a'+i%26))
			q.Meta[k] = strings.Repeat("\x01", transfer.MaxMetaValue-len(k))
		}
	}
	r = recordOf("A1", 1, 1)
	r.Request, r.Meta = FactsOf(q), q.Meta
	encoded(t, r)
	if got := len(r.Request.Sources) + r.Request.MoreSources; got != 1000 || r.Request.MoreSources == 0 {
		t.Errorf("%d sources named, %d counted", len(r.Request.Sources), r.Request.MoreSources)
	}
}

func FuzzDecode(f *testing.F) {
	full, recs := fullRecord(), recordOf("A1", 1, 1)
	for _, r := range []*Record{&full, &recs} {
		b, err := Encode(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(`{"v":1}`))
	f.Add([]byte(strings.Repeat(`[`, 40)))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := Decode(b)
		if err != nil {
			return
		}
		again, err := Encode(&r)
		if err != nil {
			if transfer.KindOf(err) == transfer.KindTooLarge {
				return // a text that was short without escapes may grow
			}
			t.Fatalf("decoded but cannot be encoded: %v", err)
		}
		r2, err := Decode(again)
		if err != nil {
			t.Fatalf("%v\n%s", err, again)
		}
		if last, err := Encode(&r2); err != nil || string(last) != string(again) {
			t.Fatalf("not stable:\n%s\n%s", again, last)
		}
	})
}

func FuzzDecodeBatch(f *testing.F) {
	b := batchOf(f, "A1", 1, 1, 1, 3)
	text, err := EncodeBatch(&b)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"v":1,"agent":"A1","incarnation":"0000000000000001","floor":1,"records":[null,1,"x",{}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		b, err := DecodeBatch(text)
		if err != nil {
			return
		}
		key, err := b.stream()
		if err != nil {
			t.Fatal(err)
		}
		list, err := b.entries(key)
		if err != nil {
			return
		}
		for i, e := range list {
			if e.rec.stream() != key || i > 0 && e.rec.N != list[i-1].rec.N+1 || strings.Contains(string(e.body), "\n") {
				t.Fatalf("record %d: %s", i, e.body)
			}
		}
	})
}
