package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"ferry/internal/transfer"
)

// JSON writes one object on a line of stdout.
func JSON(cmd *cobra.Command, v any) { _ = WriteJSON(cmd.OutOrStdout(), v) }

// WriteJSON writes one object on a line, for callers that act on a failure of the output.
func WriteJSON(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		panic("internal error: output that cannot be written: " + err.Error())
	}
	_, err = fmt.Fprintf(w, "%s\n", plain(ForScripts(b)))
	return err
}

// plain writes the control characters U+007F to U+009F of JSON, which a terminal may obey,
// as \u00XX.
func plain(b []byte) []byte {
	if !bytes.ContainsFunc(b, control) {
		return b
	}
	var out bytes.Buffer
	for _, r := range string(b) {
		if control(r) {
			fmt.Fprintf(&out, "\\u%04x", r)
		} else {
			out.WriteRune(r)
		}
	}
	return out.Bytes()
}

// control reports whether a terminal may obey a character that JSON does not escape.
func control(r rune) bool { return 0x7f <= r && r <= 0x9f }

// escapedMark is the form of transfer.EscapedPath in JSON.
var escapedMark = []byte(`"\u0000`)

// ForScripts rewrites one JSON object for scripts that read names. A path that is not UTF-8 becomes a string with
// U+FFFD in place of each invalid part. Its bytes in base64 are added in a member of that name with _bytes. An array of
// paths has an array beside it, with null for each that is UTF-8. Everything else stays as it is.
func ForScripts(b []byte) []byte {
	if !bytes.Contains(b, escapedMark) {
		return b
	}
	var out bytes.Buffer
	d := json.NewDecoder(bytes.NewReader(b))
	if err := rewrite(d, &out); err != nil {
		return b // it is no JSON, and not ours to mend
	}
	return out.Bytes()
}

// rewrite copies the value that comes next.
func rewrite(d *json.Decoder, out *bytes.Buffer) error {
	var raw json.RawMessage
	if err := d.Decode(&raw); err != nil {
		return err
	}
	return rewriteValue(raw, out)
}

func rewriteValue(raw json.RawMessage, out *bytes.Buffer) error {
	if !bytes.Contains(raw, escapedMark) || raw[0] != '{' && raw[0] != '[' {
		out.Write(raw)
		return nil
	}

	d := json.NewDecoder(bytes.NewReader(raw))
	if _, err := d.Token(); err != nil { // the bracket
		return err
	}

	out.WriteByte(raw[0])
	for n := 0; d.More(); n++ {
		if n > 0 {
			out.WriteByte(',')
		}
		if err := rewriteMember(d, raw[0] == '{', out); err != nil {
			return err
		}
	}

	out.WriteByte(raw[len(raw)-1])
	return nil
}

// rewriteMember copies a member of an object, with the member that is added beside it, or an element of an array.
func rewriteMember(d *json.Decoder, named bool, out *bytes.Buffer) error {
	if !named {
		return rewrite(d, out)
	}

	name, err := d.Token()
	if err != nil {
		return err
	}

	var raw json.RawMessage
	if err := d.Decode(&raw); err != nil {
		return err
	}

	text, exact, ok := split(raw)
	if !ok {
		fmt.Fprintf(out, "%s:", mustMarshal(name))
		return rewriteValue(raw, out)
	}

	fmt.Fprintf(out, "%s:%s,%s:%s", mustMarshal(name), mustMarshal(text), mustMarshal(fmt.Sprint(name, "_bytes")), mustMarshal(exact))
	return nil
}

func mustMarshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("internal error: output that cannot be written: " + err.Error())
	}
	return b
}

// split takes a string, or an array of strings, with a path that is not UTF-8 apart.
func split(raw json.RawMessage) (text, exact any, ok bool) {
	if !bytes.Contains(raw, escapedMark) {
		return nil, nil, false
	}

	var one string
	if json.Unmarshal(raw, &one) == nil {
		p, ok := notUTF8(one)
		return strings.ToValidUTF8(p, "\uFFFD"), []byte(p), ok
	}

	var all []json.RawMessage
	if json.Unmarshal(raw, &all) != nil {
		return nil, nil, false
	}

	texts, paths := make([]any, len(all)), make([][]byte, len(all))
	for n := range all {
		texts[n] = all[n] // a location that is no path, or a text
		if json.Unmarshal(all[n], &one) != nil {
			continue
		}
		if p, is := notUTF8(one); is {
			texts[n], paths[n], ok = strings.ToValidUTF8(p, "\uFFFD"), []byte(p), true
		}
	}
	return texts, paths, ok
}

// notUTF8 decodes a path in JSON that is not UTF-8.
func notUTF8(s string) (string, bool) {
	text, ok := strings.CutPrefix(s, transfer.EscapedPath)
	if !ok {
		return "", false
	}
	p, err := transfer.ParsePath(text)
	return string(p), err == nil
}
