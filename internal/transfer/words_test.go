package transfer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestIDs(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_123)
	seen := map[ID]bool{}
	for range 1000 {
		id := NewID(now)
		if seen[id] || id.IsZero() || id[6]>>4 != 7 || id[8]>>6 != 2 || !id.Time().Equal(now) {
			t.Fatalf("%s", id)
		}
		seen[id] = true
		back, err := ParseID(id.String())
		if err != nil || back != id {
			t.Fatalf("%s became %s, %v", id, back, err)
		}
		if back, err := ParseID(strings.ToUpper(id.String())); err != nil || back != id {
			t.Fatalf("%s in capitals became %s, %v", id, back, err)
		}
	}
	early, late := NewID(now), NewID(now.Add(time.Millisecond))
	if early.String() >= late.String() || string(early[:]) >= string(late[:]) {
		t.Error("IDs do not sort by time")
	}
	var id ID
	if err := json.Unmarshal([]byte(`"`+late.String()+`"`), &id); err != nil || id != late {
		t.Errorf("from JSON: %s, %v", id, err)
	}
	if err := json.Unmarshal([]byte(`""`), &id); err != nil || !id.IsZero() {
		t.Errorf("the empty text: %s, %v", id, err)
	}
	for _, s := range []string{"", "x", "01890a5d-ac96-774b-bcce-b302099a805", "01890a5d-ac96-774b-bcce-b302099a80577",
		"01890a5d-ac96-474b-bcce-b302099a8057", "01890a5d-ac96-774b-0cce-b302099a8057", "01890a5d+ac96-774b-bcce-b302099a8057",
		"0189-a5d-ac96-774b-bcce-b302099a8057", "01890a5g-ac96-774b-bcce-b302099a8057"} {
		if id, err := ParseID(s); KindOf(err) != KindUsage || !id.IsZero() && s == "" {
			t.Errorf("%q: %v", s, err)
		}
	}
}

func TestIDSuffix(t *testing.T) {
	for s, ok := range map[string]bool{"9a8057": true, "9A8057": true, "b302099a8057": true, "01890a5d-ac96-774b-bcce-b302099a8057": true,
		"a8057": false, "": false, "9a805g": false, strings.Repeat("a", 37): false, "9a 057": false} {
		if err := CheckIDSuffix(s); ok != (err == nil) {
			t.Errorf("%q: %v", s, err)
		}
	}
}

