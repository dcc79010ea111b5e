package disk

import "testing"

func TestParseRoot(t *testing.T) {
	for spec, want := range map[string]RootSpec{
		"/a": {Dir: "/a"}, "/a,mounted": {Dir: "/a", Mounted: true}, "/a,ro": {Dir: "/a", ReadOnly: true}, "/a,mounted,wo": {Dir: "/a", Mounted: true, WriteOnly: true},
		"/a,ro,mounted": {Dir: "/a", Mounted: true, ReadOnly: true}, "/a,ro/": {Dir: "/a,ro/"}, "/a,ro,ro": {Dir: "/a,ro", ReadOnly: true}, "/a,rx": {Dir: "/a,rx"},
	} {
		if got := ParseRoot(spec); got != want {
			t.Errorf("%s is %+v, want %+v", spec, got, want)
		}
	}
}
