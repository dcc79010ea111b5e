//go:build linux

package systemz_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/text/encoding/charmap"

	"ferry/internal/content/record"
	"ferry/internal/transfer"
	"ferry/test/flow/network"
)

// The flags of a text transfer from EBCDIC, and to it.
var (
	fromEBCDIC = []string{"--mode", "text", "--from-encoding", "IBM-1047", "--to-encoding", "UTF-8"}
	toEBCDIC   = []string{"--mode", "text", "--from-encoding", "UTF-8", "--to-encoding", "IBM-1047"}
)

// text returns at least size bytes of lines in UTF-8, and the same in IBM-1047, made by tables that are not Ferry's. No
// line ends with a blank or has more than 80 characters.
func text(t *testing.T, size int) (utf8, ebcdic []byte) {
	t.Helper()
	var lines strings.Builder
	for k := 0; lines.Len() < size; k++ {
		fmt.Fprintf(&lines, "%08d MÜLLER & SÖHNE, São Paulo %7d,%02d £%s\n", k, k*7919%10_000_000, k%100, strings.Repeat("-", k%30))
	}
	utf8 = []byte(lines.String())
	ebcdic, err := charmap.CodePage1047.NewEncoder().Bytes(bytes.ReplaceAll(utf8, []byte("\n"), []byte("\u0085")))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.IndexByte(ebcdic, 0x15) < 0 {
		t.Fatal("NL is not 15 in the table")
	}
	return utf8, ebcdic
}

// put writes a file beneath an agent's root.
func put(t *testing.T, n *network.Network, agent, rel string, data []byte) {
	t.Helper()
	path := n.Path(agent, rel)
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, data, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	wholeSeconds(t, n.Root(agent))
}

func got(t *testing.T, n *network.Network, agent, rel string) []byte {
	t.Helper()
	data, err := os.ReadFile(n.Path(agent, rel))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// send sends one file with flags, and returns the audit log's entry about the written file.
func send(t *testing.T, n *network.Network, flags []string, from, to string) transfer.Written {
	t.Helper()
	s := n.Send(append(append([]string{}, flags...), from, to)...).Ends("successful", 0).Summary
	once(t, n, s.ID, 1)
	for _, o := range n.Outcomes(n.Audit(s.ID), "destination") {
		if o.Written != nil {
			return *o.Written
		}
	}
	t.Fatalf("the audit log has no entry about the bytes of %s written at %s", from, to)
	return transfer.Written{}
}

// Text is converted by the agent that receives it, on either machine to the same bytes: code pages in both directions,
// records with their descriptor words, the files beside them, and the digest of the written file.
func TestTextIsConverted(t *testing.T) {
	utf8, ebcdic := text(t, 2*mib)
	n := up(t, "plain")
	var vb, beside [][]byte
	var written []transfer.Written
	for _, w := range ways {
		in := "from-" + w.from + "/"
		put(t, n, w.from, "plain", utf8)
		put(t, n, w.from, "ebcdic", ebcdic)

		send(t, n, fromEBCDIC, w.from+":ebcdic", w.to+":"+in+"utf8")
		if !bytes.Equal(got(t, n, w.to, in+"utf8"), utf8) {
			t.Errorf("%s: EBCDIC has not become the text", w.name)
		}
		send(t, n, toEBCDIC, w.from+":plain", w.to+":"+in+"ebcdic")
		if !bytes.Equal(got(t, n, w.to, in+"ebcdic"), ebcdic) {
			t.Errorf("%s: the text has not become EBCDIC", w.name)
		}
		written = append(written, send(t, n, append([]string{"--recfm", "VB", "--lrecl", "84"}, toEBCDIC...), w.from+":plain", w.to+":"+in+"records"))
		vb = append(vb, got(t, n, w.to, in+"records"))
		beside = append(beside, got(t, n, w.to, in+record.SidecarName("records")))
	}
	if !bytes.Equal(vb[0], vb[1]) || !bytes.Equal(beside[0], beside[1]) || written[0] != written[1] {
		t.Errorf("the two machines have written different records: %d and %d bytes, %s and %s, %+v and %+v", len(vb[0]), len(vb[1]), beside[0], beside[1], written[0], written[1])
	}
	if lines := bytes.Count(utf8, []byte("\n")); written[0].Records != int64(lines) || written[0].Digest == "" {
		t.Errorf("%d lines are %+v", lines, written[0])
	}
	// And back: each machine reads the files that the other has written.
	for _, w := range ways {
		back := "from-" + w.to + "/records" // at w.from, which received it
		send(t, n, fromEBCDIC, w.from+":"+back, w.to+":back")
		if !bytes.Equal(got(t, n, w.to, "back"), utf8) {
			t.Errorf("%s: the records have not become the text again", w.name)
		}
	}
}

// The agent of System z is killed while it converts, and while it sends converted data. The state of the conversion is
// in the checkpoint, and the file is the same as without a kill.
func TestKilledInTheMiddleOfAText(t *testing.T) {
	utf8, ebcdic := text(t, 96*mib)
	for i, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			n := up(t, lanes[2-i]) // the queue lane from there, plain to it
			put(t, n, w.from, "big", ebcdic)

			s := n.SendAsync(append(append([]string{}, fromEBCDIC...), w.from+":big", w.to+":out/")...)
			n.Growing(w.to, 24*mib)
			n.Kill(onZ)
			n.Start(onZ)
			sum := s.Wait().Ends("successful", 0).Summary

			if !bytes.Equal(got(t, n, w.to, "out/big"), utf8) {
				t.Error("the file is not the text")
			}
			once(t, n, sum.ID, 1)
			p := n.Status(sum.ID)
			if most := p.MayResend(); sum.Resumes == 0 || sum.BytesResent > most {
				t.Errorf("%d resumes, and %d bytes sent again; one interruption may cost %d", sum.Resumes, sum.BytesResent, most)
			}
		})
	}
}
