//go:build ignore

package main

import (
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// ask is a program for Java. It writes the character of each sequence of at most four bytes, a line with a hyphen, and
// the encoding of each character.
const ask = `
import java.io.*;
import java.nio.*;
import java.nio.charset.*;

public class Ask {
    static CharsetDecoder dec;
    static PrintStream out = new PrintStream(new BufferedOutputStream(System.out));

    static void walk(byte[] seq, int n) {
        for (int b = 0; b < 256; b++) {
            seq[n] = (byte) b;
            CharBuffer chars = CharBuffer.allocate(8);
            ByteBuffer bytes = ByteBuffer.wrap(seq, 0, n + 1);
            CoderResult r = dec.reset().decode(bytes, chars, true);
            if (r.isUnderflow()) r = dec.flush(chars);
            if (r.isUnderflow() && !bytes.hasRemaining() && chars.position() > 0) {
                StringBuilder line = new StringBuilder(hex(seq, n + 1));
                chars.flip().codePoints().forEach(c -> line.append(String.format(" %x", c)));
                out.println(line);
                continue;
            }
            chars.clear();
            r = dec.reset().decode(ByteBuffer.wrap(seq, 0, n + 1), chars, false);
            if (n + 1 < seq.length && r.isUnderflow() && chars.position() == 0) walk(seq, n + 1);
        }
    }

    static String hex(byte[] b, int n) {
        StringBuilder s = new StringBuilder();
        for (int i = 0; i < n; i++) s.append(String.format("%02x", b[i]));
        return s.toString();
    }

    public static void main(String[] args) {
        Charset page = Charset.forName(args[0]);
        dec = page.newDecoder().onMalformedInput(CodingErrorAction.REPORT).onUnmappableCharacter(CodingErrorAction.REPORT);
        walk(new byte[4], 0);
        out.println("-");
        CharsetEncoder enc = page.newEncoder().onMalformedInput(CodingErrorAction.REPORT).onUnmappableCharacter(CodingErrorAction.REPORT);
        for (int c = 0; c < 0x30000; c++) {
            if (c >= 0xd800 && c < 0xe000) continue;
            ByteBuffer bytes = ByteBuffer.allocate(32);
            CoderResult r = enc.reset().encode(CharBuffer.wrap(new String(Character.toChars(c))), bytes, true);
            if (r.isUnderflow()) r = enc.flush(bytes);
            if (r.isUnderflow() && bytes.position() > 0) out.println(String.format("%x ", c) + hex(bytes.array(), bytes.position()));
        }
        out.flush();
    }
}
`

func javaVersion() string {
	out, err := exec.Command("java", "--version").Output()
	if err != nil {
		log.Fatal(err)
	}
	return strings.Fields(string(out))[1]
}

// askJava returns Java's tables of a page: the codes that it reads, in order, and the codes that it writes.
func askJava(page string) (decode [][3]uint32, encode [][2]uint32) {
	dir, err := os.MkdirTemp("", "ask")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	name := filepath.Join(dir, "Ask.java")
	if err := os.WriteFile(name, []byte(ask), 0o600); err != nil {
		log.Fatal(err)
	}
	out, err := exec.Command("java", name, page).Output()
	if err != nil {
		log.Fatal(page, ": ", err)
	}
	read, written, _ := strings.Cut(string(out), "-\n")
	for line := range strings.Lines(read) {
		var d [3]uint32
		if n, _ := fmt.Sscanf(line, "%x %x %x", &d[0], &d[1], &d[2]); n < 2 {
			log.Fatalf("%s: %q", page, line)
		}
		decode = append(decode, d)
	}
	for line := range strings.Lines(written) {
		var e [2]uint32
		if n, _ := fmt.Sscanf(line, "%x %x", &e[0], &e[1]); n < 2 {
			log.Fatalf("%s: %q", page, line)
		}
		encode = append(encode, e)
	}
	return decode, encode
}
