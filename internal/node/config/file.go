package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"sync"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
	"github.com/spf13/cobra"

	"ferry/internal/content/textfile"
	"ferry/internal/security/keyfile"
)

// The limits of one settings file. The parser's time grows with the square of
// the number of tokens and its stack with the depth, so all three are held.
const (
	MaxSize   = 1 << 20
	maxTokens = 20_000
	maxDepth  = 32
)

// A File has the settings of all settings files together.
type File struct {
	settings map[place]setting
}

// A place is a command's path and one of its flags.
type place struct{ command, flag string }

// A setting has the values that a file gives for one flag, and their origin.
type setting struct {
	values []string
	list   bool
	origin string // FILE:LINE
}

// Load reads the settings files and checks them against the flags of the
// program. The earlier file wins. A missing file is no settings, unless it was
// asked for by name with FERRY_CONFIG. Root takes none that another user controls: settings name roots and programs.
func Load(root *cobra.Command, paths []string) (*File, error) {
	f := &File{settings: map[place]setting{}}
	known := sync.OnceValue(func() keys { return keysOf(root) }) // not asked for where there is no file
	for _, path := range paths {
		data, err := read(path)
		if errors.Is(err, fs.ErrNotExist) && path != os.Getenv(EnvFile) {
			continue
		}
		if err != nil {
			return nil, err
		}
		one, err := parse(path, data, known())
		if err != nil {
			return nil, err
		}
		for where, s := range one {
			if _, ok := f.settings[where]; !ok {
				f.settings[where] = s
			}
		}
	}
	return f, nil
}

func read(path string) ([]byte, error) {
	r, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("settings file: %w", err)
	}
	defer r.Close()
	if err := keyfile.CheckNotForeign(path); err != nil {
		return nil, fmt.Errorf("settings file %s: %w", path, err)
	}

	data, err := textfile.Read(r, MaxSize)
	if errors.As(err, new(textfile.LimitError)) {
		return nil, fmt.Errorf("%s: over the limit of 1 MiB for a settings file", path)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return data, nil
}

// parse turns the bytes of one file into settings. Nothing of a refused value
// is repeated in an error.
func parse(path string, data []byte, known keys) (map[place]setting, error) {
	if err := screen(path, string(data)); err != nil {
		return nil, err
	}

	tree, err := parser.ParseBytes(data, 0)
	if err != nil {
		return nil, syntaxError(path, err)
	}

	r := reading{path: path, known: known, found: map[place]setting{}}
	for i, doc := range tree.Docs {
		switch {
		case i > 0:
			return nil, fmt.Errorf("%s: a second document (---); settings are one document", path)
		case doc.Body == nil, doc.Body.Type() == ast.NullType, doc.Body.Type() == ast.CommentType:
			continue
		}
		top, ok := doc.Body.(*ast.MappingNode)
		if !ok {
			return nil, fmt.Errorf("%s: settings are written as KEY: VALUE", r.at(doc.Body))
		}
		if err := r.section("", top); err != nil {
			return nil, err
		}
	}
	return r.found, nil
}

// screen refuses text that would make the parser slow or recurse deeply, and YAML that settings have no use for.
func screen(path, text string) error {
	brackets, dashes, line, count := 0, 0, 0, 0
	for _, t := range lexer.Tokenize(text) {
		if t.Type == token.CommentType {
			continue
		}
		if t.Position.Line != line {
			line, dashes = t.Position.Line, 0
		}
		switch t.Type {
		case token.MappingStartType, token.SequenceStartType:
			brackets++
		case token.MappingEndType, token.SequenceEndType:
			brackets--
		case token.SequenceEntryType:
			dashes++
		case token.AnchorType, token.AliasType, token.TagType, token.MergeKeyType, token.MappingKeyType, token.DirectiveType:
			return fmt.Errorf("%s:%d: %q: settings have no anchors, aliases, tags, directives or merged keys; put quotes around a value that begins so", path, line, mark(t.Value))
		}
		if brackets+dashes > maxDepth {
			return fmt.Errorf("%s:%d: nested deeper than %d", path, line, maxDepth)
		}
		if count++; count > maxTokens {
			return fmt.Errorf("%s:%d: more than %d words and marks in a settings file", path, line, maxTokens)
		}
	}
	return nil
}

