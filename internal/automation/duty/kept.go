package duty

import (
	"iter"
	"strings"

	"ferry/internal/transfer"
)

// Decoded are the values of a drawer, read. It ends with the first that cannot be.
func Decoded[T any](values iter.Seq2[string, []byte], decode func(data []byte) (T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, data := range values {
			v, err := decode(data)
			if !yield(v, err) || err != nil {
				return
			}
		}
	}
}

// Owned is an object that a duty keeps for a principal.
type Owned interface{ Owner() string }

// Room returns an error of KindTooLarge where one more object of a kind exceeds a principal's share of limit, as
// CheckShare says. The errors name the kind.
func Room[T Owned](d *Desk, what, principal string, limit int, all iter.Seq2[T, error]) error {
	own, others := 0, 0
	for v, err := range all {
		switch {
		case err != nil:
			return err
		case v.Owner() == principal:
			own++
		default:
			others++
		}
	}
	return CheckShare(d, what, principal, own+1, others, limit)
}

// Share is the share of a principal in a limit of an agent: half of the room that the other principals leave, rounded up.
func Share(others, limit int) int { return (limit - others + 1) / 2 }

// CheckShare returns an error of KindTooLarge where a principal would have own objects of a kind, and that exceeds its
// Share of the agent's limit. No principal alone can take the whole limit, and all together have no more than the
// limit.
func CheckShare(d *Desk, what, principal string, own, others, limit int) error {
	share := Share(others, limit)
	if own <= share {
		return nil
	}
	return transfer.Errorf(transfer.KindTooLarge, "%s would have %d %ss at agent %s; its share is %d, half of those that other users leave of %d",
		principal, own, what, d.Agent, share, limit).WithHint("remove one, or wait until one ends")
}

// Visible are the objects that a caller may see.
func Visible[T Owned](d *Desk, who Caller, all iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for v, err := range all {
			ok := false
			if err == nil {
				ok, err = d.Sees(who, v.Owner())
			}
			if (ok || err != nil) && !yield(v, err) || err != nil {
				return
			}
		}
	}
}

// Identified is an object that a duty keeps under an ID.
type Identified interface {
	Owned
	Ident() transfer.ID
}

// Find returns the object whose ID ends in a suffix, of those that a caller may see. The errors and their hints name
// the kind of object.
func Find[T Identified](d *Desk, who Caller, what, suffix string, all iter.Seq2[T, error]) (found T, err error) {
	if err := transfer.CheckIDSuffix(suffix); err != nil {
		return found, err
	}
	n, end := 0, strings.ToLower(suffix)
	for v, err := range all {
		if err != nil {
			return found, err
		}
		if !strings.HasSuffix(v.Ident().String(), end) {
			continue
		}
		if ok, err := d.Sees(who, v.Owner()); err != nil {
			return found, err
		} else if !ok {
			continue
		}
		if n++; n > 1 {
			return found, transfer.Errorf(transfer.KindUsage, "the %ss %s and %s both end in %s", what, found.Ident(), v.Ident(), suffix).WithHint("give more of the ID")
		}
		found = v
	}
	if n == 0 {
		return found, transfer.Errorf(transfer.KindNotFound, "%s has no %s %s", d.Agent, what, suffix).WithHint("`ferry " + what + " ls` lists them")
	}
	return found, nil
}
