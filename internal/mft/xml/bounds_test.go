package xml

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"ferry/internal/transfer"
)

// The parts of a document that are read in more than one pass have a greatest length.
func TestLongPartsAreRefused(t *testing.T) {
	longest := strings.Repeat("1|", maxSuccessRC/2-1) + "12"
	if _, err := codesOf(longest); err != nil {
		t.Errorf("a successRC of %d bytes: %v", len(longest), err)
	}
	if _, err := codesOf(longest + "3"); transfer.KindOf(err) != transfer.KindDocument || !strings.Contains(err.Error(), "1025 bytes; the limit is 1024") {
		t.Errorf("a successRC of %d bytes: %v", len(longest)+1, err)
	}
	dataset := func(size int) string {
		const name = "HLQ.X,RECFM(FB),LRECL(80)"
		return asked("", "", ">", ">", ">", ">a", ` type="dataset"><file>`+name+strings.Repeat(",", size-len(name))+`</file>`)
	}
	if _, err := Parse([]byte(dataset(transfer.MaxPath))); err != nil {
		t.Errorf("a data set of %d bytes: %v", transfer.MaxPath, err)
	}
	if _, err := Parse([]byte(dataset(transfer.MaxPath + 1))); transfer.KindOf(err) != transfer.KindDocument || !strings.Contains(err.Error(), "a data set has 4097 bytes; the limit is 4096") {
		t.Errorf("a data set of %d bytes: %v", transfer.MaxPath+1, err)
	}
}

// However many elements have no effect, the list of them is short.
func TestIgnoredIsBounded(t *testing.T) {
	one := `<item><source type="queue"><queue>A%s</queue></source><destination><file>b</file></destination></item>`
	var items strings.Builder
	for n := range 2 * maxIgnored {
		fmt.Fprintf(&items, one, fmt.Sprintf("@QM%d%s", n, strings.Repeat("X", 10_000)))
		fmt.Fprintf(&items, one, "@QM")
	}
	doc := `<request version="6.00"><managedTransfer><sourceAgent agent="ALPHA"/><destinationAgent agent="BETA"/><transferSet>` + items.String() + `</transferSet></managedTransfer></request>`
	d := parsed(t, []byte(doc))
	size := len(strings.Join(d.Ignored, ""))
	if len(d.Ignored) != maxIgnored || size > maxIgnored*maxIgnoredText {
		t.Errorf("%d elements are listed, of %d bytes", len(d.Ignored), size)
	}
	if !slices.Contains(d.Ignored, "@QM of <queue>: queues are those of the agent's own queue manager") {
		t.Errorf("the second element is not listed: %.300q", d.Ignored)
	}
}
