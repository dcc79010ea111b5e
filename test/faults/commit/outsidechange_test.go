//go:build linux

package commit_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"

	"ferry/internal/faulty"
	"ferry/internal/transfer"
)

// An outsideChange is a change by another program between a crash and the next run.
type outsideChange struct {
	what string
	file int
	grew string // bytes appended to the old file that the item is appended to
	want []byte // content required under the final name at the end; nil: the file itself
	kind transfer.Kind
	take bool // the outcome must report that a consumer has taken it
}

// changeFromOutside may change one file that a crash has left between two records. It returns nil if it changes nothing.
func (w *work) changeFromOutside(m *faulty.Memory, c *crash, r *rand.Rand) (*outsideChange, error) {
	k := r.IntN(len(w.files))
	it := c.state.Items[uint64(k)]
	if r.IntN(2) == 0 || !c.promised(w) || w.consumer || it.Intent == nil && it.Point == nil {
		return nil, nil
	}
	final, temp := "/dst/"+w.lands(w.files[k].name), w.temporary(k)
	if it.Intent != nil {
		temp = w.taking(k)
	}
	content, ferr := m.ReadFile(final)
	half, terr := m.ReadFile(temp)
	landed := it.Intent != nil && ferr == nil && terr != nil && w.whole(k, content)
	var err error
	d := &outsideChange{file: k}
	switch n := r.IntN(3); {
	case landed && n > 0:
		d.what, d.take = "a consumer takes the file", true
		err = m.Remove(final)
		if n > 1 && err == nil && len(content) > 0 { // another program's file gets its name, its size and its inode number
			d.what += ", and another of its size takes its place"
			d.want = bytes.Repeat([]byte("S"), len(content))
			err = m.WriteFile(final, d.want)
		}
	case w.exists == transfer.IfExistsAppend && ferr == nil && !w.whole(k, content) && string(content) == w.old[w.files[k].name]:
		d.what, d.grew = "somebody appends to the file that is there", " and more"
		err = m.WriteFile(final, append(content, d.grew...))
	case it.Intent != nil && terr == nil && ferr != nil && n > 0 && w.exists == "":
		d.what, d.want, d.kind = "a stranger takes the name", strangersFile, transfer.KindExists
		err = m.WriteFile(final, d.want)
	case terr == nil && ferr != nil && len(half) > 0:
		at := r.IntN(len(half))
		if it.Point != nil {
			at = r.IntN(int(min(it.Point.Source, int64(len(half)))))
		}
		d.what = fmt.Sprintf("byte %d of the temporary rots", at)
		half[at] ^= 1
		err = m.Rewrite(temp, half)
	default:
		return nil, nil
	}
	m.SyncAll()
	return d, err
}

// expect tells the agent about the change, for the judgement.
func (d *outsideChange) expect(a *agent, c *crash) {
	if d == nil {
		return
	}
	final := "/dst/" + a.w.lands(a.w.files[d.file].name)
	if d.kind != 0 {
		a.others.stranger = final
	}
	if d.grew != "" {
		w := *a.w
		w.old = maps.Clone(w.old)
		w.old[w.files[d.file].name] += d.grew
		a.w = &w
	}
	if d.take {
		if c.taken == nil {
			c.taken = map[string]int{}
		}
		c.taken[final]++
	}
}

// check compares the file with the expectation.
func (d *outsideChange) check(a *agent) (wrong []string) {
	if d == nil {
		return nil
	}
	name := a.w.files[d.file].name
	out := a.j.State().Items[uint64(d.file)].Outcome
	switch {
	case out == nil:
	case d.kind != 0 && (out.OK() || out.Err.Kind != d.kind):
		wrong = append(wrong, fmt.Sprintf("%s, and the outcome of %q is %v", d.what, name, out.Err))
	case d.take && out.Taken == transfer.NotTaken:
		wrong = append(wrong, fmt.Sprintf("%s, and the outcome of %q does not say so", d.what, name))
	}
	content, err := a.mem.ReadFile("/dst/" + a.w.lands(name))
	if d.want != nil && (err != nil || !bytes.Equal(content, d.want)) {
		wrong = append(wrong, fmt.Sprintf("%s, and it is not there any more: %v", d.what, err))
	}
	if d.take && d.want == nil && err == nil {
		wrong = append(wrong, fmt.Sprintf("%s, and it is there again", d.what))
	}
	return wrong
}

func (d *outsideChange) String() string {
	if d == nil {
		return "after the next run"
	}
	return "after the next run, before which " + d.what
}
