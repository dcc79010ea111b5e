// Package spelling measures how far one word is from another, for errors that suggest the intended word.
package spelling

import (
	"cmp"
	"slices"
	"strings"
)

// most is how long words may be, in bytes; longer ones are far from everything.
const most = 64

// Distance counts the bytes to put in, leave out or change to make b of a; two
// neighbours in the wrong order count as one change (the restricted
// Damerau-Levenshtein distance). Beyond 64 bytes it is the longer one's length.
func Distance(a, b string) int {
	if len(a) > most || len(b) > most {
		return max(len(a), len(b))
	}

	before, row := make([]int, len(b)+1), make([]int, len(b)+1)
	var older []int
	for j := range row {
		row[j] = j
	}

	for i := range len(a) {
		older, before, row = before, row, make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			change := before[j]
			if a[i] != b[j] {
				change++
			}
			row[j+1] = min(change, before[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], older[j-1]+1)
			}
		}
	}
	return row[len(b)]
}

// Nearest gives up to most of the names that a word may have been meant as, the
// nearest first: those that are a third of its length from it at most, or one change.
// Case counts for nothing, nor whether '-' or '_' stands between.
func Nearest(word string, most int, names []string) []string {
	plain := func(s string) string { return strings.ToLower(strings.ReplaceAll(s, "_", "-")) }
	word = plain(word)
	far := map[string]int{}
	var near []string
	for _, n := range names {
		if d := Distance(word, plain(n)); d <= max(1, len(word)/3) && d < len(n) {
			far[n] = d
			near = append(near, n)
		}
	}
	slices.SortStableFunc(near, func(a, b string) int { return cmp.Compare(far[a], far[b]) })
	return near[:min(most, len(near))]
}
