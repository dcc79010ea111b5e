package main

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"

	"ferry/internal/keyfile"
	"ferry/internal/transfer"
)

// asOwner adds the next step to an error about a directory of another user: the command that was run, as that user.
func asOwner(err error, args []string) error {
	var f *keyfile.ForeignError
	if !errors.As(err, &f) {
		return err
	}
	e := transfer.AsError(err)
	if !errors.As(err, new(*transfer.Error)) {
		e.Kind = transfer.KindUsage
	}
	home := os.Getenv("HOME")
	atHome := home != "" && (home == f.Path || strings.HasPrefix(home, f.Path+string(os.PathSeparator)))
	o := owner{uid: f.UID, gid: f.GID}
	if u, err := user.LookupId(strconv.Itoa(f.UID)); err == nil {
		o.name = u.Username
		if info, err := os.Stat(u.HomeDir); err == nil && info.IsDir() && !atHome && u.HomeDir != home {
			o.home = u.HomeDir
		}
	}
	switch {
	case f.Writable:
		return e.WithHint("take that right away: `chmod go-w " + quoted(f.Path) + "`")
	case os.Geteuid() != 0:
		return e.WithHint("run the command as that user, or with a directory of your own")
	}
	hint := o.hint(args)
	if atHome {
		hint += ", or as root with a HOME that is root's"
	}
	return e.WithHint(hint)
}

// An owner is the user to which a directory belongs. name is empty where the host has none, home where HOME is right already.
type owner struct {
	uid, gid   int
	name, home string
}

// hint is the command that runs args as the owner, for root.
func (o owner) hint(args []string) string {
	var line []string
	for _, a := range args {
		if before, _, secret := strings.Cut(a, "ferry-token:"); secret {
			a = before + "FILE"
		}
		line = append(line, quoted(a))
	}
	command := strings.Join(line, " ")
	switch {
	case o.name == "nobody": // root of this host is that user on the storage, or the user of a host is unknown in a container
		return "run Ferry as a user of its own, to which the directory belongs"
	case o.name == "":
		return fmt.Sprintf("run `setpriv --reuid %d --regid %d --clear-groups -- %s`; a container has `--user %d:%d` for that", o.uid, o.gid, command, o.uid, o.gid)
	}
	command = "runuser -u " + quoted(o.name) + " -- " + command
	if o.home != "" { // which runuser leaves as it is
		command = "HOME=" + quoted(o.home) + " " + command
	}
	return "run `" + command + "`"
}

// quoted is a word as a shell reads it.
func quoted(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("@%+=:,./_-", r)
	}
	if word != "" && strings.TrimLeftFunc(word, plain) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
