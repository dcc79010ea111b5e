//go:build linux

package flow_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"ferry/internal/transfer"
	"ferry/test/flow/network"
)

// textSize is the number of characters of a text in the stories with kills.
const textSize = 96 * mib

// A conversion has the forms of a sample at the source and at the destination.
type conversion struct {
	name     string
	from, to form
	flags    []string
	counted  *counted // of the destination's records; nil: it has none
	most     int64    // average bytes of a character at the destination, in hundredths
}

func conversions() []conversion {
	var vb counted
	return []conversion{
		{"EBCDIC to UTF-8", inEBCDIC(true), unixText, []string{"--from-encoding", "IBM-1140"}, nil, 125},
		{"text to variable records", unixText, inVariable(104, 27998, &vb), []string{"--to-encoding", "IBM-1140", "--recfm", "VB", "--lrecl", "104"}, &vb, 104},
		{"line ends that begin to differ", inUTF8("\n", textSize/2, "\r\n"), unixText, nil, nil, 125},
	}
}

// dice returns a random source of the test. SEED repeats a logged one.
func dice(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("SEED"); s != "" {
		var err error
		seed, err = strconv.ParseUint(s, 10, 64)
		must(t, err)
	}
	t.Logf("SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// TestTextKilledAtRandomMoments kills processes at random moments. The converted text is correct, as are the digests of
// both sides, and little is sent again. One conversion uses both lanes and the others one: neither side knows its lane.
func TestTextKilledAtRandomMoments(t *testing.T) {
	t.Parallel()
	for k, c := range conversions() {
		for _, lane := range [][]string{{"tls", "off"}, {"off"}, {"tls"}}[k] {
			t.Run(c.name+", direct lane "+lane, func(t *testing.T) {
				d := dice(t)
				n := network.Up(t, network.Setup{Ferry: ferry, Agents: []string{"ALPHA", "BETA"}, Direct: lane})
				s := sample{seed: d.Uint64(), size: textSize, longest: 300}
				size, sum := s.write(t, n.Path("ALPHA", "big"), c.from)

				carried := n.Wire().Carried("BETA")
				x := n.SendAsync(append([]string{"--mode", "text", "--checksum", "sha256", "ALPHA:big", "BETA:out/"}, c.flags...)...)
				kills := killAtRandom(t, n, d, x, s.size*c.most/100)
				end := x.Wait().Ends("successful", 0).Summary

				wrote, wsum := s.expect(t, n.Path("BETA", "out/big"), c.to)
				once(t, n, end.ID, 1)
				converted(t, n, end.ID, size, sum, wrote, wsum, c.counted)
				again := end.BytesResent
				if lane == "off" {
					again = max(again, carried.Load()-size-size>>8-64<<10)
				}
				p := n.Status(end.ID)
				if most := kills * p.MayResend(); again > most {
					t.Errorf("%d bytes were sent again after %d interruptions; %d may be", again, kills, most)
				}
				t.Logf("resumes %d, sent again %d KiB (it says %d), %.1f s", end.Resumes, again>>10, end.BytesResent>>10, end.Seconds)
			})
		}
	}
}

// killAtRandom kills one process or all, three times, at random points of a file of the given final size. It returns
// the number of kills. A direct transfer may end while only the queue manager is down, and then the remaining kills are
// left out.
func killAtRandom(t *testing.T, n *network.Network, d *rand.Rand, x *network.Sending, size int64) (kills int64) {
	t.Helper()
	for _, stretch := range []int64{5, 30, 55} {
		who := victims[d.IntN(len(victims))]
		at := size * (stretch + d.Int64N(20)) / 100
		n.UntilEvery(fmt.Sprintf("a file grows to %d bytes at BETA, or the transfer ends", at), time.Millisecond, func() bool {
			return n.Grown("BETA") >= at || !x.Running()
		})
		if !x.Running() {
			break
		}
		t.Logf("%s killed at %d KiB", strings.Join(who, "+"), at>>10)
		n.Kill(who...)
		n.Start(who...)
		kills++
	}
	if kills == 0 {
		t.Fatal("the transfer ended before anybody was killed")
	}
	return kills
}

// converted checks the recorded outcome of a transfer's only item, on both sides.
func converted(t *testing.T, n *network.Network, id string, read int64, sum string, wrote int64, wsum string, records *counted) {
	t.Helper()
	want := transfer.Written{Size: wrote, Digest: wsum}
	if records != nil {
		want.Records, want.Long = records.records, records.long
	}
	for _, role := range []string{"source", "destination"} {
		for _, o := range n.Outcomes(n.Audit(id), role) {
			if o.Size != read || o.Digest != sum || o.SrcSum != sum {
				t.Errorf("the %s has on record that %d bytes with digest %s arrived, and %s left; it was %d with %s", role, o.Size, o.Digest, o.SrcSum, read, sum)
			}
			if o.Written == nil || *o.Written != want {
				t.Errorf("the %s has on record that %+v was written; it was %+v", role, o.Written, want)
			}
		}
	}
}

// TestTextThatFailsAfterKills sends a file with a character at its end that cannot be converted. The error is found
// there, after any number of interruptions, and no temporary is left.
func TestTextThatFailsAfterKills(t *testing.T) {
	t.Parallel()
	for _, lane := range []string{"plain", "off"} {
		t.Run("direct lane "+lane, func(t *testing.T) {
			d := dice(t)
			n := network.Up(t, network.Setup{Ferry: ferry, Agents: []string{"ALPHA", "BETA"}, Direct: lane})
			s := sample{seed: d.Uint64(), size: textSize, longest: 200}
			lines := 1
			s.each(func(_ []byte, end bool) { lines++ })
			path := n.Path("ALPHA", "bad")
			size, _ := s.write(t, path, unixText)
			f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
			must(t, err)
			_, err = f.WriteString("ab\xFFcd\n")
			must(t, err)
			must(t, f.Close())

			x := n.SendAsync("--mode", "text", "--to-encoding", "IBM-1140", "ALPHA:bad", "BETA:out/bad")
			killAtRandom(t, n, d, x, s.size)
			r := x.Wait().Ends("failed", 40)
			if want := fmt.Sprintf(`bytes FF.* at offset %d \(line %d\) are no character of code page UTF-8`, size+2, lines); !regexp.MustCompile(want).MatchString(r.Stderr) {
				t.Errorf("it says %q, which has no %s", r.Stderr, want)
			}
			if n.Exists("BETA", "out/bad") {
				t.Error("what could not be converted has its final name")
			}
			n.NoTemporaries("ALPHA", "BETA")
			n.Sound()
		})
	}
}

// TestLargeLine converts and packs one line of any length without holding it in memory. If lines may not be wrapped,
// the line is refused as soon as it is known to be too long. make test-large uses both lanes.
func TestLargeLine(t *testing.T) {
	t.Parallel()
	size, lanes := int64(64*mib), []string{"plain"}
	switch os.Getenv("LARGE") {
	case "full":
		size = 1 << 30
		fallthrough
	case "short":
		lanes = append(lanes, "off")
	}
	for _, lane := range lanes {
		t.Run("direct lane "+lane, func(t *testing.T) {
			dir := t.TempDir()
			space(t, dir, 3*size+1<<30)
			n := network.Up(t, network.Setup{Ferry: ferry, Agents: []string{"ALPHA", "BETA"}, Dir: dir, Direct: lane})
			s := sample{seed: 7, size: size}
			read, sum := s.write(t, n.Path("ALPHA", "line"), unixText)
			var fb, vb counted
			for _, c := range []conversion{
				{"plain", nil, inEBCDIC(false), nil, nil, 0},
				{"fixed", nil, inFixed(80, &fb), []string{"--recfm", "FB", "--lrecl", "80"}, &fb, 0},
				{"variable", nil, inVariable(32756, 32760, &vb), []string{"--recfm", "VB", "--lrecl", "32756"}, &vb, 0},
			} {
				x := n.SendAsync(append([]string{"--mode", "text", "--to-encoding", "IBM-1140", "--checksum", "sha256", "ALPHA:line", "BETA:" + c.name}, c.flags...)...)
				end := x.WaitFor(time.Hour).Ends("successful", 0).Summary
				wrote, wsum := s.expect(t, n.Path("BETA", c.name), c.to)
				once(t, n, end.ID, 1)
				converted(t, n, end.ID, read, sum, wrote, wsum, c.counted)
				must(t, os.Remove(n.Path("BETA", c.name)))
				must(t, os.RemoveAll(n.Path("BETA", ".ferry-a-"+c.name+".attributes")))
				t.Logf("%s: %.1f s", c.name, end.Seconds)
			}
			refused(t, n, size)
			for _, a := range []string{"ALPHA", "BETA"} {
				if rss := n.PeakRSS(a); rss > maxMemory {
					t.Errorf("%s needed %d MiB of memory; it may have %d", a, rss/mib, maxMemory/mib)
				} else {
					t.Logf("peak memory of %s: %d MiB", a, rss/mib)
				}
			}
		})
	}
}

// refused sends the line where lines may not be wrapped. The amount sent before the source learns of the refusal
// depends on the disk of the synced verdict. It cannot be all of a very long line.
func refused(t *testing.T, n *network.Network, size int64) {
	t.Helper()
	r := n.SendAsync("--mode", "text", "--to-encoding", "IBM-1140", "--recfm", "FB", "--lrecl", "80", "--long-lines", "fail",
		"ALPHA:line", "BETA:refused").WaitFor(time.Hour).Ends("failed", 40)
	const want = "line 1, which begins at byte 0, is longer than the 80 bytes that a record of RECFM(FB),LRECL(80),BLKSIZE(27920) holds"
	if !strings.Contains(r.Stderr, want) {
		t.Errorf("it says %q, which has no %q", r.Stderr, want)
	}
	if sent := n.Status(r.Summary.ID).BytesSent; size >= 1<<30 && sent > size/2 {
		t.Errorf("%d bytes were sent of a line of %d that is refused after 80", sent, size)
	} else {
		t.Logf("refused after %d KiB were sent", sent>>10)
	}
	if n.Exists("BETA", "refused") {
		t.Error("what was refused is there")
	}
	n.NoTemporaries("ALPHA", "BETA")
	n.Sound()
}
