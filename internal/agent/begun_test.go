package agent

import (
	"fmt"
	"testing"
)

// Neither one asker nor any number of them has more transfers ended than there may be of records.
func TestDisownedAreBounded(t *testing.T) {
	d := disowned{of: map[string]int{}}
	for range maxDisowned {
		if !d.count("BETA") {
			t.Fatal("an asker is refused too early")
		}
	}
	if d.count("BETA") {
		t.Error("an asker has more transfers ended than it may")
	}
	for n := range maxDisowned - 1 {
		if !d.count(fmt.Sprint("A", n)) {
			t.Fatal("an asker is refused too early")
		}
	}
	if d.count("LAST") {
		t.Error("one asker more than there may be is not counted, and not refused")
	}
}