// mark is the first character of a token, all that an error shows of it.
func mark(s string) string {
	for _, r := range s {
		return string(r)
	}
	return s
}

// syntaxError keeps the parser's sentence and place, and drops its excerpt of
// the file.
func syntaxError(path string, err error) error {
	var at interface {
		GetToken() *token.Token
		GetMessage() string
	}
	if errors.As(err, &at) && at.GetToken() != nil && at.GetToken().Position != nil {
		return fmt.Errorf("%s:%d: %s", path, at.GetToken().Position.Line, at.GetMessage())
	}
	return fmt.Errorf("%s: not YAML", path)
}

// A reading is one file on its way from a tree to settings.
type reading struct {
	path  string
	known keys
	found map[place]setting
}

func (r reading) at(n ast.Node) string {
	return fmt.Sprintf("%s:%d", r.path, n.GetToken().Position.Line)
}

func (r reading) section(command string, m *ast.MappingNode) error {
	for _, pair := range m.Values {
		var err error
		name, line := pair.Key.GetToken().Value, r.at(pair.Key)
		if sub, ok := pair.Value.(*ast.MappingNode); ok {
			err = r.command(command, name, line, sub)
		} else {
			err = r.flag(place{command, name}, line, pair.Value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r reading) command(under, name, line string, m *ast.MappingNode) error {
	path := strings.TrimPrefix(under+" "+name, " ")
	if !r.known.commands[under][name] {
		if r.known.flags[under][name] {
			return fmt.Errorf("%s: %s is a flag; its value is a word, a number or a list", line, name)
		}
		return r.unknown(line, under, name)
	}
	return r.section(path, m)
}

func (r reading) flag(where place, line string, value ast.Node) error {
	if !r.known.flags[where.command][where.flag] {
		if r.known.commands[where.command][where.flag] {
			return fmt.Errorf("%s: %s is a command; under it stand its flags, indented", line, where.flag)
		}
		return r.unknown(line, where.command, where.flag)
	}

	s := setting{origin: line}
	if list, ok := value.(*ast.SequenceNode); ok {
		s.list = true
		for _, n := range list.Values {
			v, err := r.scalar(where.flag, n)
			if err != nil {
				return err
			}
			s.values = append(s.values, v)
		}
	} else {
		v, err := r.scalar(where.flag, value)
		if err != nil {
			return err
		}
		s.values = []string{v}
	}

	for _, v := range s.values {
		if secret(v) {
			return secretError(line, where.flag)
		}
	}

	r.found[where] = s
	return nil
}

// scalar is a value as it is written: 0644 and 1_000 are words for the flag to
// understand, not numbers for YAML to change.
func (r reading) scalar(name string, n ast.Node) (string, error) {
	switch v := n.(type) {
	case *ast.StringNode:
		return v.Value, nil
	case *ast.LiteralNode:
		return v.Value.Value, nil
	case *ast.BoolNode, *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return v.GetToken().Value, nil
	case *ast.NullNode:
		return "", fmt.Errorf("%s: %s has no value; write \"\" for an empty one", r.at(n), name)
	}
	return "", fmt.Errorf("%s: %s takes a word, a number or a list of them", r.at(n), name)
}

func (r reading) unknown(line, command, name string) error {
	in := ""
	if command != "" {
		in = " of " + command
	}
	if near := nearest(name, r.known.flags[command], r.known.commands[command]); near != "" {
		return fmt.Errorf("%s: unknown setting %q%s; did you mean %q?", line, name, in, near)
	}
	return fmt.Errorf("%s: unknown setting %q%s; \"ferry config show\" lists them", line, name, in)
}

// withPassword is NAME:WORD@ after the :// of a URL, wherever it stands.
var withPassword = regexp.MustCompile(`://[^/?#@\s]*:[^/?#\s]*@`)

// secret says whether a value is, or has in it, a URL that carries a password.
func secret(value string) bool { return withPassword.MatchString(value) }

func secretError(origin, flag string) error {
	return fmt.Errorf("%s: %s holds a password; secrets are never settings", origin, flag)
}
