package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"ferry/internal/keyfile"
	"ferry/internal/transfer"
)

// Whoever starts Ferry as root in a directory of another user is told the command that works, whole, and without a secret.
func TestTheCommandOfTheOwner(t *testing.T) {
	args := []string{"ferry", "up", "--agent", "ALPHA=/srv/al pha", "--dir", "/var/lib/ferry's"}
	const said = `ferry up --agent 'ALPHA=/srv/al pha' --dir '/var/lib/ferry'\''s'`
	for _, c := range []struct {
		owner owner
		args  []string
		want  string
	}{
		{owner{uid: 7, gid: 8, name: "ferry"}, args, "run `runuser -u ferry -- " + said + "`"},
		{owner{uid: 7, gid: 8, name: "ferry", home: "/var/lib/x"}, args, "run `HOME=/var/lib/x runuser -u ferry -- " + said + "`"},
		{owner{uid: 7, gid: 8}, args, "run `setpriv --reuid 7 --regid 8 --clear-groups -- " + said + "`; a container has `--user 7:8` for that"},
		{owner{uid: 65534, gid: 65534, name: "nobody"}, args, "run Ferry as a user of its own, to which the directory belongs"},
		{owner{name: "ferry"}, []string{"/bin/ferry", "login", "--join=ferry-token:1:secret", ""}, "run `runuser -u ferry -- /bin/ferry login --join=FILE ''`"},
	} {
		if got := c.owner.hint(c.args); got != c.want {
			t.Errorf("hint is\n%s\nwant\n%s", got, c.want)
		}
	}
}

// The error of a directory of another user is one of usage, unless it is of another kind already; other errors stay.
func TestErrorsOfAnotherUsersDirectory(t *testing.T) {
	foreign := &keyfile.ForeignError{Path: "/srv/x", UID: os.Geteuid() + 1}
	for _, c := range []struct {
		err  error
		kind transfer.Kind
		text string
	}{
		{foreign, transfer.KindUsage, "/srv/x belongs to user "},
		{fmt.Errorf("with more: %w", foreign), transfer.KindUsage, "with more: /srv/x belongs to user "},
		{transfer.Errorf(transfer.KindUnwritable, "it cannot be kept: %w", foreign), transfer.KindUnwritable, "it cannot be kept: /srv/x belongs to user "},
		{&keyfile.ForeignError{Path: "/srv/x", Writable: true}, transfer.KindUsage, "other users may write in the directory /srv/x; take that right away: `chmod go-w /srv/x`"},
	} {
		err := asOwner(c.err, []string{"ferry"})
		if transfer.KindOf(err) != c.kind || !strings.HasPrefix(err.Error(), c.text) || !strings.Contains(err.Error(), "; ") {
			t.Errorf("%v, kind %v", err, transfer.KindOf(err))
		}
	}
	if other := errors.New("other"); asOwner(other, nil) != other || asOwner(nil, nil) != nil {
		t.Error("another error is changed")
	}
}
