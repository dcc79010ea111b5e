package duty

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"

	"ferry/internal/security/word"
	"ferry/internal/transfer"
)

type thing struct {
	id    transfer.ID
	owner string
}

func (x thing) Owner() string { return x.owner }
func (x thing) Key() string   { return x.id.String() }

// things are the objects of a duty, with an error behind them, if there is one.
func things(err error, all ...thing) iter.Seq2[thing, error] {
	return func(yield func(thing, error) bool) {
		for _, x := range all {
			if !yield(x, nil) {
				return
			}
		}
		if err != nil {
			yield(thing{}, err)
		}
	}
}

// services are those of an agent where OPS may operate, and where the rights of BROKEN cannot be read.
func services() *Services {
	return &Services{Agent: "ALPHA", May: func(principal string, right transfer.Authority) error {
		switch {
		case principal == "BROKEN":
			return errBroken
		case principal == "OPS" && right == transfer.AuthOperate:
			return nil
		}
		return transfer.Errorf(transfer.KindDenied, "no")
	}}
}

var errBroken = errors.New("the rules cannot be read")

func anID(first, last byte) transfer.ID { return transfer.ID{first, 6: 0x70, 8: 0x80, 15: last} }

func TestFind(t *testing.T) {
	one, two, hers := thing{anID(1, 0x11), "ann"}, thing{anID(2, 0x21), "ann"}, thing{anID(3, 0x11), "bob"}
	all := func() iter.Seq2[thing, error] { return things(nil, one, two, hers) }
	for _, c := range []struct {
		who, suffix string
		want        thing
		kind        transfer.Kind
	}{
		{"ann", one.id.String(), one, transfer.KindNone},
		{"ann", "000021", two, transfer.KindNone},
		{"ann", "000011", one, transfer.KindNone}, // the other one is bob's
		{"bob", "000011", hers, transfer.KindNone},
		{"OPS", "000021", two, transfer.KindNone},
		{"OPS", "000011", thing{}, transfer.KindUsage}, // two end so
		{"bob", "000021", thing{}, transfer.KindNotFound},
		{"ann", "000099", thing{}, transfer.KindNotFound},
		{"ann", "no ID", thing{}, transfer.KindUsage},
	} {
		got, err := Find(services(), Caller{Origin: word.Origin{Principal: c.who}}, "job", c.suffix, all())
		if transfer.KindOf(err) != c.kind || err == nil && got != c.want {
			t.Errorf("%s finds %v of %s, %v", c.who, got, c.suffix, err)
		}
	}
	if _, err := Find(services(), Caller{Origin: word.Origin{Principal: "BROKEN"}}, "job", "000021", all()); err != errBroken {
		t.Errorf("where the rules cannot be read: %v", err)
	}
	if _, err := Find(services(), Caller{Origin: word.Origin{Principal: "ann"}}, "job", "000021", things(errBroken, two)); err != errBroken {
		t.Errorf("where not all can be read: %v", err)
	}
}

// No user takes all that an agent may have, and all users together have no more.
func TestShares(t *testing.T) {
	const limit = 1000
	var all []thing
	for n, share := range []int{500, 250, 125, 63, 31, 16} {
		owner := string(rune('a' + n))
		for own := range limit {
			err := CheckRoom(services(), "monitor", owner, limit, things(nil, all...))
			if own < share && err != nil {
				t.Fatalf("number %d of user %s: %v", own+1, owner, err)
			}
			if own < share {
				all = append(all, thing{owner: owner})
				continue
			}
			if transfer.KindOf(err) != transfer.KindTooLarge {
				t.Errorf("number %d of user %s: %v", own+1, owner, err)
			}
			break
		}
	}
	for n := range limit + 1 {
		owner := fmt.Sprintf("user %d", n)
		err := CheckRoom(services(), "monitor", owner, limit, things(nil, all...))
		if (err == nil) != (len(all) < limit) {
			t.Fatalf("%s, with %d of others: %v", owner, len(all), err)
		}
		if err == nil {
			all = append(all, thing{owner: owner})
		}
	}
	if err := CheckRoom(services(), "monitor", "ann", limit, things(errBroken)); err != errBroken {
		t.Errorf("where not all can be read: %v", err)
	}
}

func TestVisible(t *testing.T) {
	one, hers, two := thing{anID(1, 1), "ann"}, thing{anID(2, 2), "bob"}, thing{anID(3, 3), "ann"}
	for _, c := range []struct {
		who  string
		fail error
		want []thing
		err  error
	}{
		{"ann", nil, []thing{one, two}, nil},
		{"bob", nil, []thing{hers}, nil},
		{"OPS", nil, []thing{one, hers, two}, nil},
		{"eve", nil, nil, nil},
		{"ann", errBroken, []thing{one, two}, errBroken},
		{"BROKEN", nil, nil, errBroken},
	} {
		var got []thing
		var end error
		for x, err := range Visible(services(), Caller{Origin: word.Origin{Principal: c.who}}, things(c.fail, one, hers, two)) {
			if end != nil {
				t.Errorf("%s: there is more behind an error", c.who)
			}
			if end = err; err == nil {
				got = append(got, x)
			}
		}
		if !slices.Equal(got, c.want) || end != c.err {
			t.Errorf("%s sees %v, %v", c.who, got, end)
		}
	}
	for range Visible(services(), Caller{Origin: word.Origin{Principal: "OPS"}}, things(nil, one, hers)) {
		break // it ends there, without a panic
	}
}

func TestPage(t *testing.T) {
	one, two := thing{anID(1, 1), "ann"}, thing{anID(2, 2), "bob"}
	for _, c := range []struct {
		limit int
		fail  error
		want  []thing
		more  bool
		err   error
	}{
		{1, nil, []thing{one}, true, nil},
		{2, nil, []thing{one, two}, false, nil},
		{3, nil, []thing{one, two}, false, nil},
		{2, errBroken, []thing{one, two}, false, errBroken},
	} {
		var got []thing
		more, err := Page(things(c.fail, one, two), c.limit, func(x thing) { got = append(got, x) })
		if more != c.more || err != c.err || !slices.Equal(got, c.want) {
			t.Errorf("a page of %d is %v, more: %t, %v", c.limit, got, more, err)
		}
	}
}

func TestMayChange(t *testing.T) {
	for _, c := range []struct {
		who, owner string
		own        transfer.Authority
		kind       transfer.Kind
	}{
		{"ann", "ann", transfer.AuthNone, transfer.KindNone},
		{"ann", "ann", transfer.AuthMonitor, transfer.KindDenied}, // which she lacks
		{"ann", "bob", transfer.AuthNone, transfer.KindDenied},
		{"OPS", "bob", transfer.AuthMonitor, transfer.KindNone},
	} {
		if err := services().MayChange(Caller{Origin: word.Origin{Principal: c.who}}, c.owner, c.own); transfer.KindOf(err) != c.kind {
			t.Errorf("%s changes a definition of %s: %v", c.who, c.owner, err)
		}
	}
}

func TestDecoded(t *testing.T) {
	values := func(yield func(string, []byte) bool) {
		_ = yield("a", []byte("1")) && yield("b", []byte("x")) && yield("c", []byte("2"))
	}
	var got []string
	for v, err := range Decoded(values, func(_ string, data []byte) (string, error) {
		if string(data) == "x" {
			return "", errBroken
		}
		return string(data), nil
	}) {
		if err != nil {
			v = err.Error()
		}
		got = append(got, v)
	}
	if want := []string{"1", errBroken.Error()}; !slices.Equal(got, want) {
		t.Errorf("there are %q, not %q", got, want)
	}
}
