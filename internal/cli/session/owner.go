package session

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"ferry/internal/security/keyfile"
	"ferry/internal/transfer"
)

// asOwner adds the next step to an error about a directory of another user: the command that was run, as that user.
func asOwner(err error, args []string) error {
	var f *keyfile.ForeignError
	if !errors.As(err, &f) {
		return err
	}
	e := transfer.Errorf(transfer.KindUsage, "%s", transfer.AsError(err).Text)
	switch {
	case f.Writable:
		return e.WithHint("take that right away: `chmod go-w " + quoted(f.Path) + "`")
	case os.Geteuid() != 0:
		return e.WithHint("run the command as that user, or with a directory of your own")
	}
	hint := ownersCommand(f, args)
	if home := os.Getenv("HOME"); home == f.Path || strings.HasPrefix(home, f.Path+string(os.PathSeparator)) {
		hint += ", or as root with a HOME that is root's"
	}
	return e.WithHint(hint)
}

// ownersCommand is the next step for root: the command with args, run by the owner of a directory.
func ownersCommand(f *keyfile.ForeignError, args []string) string {
	var line []string
	for _, a := range args {
		if before, _, secret := strings.Cut(a, "ferry-token:"); secret {
			a = before + "FILE"
		}
		line = append(line, quoted(a))
	}
	command := strings.Join(line, " ")
	switch name := f.Owner(); name {
	case "nobody": // root of this host is that user on the storage, or the user of a host is unknown in a container
		return "run Ferry as a user of its own, with a directory of that user"
	case strconv.Itoa(f.UID):
		return fmt.Sprintf("run `setpriv --reuid %d --regid %d --clear-groups -- %s`; a container has `--user %d:%d` for that", f.UID, f.GID, command, f.UID, f.GID)
	default:
		return "run `runuser -u " + quoted(name) + " -- " + command + "`"
	}
}
