package config

import (
	"encoding/json"
	"fmt"
	"strings"
)

// A Value is the value of one flag in a settings file.
type Value struct {
	Flag  string
	Words []string
	List  bool // the flag may be repeated
}

// Render writes a settings file with values for one command, "agent run". The comment stands above
// them, each of its lines as one.
func Render(comment, command string, values []Value) []byte {
	var out strings.Builder
	for line := range strings.Lines(comment) {
		out.WriteString("# " + strings.TrimRight(line, "\n") + "\n")
	}
	if len(values) == 0 {
		return []byte(out.String()) // a command without flags would be none
	}
	indent := ""
	for word := range strings.FieldsSeq(command) {
		out.WriteString(indent + word + ":\n")
		indent += "  "
	}
	for _, v := range values {
		words := make([]string, len(v.Words))
		for n, w := range v.Words {
			words[n] = quoted(w)
		}
		text := strings.Join(words, ", ")
		if v.List {
			text = "[" + text + "]"
		}
		fmt.Fprintf(&out, "%s%s: %s\n", indent, v.Flag, text)
	}
	return []byte(out.String())
}

// quoted is a value in double quotes, which JSON and YAML read alike.
func quoted(s string) string {
	text, err := json.Marshal(s)
	if err != nil {
		panic("internal error: a string that JSON does not have: " + err.Error())
	}
	return string(text)
}