func TestAgentNames(t *testing.T) {
	for s, want := range map[string]AgentName{"ab": "AB", "Alpha": "ALPHA", "9x": "9X", "a.b_c%d-e": "A.B_C%D-E",
		strings.Repeat("a", 28): AgentName(strings.Repeat("A", 28))} {
		if got, err := ParseAgentName(s); err != nil || got != want {
			t.Errorf("%q: %s, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "a", strings.Repeat("a", 29), "-ab", ".ab", "a b", "a/b", "a*", "ä1", "a\n", "_a"} {
		if got, err := ParseAgentName(s); KindOf(err) != KindUsage {
			t.Errorf("%q: %s, %v", s, got, err)
		}
	}
	for text, token := range map[string]string{"Alpha-1_x": "ALPHA-1_X", "a.b": "A%2EB", "a%b": "A%25B", "u@h": "U%40H", "*>": "%2A%3E", "é": "%C3%89"} {
		if got := Token(text); got != token {
			t.Errorf("%q: %s, want %s", text, got, token)
		}
	}
}

// TestNamesOfPipes: a pipe's name distinguishes its user and its transfer from others, and is a valid name of an agent.
func TestNamesOfPipes(t *testing.T) {
	id, other := ID{6: 0x70, 8: 0x80, 15: 1}, ID{6: 0x70, 8: 0x80, 15: 2}
	bob := StreamAgentOf("ferry://n/user/bob", id)
	if got, err := ParseAgentName(string(bob)); err != nil || got != bob || bob.Token() != string(bob) {
		t.Errorf("%s is read as %s, %v", bob, got, err)
	}
	if plain := StreamAgent(id); !plain.Stream() || plain.StreamUser() != "" || plain.StreamOf("ferry://n/user/bob") {
		t.Errorf("%s is a pipe: %v, of the user %q", plain, plain.Stream(), plain.StreamUser())
	}
	if !bob.Stream() || !bob.StreamOf("ferry://n/user/bob") || bob.StreamOf("ferry://n/user/eve") || bob.StreamOf("") {
		t.Errorf("%s is not a pipe of bob alone", bob)
	}
	if next := StreamAgentOf("ferry://n/user/bob", other); next == bob || next.StreamUser() != bob.StreamUser() {
		t.Errorf("the pipes of bob are %s and %s", bob, next)
	}
	if eve := StreamAgentOf("ferry://n/user/eve", id); eve.StreamUser() == bob.StreamUser() {
		t.Errorf("the pipes of two users are %s and %s", bob, eve)
	}
	for _, name := range []AgentName{"", "PIPE-", "PIPE-1", bob + "0", bob[:len(bob)-1], "PIPE-0123456789AG", "pipe-0123456789ab", "XPIPE-0123456789AB", "PIPE-0123456789ABCDEF"} {
		if name.Stream() || name.StreamUser() != "" || name.StreamOf("") {
			t.Errorf("%q is a pipe", name)
		}
	}
}

func TestPaths(t *testing.T) {
	for p, want := range map[Path]string{"plain/é": "plain/é", "100%": "100%25", "a\nb": "a%0Ab", "\xff": "%FF", "\xef\xbf\xbd": "\uFFFD", "a\u200bb": "a%E2%80%8Bb", "": ""} {
		if got := p.String(); got != want {
			t.Errorf("%q: %s, want %s", string(p), got, want)
		}
	}
	for _, s := range []string{"%", "a%4", "%zz", "%F", "x%0"} {
		if _, err := ParsePath(s); KindOf(err) != KindUsage {
			t.Errorf("%q: %v", s, err)
		}
	}
	if p, err := ParsePath("%fF%2f"); err != nil || p != "\xff/" {
		t.Errorf("%q, %v", string(p), err)
	}
	long := Path(strings.Repeat("a/", 2047))
	for p, says := range map[Path]string{"": "empty", "a\x00b": "NUL", long + "abc": "4097 bytes; the limit is 4096",
		"x/" + Path(strings.Repeat("n", 256)): "256 bytes; the limit is 255"} {
		if err := p.Check(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.20q: %v", string(p), err)
		}
	}
	for _, p := range []Path{"a", "\xff", long + "ab", Path(strings.Repeat("n", 255)) + "/x"} {
		if err := p.Check(); err != nil {
			t.Errorf("%.20q: %v", string(p), err)
		}
	}
}

func FuzzPath(f *testing.F) {
	for _, s := range []string{"", "a/b", "100%", "\xff\xfe", "%41", "é\u200b\n", "\xef\xbf\xbd"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		text := Path(s).String()
		back, err := ParsePath(text)
		if err != nil || back != Path(s) {
			t.Fatalf("%q as %q became %q, %v", s, text, string(back), err)
		}
		for _, r := range text {
			if r < ' ' || r == 0x7f {
				t.Fatalf("%q is shown as %q", s, text)
			}
		}
		data, err := json.Marshal(Path(s))
		if err != nil {
			t.Fatal(err)
		}
		var p Path
		if err := json.Unmarshal(data, &p); err != nil || p != Path(s) {
			t.Fatalf("%q through JSON became %q, %v", s, string(p), err)
		}
		if p, err := ParsePath(s); err == nil {
			if again, err := ParsePath(p.String()); err != nil || again != p {
				t.Fatalf("%q read as %q, and then as %q", s, string(p), string(again))
			}
		}
	})
}

func TestSplitAgent(t *testing.T) {
	for s, want := range map[string][2]string{
		"a":         {"", "a"},
		"/x:y":      {"", "/x:y"},
		"./ab:c":    {"", "./ab:c"},
		"../ab:c":   {"", "../ab:c"},
		"c:/x":      {"", "c:/x"}, // a drive
		"C:x":       {"", "C:x"},
		"dir/ab:c":  {"", "dir/ab:c"},
		"ab:c":      {"AB", "c"},
		"ab:/c:d":   {"AB", "/c:d"},
		"Alpha:d:/": {"ALPHA", "d:/"},
		":x":        {"", ":x"},
	} {
		if at, rest, err := SplitAgent(s); err != nil || string(at) != want[0] || rest != want[1] {
			t.Errorf("%q: %s, %s, %v", s, at, rest, err)
		}
	}
	for _, s := range []string{"", "ab:", "a b:c", strings.Repeat("a", 29) + ":x"} {
		if at, rest, err := SplitAgent(s); KindOf(err) != KindUsage {
			t.Errorf("%q: %s, %s, %v", s, at, rest, err)
		}
	}
	if s := File("x\n").On("AB"); s != "AB:x%0A" {
		t.Error(s)
	}
}

func FuzzSplitAgent(f *testing.F) {
	for _, s := range []string{"", "/a:b", ".x", "C:/x", "ab:c", "agent:with:colons", "ab:", "a\x00b:c"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		at, rest, err := SplitAgent(s)
		switch {
		case err != nil:
			if KindOf(err) != KindUsage {
				t.Fatalf("%q: kind %s", s, KindOf(err))
			}
		case at == "":
			if rest != s {
				t.Fatalf("%q is the path %q", s, rest)
			}
		default:
			if s[0] == '/' || s[0] == '.' || len(at) < 2 || rest == "" ||
				!strings.EqualFold(string(at)+":"+rest, s) || !strings.HasSuffix(s, ":"+rest) {
				t.Fatalf("%q: %s, %s", s, at, rest)
			}
		}
	})
}

