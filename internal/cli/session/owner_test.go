//go:build unix

package session

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"
	"testing"

	"ferry/internal/security/keyfile"
	"ferry/internal/transfer"
)

// Root in a directory of another user gets the whole command that works, without a secret.
func TestTheCommandOfTheOwner(t *testing.T) {
	args := []string{"ferry", "up", "--agent", "ALPHA=/srv/al pha", "--dir", "/var/lib/ferry's"}
	const said = `ferry up --agent 'ALPHA=/srv/al pha' --dir '/var/lib/ferry'\''s'`
	for _, c := range []struct {
		of   keyfile.ForeignError
		args []string
		want string
	}{
		{keyfile.ForeignError{UID: daemon(t)}, args, "run `runuser -u daemon -- " + said + "`"},
		{keyfile.ForeignError{UID: 987654, GID: 8}, args, "run `setpriv --reuid 987654 --regid 8 --clear-groups -- " + said + "`; a container has `--user 987654:8` for that"},
		{keyfile.ForeignError{UID: daemon(t)}, []string{"/bin/ferry", "login", "--join=ferry-token:1:secret", ""}, "run `runuser -u daemon -- /bin/ferry login --join=FILE ''`"},
	} {
		if got := ownersCommand(&c.of, c.args); got != c.want {
			t.Errorf("hint is\n%s\nwant\n%s", got, c.want)
		}
	}
}

// daemon is a user that every Unix system has.
func daemon(t *testing.T) int {
	t.Helper()
	u, err := user.Lookup("daemon")
	if err != nil {
		t.Fatal(err)
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		t.Fatal(err)
	}
	return uid
}

// An error about a directory of another user is one of usage and has a next step; other errors stay.
func TestErrorsOfAnotherUsersDirectory(t *testing.T) {
	foreign := &keyfile.ForeignError{Path: "/srv/x", UID: os.Geteuid() + 1}
	for _, c := range []struct {
		err  error
		text string
	}{
		{foreign, "/srv/x belongs to user "},
		{fmt.Errorf("with more: %w", foreign), "with more: /srv/x belongs to user "},
		{transfer.Errorf(transfer.KindUnwritable, "it cannot be kept: %w", foreign), "it cannot be kept: /srv/x belongs to user "},
		{&keyfile.ForeignError{Path: "/srv/x", Writable: true}, "other users may write in the directory /srv/x; take that right away: `chmod go-w /srv/x`"},
	} {
		err := asOwner(c.err, []string{"ferry"})
		if transfer.KindOf(err) != transfer.KindUsage || !strings.HasPrefix(err.Error(), c.text) || !strings.Contains(err.Error(), "; ") {
			t.Errorf("%v, kind %v", err, transfer.KindOf(err))
		}
	}
	if other := errors.New("other"); asOwner(other, nil) != other || asOwner(nil, nil) != nil {
		t.Error("another error is changed")
	}
}
