package codepage

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"ferry/internal/sys/spelling"
	"ferry/internal/transfer"
)

// maxName is the greatest length of a name for Lookup, in bytes.
const maxName = 64

// key returns the common form of the spellings of a name: lower case, without signs. A number may have the prefixes of
// IBM, Java and IANA, and leading zeros. ICU's name of a table may follow it (ibm-1047_P100-1995), unless that is a
// variant's (ibm-942_P12A-1999).
func key(name string) string {
	name = strings.ToLower(name)
	if base, table, ok := strings.Cut(name, "_p"); ok && icuTable.MatchString(table) {
		name = base
	}
	k := strings.Map(func(r rune) rune {
		if strings.ContainsRune("-_ .:+()", r) {
			return -1
		}
		return r
	}, name)
	for _, prefix := range []string{"csibm", "xibm", "ibm", "ccsid", "cp", ""} {
		if n, ok := strings.CutPrefix(k, prefix); ok && n != "" && strings.Trim(n, "0123456789") == "" {
			return strings.TrimLeft(n, "0")
		}
	}
	return k
}

// icuTable is the name of one of IBM's tables as ICU writes it, after _p.
var icuTable = regexp.MustCompile(`^[0-9]{3}-[0-9]{4}$`)

// index has every name under which a page is found.
var index = sync.OnceValue(func() map[string]*Page {
	m := map[string]*Page{}
	for _, p := range pages() {
		for _, name := range p.names() {
			k := key(name)
			if other := m[k]; other != nil && other != p {
				panic(fmt.Sprintf("internal error: %s is %s and %s", name, other.name, p.name))
			}
			m[k] = p
		}
	}
	return m
})

// names returns the name, the numbers and the aliases.
func (p *Page) names() []string {
	all := []string{p.name}
	for _, n := range p.numbers {
		all = append(all, strconv.Itoa(n))
	}
	return append(all, p.aliases...)
}

// Aliases returns the other names that Lookup accepts for the page. Case does not matter, and signs may be omitted. A
// number may be written as 1047, IBM-1047, ibm1047, Cp1047 or CCSID 01047.
func (p *Page) Aliases() []string {
	seen := map[string]bool{p.name: true}
	var all []string
	add := func(name string) {
		if !seen[name] {
			seen[name] = true
			all = append(all, name)
		}
	}
	for i, n := range p.numbers {
		if i == 0 {
			add(fmt.Sprintf("IBM-%03d", n))
			add(fmt.Sprintf("Cp%03d", n))
		}
		add(strconv.Itoa(n))
	}

	for _, a := range p.aliases {
		add(a)
	}
	return all
}

// Lookup returns the page of a name: IBM's (IBM-1047), Java's (Cp1047), IANA's (IBM1047, ISO_8859-1), or a plain number
// (1047), in any case. An unknown name is an error of KindUsage that lists the nearest names.
func Lookup(name string) (*Page, error) {
	if p := index()[key(name)]; p != nil && len(name) <= maxName {
		return p, nil
	}
	if len(name) > maxName {
		return nil, transfer.Errorf(transfer.KindUsage, "code page %q… is unknown", name[:maxName]).WithHint("`ferry codepages` lists them")
	}
	hint := "`ferry codepages` lists them"
	if near := nearest(name, 4); len(near) > 0 {
		hint = "the nearest are " + strings.Join(near, ", ") + "; `ferry codepages` lists all"
	}
	return nil, transfer.Errorf(transfer.KindUsage, "code page %q is unknown", name).WithHint(hint)
}

// nearest returns the names of the pages with names that differ least from a given one.
func nearest(name string, most int) []string {
	k := key(name)
	type near struct {
		page *Page
		far  int
	}
	var all []near
	for _, p := range pages() {
		far := 1 << 30
		for _, n := range p.names() {
			far = min(far, spelling.Distance(k, key(n)))
		}
		if far <= max(1, len(k)/3) {
			all = append(all, near{p, far})
		}
	}

	slices.SortStableFunc(all, func(a, b near) int { return cmp.Compare(a.far, b.far) })
	var names []string
	for _, n := range all[:min(most, len(all))] {
		names = append(names, n.page.name)
	}
	return names
}

// List returns all pages, sorted for users: Unicode and ASCII, then the pages of EBCDIC by number, then the others by
// name.
func List() []*Page { return slices.Clone(pages()) }