// The states of the protocol, as in its table. Parked is added for each state where a restart can find three crashes,
// and Withdrawn for a transfer that was never accepted.
var protocolStates = map[State]string{
	Queued:      "accepted withdrawn",
	Accepted:    "negotiating parked cancelled",
	Negotiating: "running waiting cancelling failed parked cancelled",
	Waiting:     "negotiating cancelling failed parked cancelled",
	Running:     "negotiating waiting settling cancelling parked",
	Settling:    "successful partial failed",
	Cancelling:  "cancelled",
	Parked:      "accepted cancelled",
	Successful:  "", Partial: "", Failed: "", Cancelled: "", Withdrawn: "",
}

// The table of the states at the destination.
func TestIncomingStates(t *testing.T) {
	want := map[Incoming]string{Receiving: "decided abandoned cancelled lost", Decided: "done lost", Done: "", Abandoned: "", Revoked: "", Orphaned: ""}
	for s, next := range want {
		if s.Final() != (next == "") {
			t.Errorf("%s: final %v", s, s.Final())
		}
		for n := range want {
			if s.CanMove(n) != slices.Contains(strings.Fields(next), string(n)) {
				t.Errorf("%s to %s: %v", s, n, s.CanMove(n))
			}
		}
	}
	if s := Incoming("nonsense"); s.Final() || s.CanMove(Done) {
		t.Errorf("%s: final %v", s, s.Final())
	}
}

