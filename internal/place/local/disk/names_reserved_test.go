package disk

import (
	"strings"
	"testing"

	"ferry/internal/transfer"
)

// If a link leads to a reserved name, the refusal gives that name, because the path of the request does not have it.
func TestReservedNameBehindALink(t *testing.T) {
	for path, want := range map[string]string{
		"/srv/lnk":          `/srv/lnk leads to ".FERRY-x", a name that begins with .ferry-`,
		"/srv/out/.FERRY-x": `/srv/out/.FERRY-x contains a name that begins with .ferry-`,
	} {
		if err := refusesReserved(transfer.Path(path), "out/.FERRY-x"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %s", err, want)
		}
	}
	if err := refusesReserved("/srv/lnk", "out/x"); err != nil {
		t.Error(err)
	}
}
