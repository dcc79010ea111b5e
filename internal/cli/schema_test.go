package cli

import (
	"bytes"
	"encoding"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"ferry/internal/automation/monitor"
	"ferry/internal/automation/schedule"
	"ferry/internal/security/identity"
	"ferry/internal/transfer"
)

var update = flag.Bool("update", false, "write docs/output.schema.json anew")

// A schemas makes a JSON schema of Go types. Types with names of their own stand once,
// under $defs.
type schemas struct{ defs map[string]any }

type object = map[string]any

// known are types that write themselves.
var known = map[reflect.Type]object{
	reflect.TypeFor[time.Time]():         {"type": "string", "format": "date-time"},
	reflect.TypeFor[transfer.ID]():       {"type": "string", "pattern": "^([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})?$"},
	reflect.TypeFor[transfer.Path]():     {"type": "string"},
	reflect.TypeFor[transfer.Location](): {"type": []string{"string", "object"}, "description": "A string is the literal path of a file or directory. An object has place (dataset, queue or stream; none: files), path, pattern and records."},
	reflect.TypeFor[transfer.Duration](): {"type": "string"},
	reflect.TypeFor[transfer.ItemType](): {"enum": []string{"file", "directory", "bad"}},
	reflect.TypeFor[json.RawMessage]():   {},
	reflect.TypeFor[identity.Name]():     {"type": "string"},
	reflect.TypeFor[monitor.Condition](): {"type": "string"},
	reflect.TypeFor[schedule.Interval](): {"type": "string"},
	reflect.TypeFor[tlog.Hash]():         {"type": "string", "contentEncoding": "base64"},
}

func (s *schemas) of(t reflect.Type) any {
	if t == reflect.TypeFor[transfer.State]() {
		var all []string
		for _, st := range transfer.States() {
			all = append(all, string(st))
		}
		return object{"enum": append(all, "")}
	}
	if k, ok := known[t]; ok {
		return k
	}
	if t.Kind() == reflect.Pointer {
		return s.of(t.Elem())
	}
	if t.Kind() != reflect.Struct && reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextMarshaler]()) {
		return object{"type": "string"}
	}
	switch t.Kind() {
	case reflect.Struct:
		if t.Name() == "" {
			return s.fields(t)
		}
		name := path.Base(t.PkgPath()) + "." + t.Name()
		if t.PkgPath() == "ferry/internal/client/view" { // the schema is published under the program's name
			name = "ferry." + strings.ToLower(t.Name()[:1]) + t.Name()[1:]
		} else if strings.HasPrefix(t.PkgPath(), "ferry/internal/qmgr/") {
			name = "qmgr." + t.Name() // its packages are of no interest outside
		}
		if s.defs[name] == nil {
			s.defs[name] = object{}
			s.defs[name] = s.fields(t)
		}
		return object{"$ref": "#/$defs/" + name}
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return object{"type": []string{"string", "null"}, "contentEncoding": "base64"}
		}
		return object{"type": []string{"array", "null"}, "items": s.of(t.Elem())}
	case reflect.Map:
		return object{"type": []string{"object", "null"}, "additionalProperties": s.of(t.Elem())}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Float32, reflect.Float64:
		return object{"type": "number"}
	case reflect.Interface:
		return object{}
	}
	return object{"type": "integer"}
}

func (s *schemas) fields(t reflect.Type) object {
	props := object{}
	required := map[string]bool{}
	s.add(t, props, required, 0, map[string]int{})
	return object{"type": "object", "properties": props, "required": append([]string{}, slices.Sorted(maps.Keys(required))...)}
}

// add takes in the fields of a struct, and those that it embeds, as encoding/json does:
// the shallower one of a name wins.
func (s *schemas) add(t reflect.Type, props object, required map[string]bool, depth int, at map[string]int) {
	for n := range t.NumField() {
		f := t.Field(n)
		name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		typ := f.Type
		if typ.Kind() == reflect.Pointer {
			typ = typ.Elem()
		}
		if f.Anonymous && name == "" && typ.Kind() == reflect.Struct {
			s.add(typ, props, required, depth+1, at)
			continue
		}
		if !f.IsExported() || name == "-" {
			continue
		}
		if name == "" {
			name = f.Name
		}
		if was, ok := at[name]; ok && was <= depth {
			continue
		}
		at[name] = depth
		props[name] = s.of(f.Type)
		delete(required, name)
		if !strings.Contains(opts, "omit") {
			required[name] = true
		}
		switch f.Type {
		case reflect.TypeFor[transfer.Path](), reflect.TypeFor[transfer.Location]():
			props[name+"_bytes"] = object{"type": "string", "contentEncoding": "base64"}
		case reflect.TypeFor[[]transfer.Path](), reflect.TypeFor[[]transfer.Location]():
			props[name+"_bytes"] = object{"type": "array", "items": object{"type": []string{"string", "null"}, "contentEncoding": "base64"}}
		}
	}
}

// docs/output.schema.json is the schema of the output of --json.
func TestSchema(t *testing.T) {
	s := &schemas{defs: map[string]any{}}
	var any []object
	lines := outputs()
	for _, name := range slices.Sorted(maps.Keys(lines)) {
		typ := reflect.TypeOf(lines[name])
		ref := s.of(typ).(object)["$ref"].(string)
		any = append(any, object{"title": name, "$ref": ref})
	}
	doc := object{"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "A line of the output of --json",
		"description": "Fields may be added, never renamed: a reader ignores unknown fields.",
		"anyOf":       any, "$defs": s.defs}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(doc); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join("..", "..", "docs", "output.schema.json")
	if *update {
		if err := os.WriteFile(name, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(name); err != nil || !bytes.Equal(want, b.Bytes()) {
		t.Errorf("docs/output.schema.json is not the schema of the output (go test ./internal/cli -update writes it): %v", err)
	}
}