func TestStates(t *testing.T) {
	all := States()
	if len(all) != len(protocolStates) {
		t.Errorf("%d states, %d in the table", len(all), len(protocolStates))
	}
	reached := map[State]bool{Queued: true}
	for _, s := range all {
		var can []string
		for _, next := range all {
			if next != s && s.CanMove(next) {
				can = append(can, string(next))
				reached[next] = true
			}
		}
		want := strings.Fields(protocolStates[s])
		for _, w := range want {
			if !slices.Contains(can, w) {
				t.Errorf("%s may go to %s by the table, and cannot", s, w)
			}
		}
		for _, c := range can {
			if !slices.Contains(want, c) {
				t.Errorf("%s can go to %s, which the table does not have", s, c)
			}
		}
		if s.Final() != (protocolStates[s] == "") || s.Final() != (len(can) == 0) {
			t.Errorf("%s: final %v, moves %v", s, s.Final(), can)
		}
		if s.CanMove(s) == s.Final() {
			t.Errorf("%s may stay: %v", s, s.CanMove(s))
		}
		if string(s) == "" || strings.ToLower(string(s)) != string(s) {
			t.Errorf("%q is not for people", s)
		}
	}
	for _, s := range all {
		if !reached[s] {
			t.Errorf("%s cannot be reached", s)
		}
	}
	if State("nonsense").Final() || State("nonsense").CanMove(Accepted) {
		t.Error("a state that is none can move")
	}
	for s, code := range map[State]int{Successful: 0, Partial: 20, Failed: 40, Cancelled: 41, Withdrawn: 69, Parked: 70} {
		if s.Code() != code {
			t.Errorf("%s has code %d, want %d", s, s.Code(), code)
		}
	}
	for s, final := range map[Incoming]bool{Receiving: false, Decided: false, Done: true, Abandoned: true, Revoked: true, Orphaned: true} {
		if s.Final() != final {
			t.Errorf("%s: final %v", s, s.Final())
		}
	}
}

// The numbers, names and codes of kinds are on the wire and on disk: lines are
// added here, never changed.
const goldenKinds = `0 none 0
1 internal 1
2 usage 64
3 no-queue-manager 75
4 unknown-agent 49
5 outside-root 40
6 missing 40
7 unreadable 40
8 exists 40
9 digest 40
10 source-changing 40
11 wrong-type 40
12 unwritable 40
13 busy 69
14 unreachable 49
15 no-space 69
16 clock 70
17 conflict 70
18 parked 70
19 cancelled 41
20 recovery-timeout 69
21 unknown-outcome 40
22 too-large 64
23 version 1
24 not-built 64
25 not-found 26
26 already-ending 27
27 timeout 2
28 agent-alive 70
29 unmappable 40
30 malformed 40
31 moved-away 40
32 skipped 40
33 no-root 66
34 in-use 75
35 denied 53
36 program 40
37 trigger 42
38 document 43
39 together 40
40 replaced 40
41 exit 21
`

func TestKinds(t *testing.T) {
	var got strings.Builder
	for k := Kind(0); !strings.HasPrefix(k.String(), "kind-"); k++ {
		fmt.Fprintf(&got, "%d %s %d\n", k, k, k.Code())
	}
	if got.String() != goldenKinds {
		t.Errorf("kinds are\n%swant\n%s", got.String(), goldenKinds)
	}
	waits := []Kind{KindBusy, KindUnreachable, KindNoSpace}
	for k := range Kind(255) {
		if k.Waits() != slices.Contains(waits, k) {
			t.Errorf("%s waits: %v", k, k.Waits())
		}
	}
}

func TestKindOf(t *testing.T) {
	_, missing := os.Open(filepath.Join(t.TempDir(), "x"))
	for _, c := range []struct {
		err  error
		want Kind
	}{
		{nil, KindNone},
		{errors.New("x"), KindInternal},
		{missing, KindMissing},
		{&fs.PathError{Err: syscall.ENOSPC}, KindNoSpace},
		{fmt.Errorf("x: %w", syscall.EDQUOT), KindNoSpace},
		{syscall.EEXIST, KindExists},
		{syscall.EACCES, KindUnreadable},
		{syscall.EIO, KindInternal},
		{context.Canceled, KindCancelled},
		{Errorf(KindDigest, "x: %w", syscall.ENOSPC), KindDigest},
		{fmt.Errorf("x: %w", Errorf(KindLost, "y")), KindLost},
		{errors.Join(errors.New("a"), Errorf(KindBusy, "b")), KindBusy},
	} {
		if got := KindOf(c.err); got != c.want {
			t.Errorf("%v is %s, want %s", c.err, got, c.want)
		}
		if e := AsError(c.err); (e == nil) != (c.err == nil) || e != nil && e.Kind != c.want {
			t.Errorf("%v as an error is %+v", c.err, e)
		}
	}
	e := Errorf(KindNoSpace, "no space on %s: %w", "x", syscall.ENOSPC)
	if !errors.Is(e, syscall.ENOSPC) || e.Error() != "no space on x: "+syscall.ENOSPC.Error() {
		t.Errorf("%v", e)
	}
	if h := e.WithHint("make room"); h.Error() != e.Text+"; make room" || e.Hint != "" || !errors.Is(h, syscall.ENOSPC) {
		t.Errorf("%v, %v", h, e)
	}
	data, err := json.Marshal(e.WithHint("h"))
	if want := fmt.Sprintf(`{"kind":"no-space","text":%q,"hint":"h"}`, e.Text); err != nil || string(data) != want {
		t.Errorf("%s, %v", data, err)
	}
}

