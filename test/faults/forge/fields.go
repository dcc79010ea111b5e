// Package forge makes messages that no agent of Ferry sends. A field is out of its range, the sender is a stranger, the
// message is a repetition, or it belongs to another state. Campaigns send these messages to real processes.
package forge

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"ferry/internal/transfer"
)

// Fill sets every field of m, including nested ones, and returns m. Slices and maps get one element. The values are
// arbitrary, because a test replaces one of them by a value out of the range of its field.
func Fill[T any](m *T) *T {
	fill(reflect.ValueOf(m).Elem(), 0)
	return m
}

// fixed holds the values of types that have an encoding of their own.
var fixed = map[reflect.Type]any{
	reflect.TypeFor[transfer.Place]():     transfer.Queues,
	reflect.TypeFor[transfer.Taken]():     transfer.TakenProved,
	reflect.TypeFor[transfer.ID]():        transfer.NewID(time.Unix(1_700_000_000, 0)),
	reflect.TypeFor[transfer.AgentName](): transfer.AgentName("ALPHA"),
	reflect.TypeFor[transfer.Path]():      transfer.Path("in/a"),
	reflect.TypeFor[transfer.ItemSet]():   transfer.ItemSet{},
	reflect.TypeFor[transfer.Duration]():  transfer.Duration(time.Hour),
	reflect.TypeFor[time.Time]():          time.Unix(1_700_000_000, 0).UTC(),
	reflect.TypeFor[json.RawMessage]():    json.RawMessage(`{"v":1}`),
}

func fill(v reflect.Value, depth int) {
	if f, ok := fixed[v.Type()]; ok {
		v.Set(reflect.ValueOf(f))
		return
	}
	if depth > 12 || !v.CanSet() {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), depth+1)
	case reflect.Struct:
		for n := range v.NumField() {
			if f := v.Type().Field(n); f.IsExported() && f.Tag.Get("json") != "-" {
				fill(v.Field(n), depth+1)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), depth+1)
	case reflect.Array:
		fill(v.Index(0), depth+1)
	case reflect.Map:
		m, k, e := reflect.MakeMap(v.Type()), reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(k, depth+1)
		fill(e, depth+1)
		m.SetMapIndex(k, e)
		v.Set(m)
	case reflect.Interface:
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float32, reflect.Float64:
		v.SetFloat(1)
	default:
		if v.CanInt() {
			v.SetInt(1)
		} else if v.CanUint() {
			v.SetUint(1)
		}
	}
}

// parse decodes JSON into maps, slices and numbers, and keeps the spelling of the numbers.
func parse(data []byte) (tree any, err error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	err = d.Decode(&tree)
	return tree, err
}

// A step is a key of an object (a string) or an index of an array (an int).
type step any

// A leaf is a field of a message's JSON form: a value, an object or an array.
type leaf struct {
	at    []step
	value any
}

// path returns the path of a field, such as body.resume.points[0].item.
func (l *leaf) path() string {
	var b strings.Builder
	for _, s := range l.at {
		switch s := s.(type) {
		case string:
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(s)
		case int:
			b.WriteString("[" + strconv.Itoa(s) + "]")
		}
	}
	return b.String()
}

// leaves lists the fields of a tree. An object or array precedes its own fields.
func leaves(tree any) (all []leaf) {
	var walk func(v any, at []step)
	walk = func(v any, at []step) {
		if len(at) > 0 {
			all = append(all, leaf{slices.Clone(at), v})
		}
		switch v := v.(type) {
		case map[string]any:
			for _, k := range sorted(v) {
				walk(v[k], append(slices.Clone(at), k))
			}
		case []any:
			for n := range v {
				walk(v[n], append(slices.Clone(at), n))
			}
		}
	}
	walk(tree, nil)
	return all
}

func sorted(m map[string]any) (keys []string) {
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// set returns a copy of tree with the value at a path. It takes missing parts of the path from sample, which has them.
func set(tree, sample any, at []step, value any) any {
	if len(at) == 0 {
		return value
	}
	switch s := at[0].(type) {
	case string:
		from, _ := sample.(map[string]any)
		old, ok := tree.(map[string]any)
		if !ok {
			old = from
		}
		m := map[string]any{}
		for k, v := range old {
			m[k] = v
		}
		below, ok := m[s]
		if !ok {
			below = from[s]
		}
		m[s] = set(below, from[s], at[1:], value)
		return m
	case int:
		from, _ := sample.([]any)
		old, ok := tree.([]any)
		if !ok || len(old) == 0 {
			old = from
		}
		l := slices.Clone(old)
		var theirs any
		if len(from) > 0 {
			theirs = from[0]
		}
		l[s] = set(l[s], theirs, at[1:], value)
		return l
	}
	panic(fmt.Sprintf("a step of type %T", at[0]))
}

// get returns the value at the path of keys, or nil if it is missing.
func get(tree any, keys ...string) any {
	for _, k := range keys {
		m, ok := tree.(map[string]any)
		if !ok {
			return nil
		}
		tree = m[k]
	}
	return tree
}

func text(tree any, keys ...string) string {
	s, _ := get(tree, keys...).(string)
	return s
}

// number returns the whole number at the path of keys, or 0 if it is missing.
func number(tree any, keys ...string) uint64 {
	n, _ := get(tree, keys...).(json.Number)
	v, _ := strconv.ParseUint(n.String(), 10, 64)
	return v
}

// huge returns a JSON number that may exceed the exact range of a float64.
func huge(s string) json.Number { return json.Number(s) }