func TestDurations(t *testing.T) {
	for s, want := range map[string]Duration{"-1": -1, "0s": 0, "3s": Duration(3 * time.Second), "24h": Duration(24 * time.Hour), "1h30m": Duration(90 * time.Minute)} {
		got, err := ParseDuration(s)
		if err != nil || got != want {
			t.Errorf("%q: %v, %v", s, got, err)
		}
		if back, err := ParseDuration(got.String()); err != nil || back != got {
			t.Errorf("%q written is %s, read %v, %v", s, got, back, err)
		}
	}
	for _, s := range []string{"", "5", "-2", "-3s", "soon", "1d"} {
		if got, err := ParseDuration(s); KindOf(err) != KindUsage {
			t.Errorf("%q: %v, %v", s, got, err)
		}
	}
	for d, want := range map[Duration]time.Duration{0: DefaultRecovery, -1: -1, 5: 5} {
		if got := (&Request{Recovery: d}).RecoveryTimeout(); got != want {
			t.Errorf("recovery %v is %v", d, got)
		}
	}
}

func TestSizes(t *testing.T) {
	for s, want := range map[string]int{"0": 0, "65536": 65536, "64K": 65536, "64KiB": 65536, "64kb": 65536, "1M": 1 << 20, "1MiB": 1 << 20, "2g": 2 << 30, "512B": 512} {
		if got, err := ParseSize(s); err != nil || got != want {
			t.Errorf("%q: %d, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "K", "-1", "1.5M", "1T", "5000000000", "99999999G", "1 K", "0x10"} {
		if got, err := ParseSize(s); KindOf(err) != KindUsage {
			t.Errorf("%q: %d, %v", s, got, err)
		}
	}
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 5 << 20: "5.0 MiB", 1 << 62: "4.0 EiB"} {
		if got := FormatBytes(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
}

func request() Request {
	return Request{Version: RequestVersion, ID: NewID(time.UnixMilli(1)), Source: "ALPHA", Destination: "BETA", Items: ItemsOf("a"), Dest: File("b")}
}

func TestRequestCheck(t *testing.T) {
	meta := func(n, size int) map[string]string {
		m := map[string]string{}
		for k := range n {
			key := fmt.Sprintf("k%03d", k)
			m[key] = strings.Repeat("v", size-len(key))
		}
		return m
	}
	for _, good := range []func(*Request){
		func(*Request) {},
		func(r *Request) { r.Version = RequestVersion + 1 },
		func(r *Request) { r.Meta = meta(64, 1024) },
		func(r *Request) { r.Job = strings.Repeat("j", 1024) },
		func(r *Request) { r.Priority = 9 },
		func(r *Request) {
			r.Settings = Settings{ChunkSize: 1 << 20, WindowSize: 10000, FrameSize: 1000, CheckpointInterval: 1000}
		},
		func(r *Request) {
			r.Settings = Settings{ChunkSize: 4096, WindowSize: 1, FrameSize: 1, CheckpointInterval: 1}
		},
		func(r *Request) {
			r.Checksum, r.IfExists, r.Durability, r.Lane = "none", "overwrite", "process", "queue"
		},
		func(r *Request) { r.Delivery = DeliveryStored },
		func(r *Request) { r.Compress = CompressFast },
		func(r *Request) { r.Compress = CompressHigh },
		func(r *Request) { r.Compress = CompressAuto },
	} {
		r := request()
		good(&r)
		if err := r.Check(); err != nil {
			t.Errorf("%+v: %v", r, err)
		}
	}
	for _, c := range []struct {
		change func(*Request)
		kind   Kind
		says   string
	}{
		{func(r *Request) { r.Version = 0 }, KindVersion, "version 0"},
		{func(r *Request) { r.Version = RequestVersion + 2 }, KindVersion, "version 5"},
		{func(r *Request) { r.ID = ID{} }, KindUsage, "no transfer ID"},
		{func(r *Request) { r.Source = "x" }, KindUsage, `"x"`},
		{func(r *Request) { r.Destination = "" }, KindUsage, "agent name"},
		{func(r *Request) { r.Items = nil }, KindUsage, "no source"},
		{func(r *Request) { r.Items = ItemsOf("a", "") }, KindUsage, "empty"},
		{func(r *Request) { r.Dest = Location{} }, KindUsage, "empty"},
		{func(r *Request) { r.Dest = File(Path(strings.Repeat("d/", 2049))) }, KindUsage, "4098 bytes; the limit is 4096"},
		{func(r *Request) { r.Delivery, r.Lane = DeliveryStored, LaneDirect }, KindUsage, "--lane direct goes past the queue manager"},
		{func(r *Request) { r.Delivery, r.Items[0].Dest = DeliveryStored, File("other") }, KindUsage, "one DEST"},
		{func(r *Request) { r.Mode = "hex" }, KindUsage, `--mode "hex" is unknown`},
		{func(r *Request) { r.EOL = "lf" }, KindUsage, "--eol belongs to text mode"},
		{func(r *Request) { r.KeepBlanks = true }, KindUsage, "--keep-trailing-blanks belongs to text mode"},
		{func(r *Request) { r.Mode, r.ToEncoding = "text", strings.Repeat("x", 65) }, KindTooLarge, "65 bytes; the limit is 64"},
		{func(r *Request) { r.Mode, r.Replace = "text", "\xff" }, KindUsage, "not UTF-8"},
		{func(r *Request) { r.LongLines = "cut" }, KindUsage, `--long-lines "cut" is unknown`},
		{func(r *Request) { r.Lane = "carrier pigeon" }, KindUsage, `--lane "carrier pigeon" is unknown`},
		{func(r *Request) { r.Compress = "zip" }, KindUsage, `--compress "zip" is unknown; it is one of none, fast, high, auto`},
		{func(r *Request) { r.Checksum = "crc" }, KindUsage, "xxh3, md5, sha256, none"},
		{func(r *Request) { r.Priority = 10 }, KindUsage, "priority 10 is out of range; it goes from 0 to 9"},
		{func(r *Request) { r.Priority = -1 }, KindUsage, "priority -1"},
		{func(r *Request) { r.Meta = meta(65, 10) }, KindTooLarge, "65 metadata entries; the limit is 64"},
		{func(r *Request) { r.Meta = meta(1, 1025) }, KindTooLarge, "1025 bytes; the limit is 1024"},
		{func(r *Request) { r.Meta = map[string]string{"": "x"} }, KindUsage, "no name"},
		{func(r *Request) { r.Job = strings.Repeat("j", 1025) }, KindTooLarge, "1025 bytes; the limit is 1024"},
		{func(r *Request) { r.Settings.ChunkSize = 4095 }, KindUsage, "chunk size 4095 is out of range; it goes from 4096 to 1048576"},
		{func(r *Request) { r.Settings.WindowSize = 10001 }, KindUsage, "window size 10001"},
		{func(r *Request) { r.Settings.FrameSize = -1 }, KindUsage, "frame size -1"},
		{func(r *Request) { r.Settings.CheckpointInterval = 1001 }, KindUsage, "1 to 1000"},
	} {
		r := request()
		c.change(&r)
		if err := r.Check(); KindOf(err) != c.kind || !strings.Contains(fmt.Sprint(err), c.says) {
			t.Errorf("%v (kind %s), want %q of kind %s", err, KindOf(err), c.says, c.kind)
		}
	}
}

func TestDurable(t *testing.T) {
	for _, c := range []struct {
		durability, disposition string
		want                    bool
	}{{"", "", true}, {"full", "", true}, {"process", "", false}, {"process", "leave", false}, {"process", "delete", true}} {
		if got := (&Request{Durability: c.durability, Options: Options{Disposition: c.disposition}}).Durable(); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}

	// Appended data is synced, in whichever part the request asks to append.
	appended := Options{IfExists: IfExistsAppend}
	for _, q := range []Request{{Options: appended}, {Items: []RequestItem{{}, {Options: appended}}}, {Rest: &Rest{Appends: true}}} {
		if q.Durability = DurabilityProcess; !q.Durable() {
			t.Errorf("%+v", q)
		}
	}
}

func TestSettingsOr(t *testing.T) {
	got := Settings{WindowSize: 3}.Or(DefaultSettings())
	if want := (Settings{ChunkSize: 256 << 10, WindowSize: 3, FrameSize: 5, CheckpointInterval: 1}); got != want {
		t.Errorf("%+v", got)
	}
}

func TestCounts(t *testing.T) {
	fail, skip := &Error{Kind: KindMissing}, &Error{Kind: KindSkipped}
	for _, c := range []struct {
		outcomes []Outcome
		want     Counts
		end      State
	}{
		{nil, Counts{}, Successful},
		{[]Outcome{{Type: ItemFile, Size: 5}, {Type: ItemDir}}, Counts{Items: 2, Files: 1, Dirs: 1, Bytes: 5}, Successful},
		{[]Outcome{{Type: ItemFile, Size: 5, Err: fail}}, Counts{Items: 1, FilesFailed: 1}, Failed},
		{[]Outcome{{Type: ItemFile}, {Type: ItemDir, Existed: true}, {Type: ItemDir}}, Counts{Items: 3, Files: 1, Dirs: 1}, Successful},
		{[]Outcome{{Type: ItemBad, Err: fail}, {Type: ItemDir}}, Counts{Items: 2, FilesFailed: 1, Dirs: 1}, Failed},
		{[]Outcome{{Type: ItemFile, Err: skip}, {Type: ItemDir}}, Counts{Items: 2, FilesSkipped: 1, Dirs: 1}, Successful},
		{[]Outcome{{Type: ItemFile, Err: skip}, {Type: ItemBad, Err: fail}}, Counts{Items: 2, FilesSkipped: 1, FilesFailed: 1}, Failed},
		{[]Outcome{{Type: ItemBad, Err: fail}, {Type: ItemFile, Size: 1}}, Counts{Items: 2, FilesFailed: 1, Files: 1, Bytes: 1}, Partial},
	} {
		var got Counts
		for i := range c.outcomes {
			got.Add(&c.outcomes[i])
		}
		if got != c.want || got.Ending() != c.end {
			t.Errorf("%+v: %+v, %s", c.outcomes, got, got.Ending())
		}
	}
}

// TestSummaryNames: scripts read these names; some may be added, none changed.
func TestSummaryNames(t *testing.T) {
	p := Progress{ID: NewID(time.UnixMilli(1)), State: Partial, Code: 20, Started: time.Unix(10, 0), Ended: time.Unix(12, 500_000_000), Counts: Counts{Files: 3, FilesFailed: 1, Bytes: 77, FilesSkipped: 5, FilesReplaced: 7, FilesLeftOut: 6, LinksSkipped: 2, TimesNotKept: 8, Warnings: 1, Dirs: 4}, Lane: "queue", Reason: &Error{Kind: KindMissing, Text: "x"}, Failures: []Outcome{{Item: 1}}, Traffic: Traffic{Resumes: 5, BytesResent: 6, BytesWire: 7}, Promised: Promised{Compress: "auto"}}
	data, err := json.Marshal(p.Summary())
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(data, &m); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]any{"message_type": "summary", "id": p.ID.String(), "state": "partial", "result_code": 20.0, "files": 3.0,
		"files_failed": 1.0, "bytes": 77.0, "seconds": 2.5, "lane": "queue", "resumes": 5.0, "bytes_resent": 6.0, "bytes_wire": 7.0, "compress": "auto", "files_skipped": 5.0, "files_replaced": 7.0, "files_left_out": 6.0, "times_not_kept": 8.0} {
		if !reflect.DeepEqual(m[name], want) {
			t.Errorf("%s is %v, want %v", name, m[name], want)
		}
	}
	if names := slices.Sorted(maps.Keys(m)); len(names) != 22 {
		t.Errorf("names: %v", names)
	}
	if s := (&Progress{Started: time.Unix(10, 0)}).Summary(); s.Seconds != 0 {
		t.Errorf("without an end: %v s", s.Seconds)
	}
}

func TestVersionAsText(t *testing.T) {
	for _, v := range []Version{"", "a", "\x01\x00\xff", Version(strings.Repeat("\xff", MaxVersion))} {
		b, err := v.MarshalText()
		var again Version
		if err := errors.Join(err, again.UnmarshalText(b)); err != nil || again != v {
			t.Errorf("%q became %s and %q, %v", v, b, again, err)
		}
	}
	for _, s := range []string{"=", "a", "aa==", "a b", "\n", strings.Repeat("A", 4*MaxVersion/3+8)} {
		if err := new(Version).UnmarshalText([]byte(s)); KindOf(err) != KindMalformed {
			t.Errorf("%q: %v", s, err)
		}
	}
}

// A name in any spelling is read as the same name.
func TestNamesAreReadInCapitals(t *testing.T) {
	var l struct{ A, B, C AgentName }
	if err := json.Unmarshal([]byte(`{"A":"alpha","B":"Alpha","C":""}`), &l); err != nil || l.A != "ALPHA" || l.B != l.A || l.C != "" {
		t.Errorf("%+v, %v", l, err)
	}
	for _, bad := range []string{`"a"`, `"a b"`, `"-a"`, `"a\u0000b"`, `"aaaaaaaaaaaaaaaaaaaaaaaaaaaaa"`, `7`} {
		if err := json.Unmarshal([]byte(bad), &l.A); err == nil {
			t.Errorf("%s is read as %q", bad, l.A)
		}
	}
}

// Kinds and item types are words in JSON, and are read again as the same values.
func TestWordsInJSON(t *testing.T) {
	for n := range 256 {
		k, in := Kind(0), Kind(n)
		b, err := in.MarshalText()
		if err != nil || k.UnmarshalText(b) != nil || k != in {
			t.Errorf("kind %d became %q, and that %d", n, b, k)
		}
	}
	var k Kind
	if err := k.UnmarshalText([]byte("of-a-later-version")); err != nil || k != KindInternal {
		t.Errorf("an unknown kind: %v, %v", k, err)
	}
	for _, in := range []ItemType{0, ItemFile, ItemDir, ItemBad} {
		var is ItemType
		b, err := in.MarshalText()
		if err != nil || is.UnmarshalText(b) != nil || is != in {
			t.Errorf("type %d became %q, and that %d", in, b, is)
		}
	}
	var is ItemType
	if err := is.UnmarshalText([]byte("socket")); KindOf(err) != KindMalformed {
		t.Errorf("an unknown type: %v", err)
	}
}

// A path in UTF-8 stands in JSON unchanged. Any other path survives JSON with its bytes.
func TestPathInJSON(t *testing.T) {
	for p, want := range map[Path]string{"a": `"a"`, "50% ü\n": `"50% ü\n"`, "%41": `"%41"`, "\xff%": `"\u0000%FF%25"`, "": `""`} {
		b, err := json.Marshal(p)
		if err != nil || string(b) != want {
			t.Errorf("%q is %s, want %s: %v", string(p), b, want, err)
		}
		var again Path
		if err := json.Unmarshal(b, &again); err != nil || again != p {
			t.Errorf("%s was read as %q: %v", b, string(again), err)
		}
	}
}
