package member

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"ferry/internal/security/enrol"
	"ferry/internal/security/identity"
	"ferry/internal/security/keyfile"
	"ferry/internal/transfer"
)

// Stored is the identity in a directory. The error is fs.ErrNotExist where there is none.
func Stored(path string) (*identity.Identity, error) {
	dir, err := keyfile.Open(path)
	if err != nil {
		return nil, err
	}
	return identity.Load(dir)
}

// JoinWith joins a network with a token, unless that was done with it before. An identity that
// is good stays where the token is not, or is there no more.
func JoinWith(ctx context.Context, token func() (enrol.Token, error), path string, role identity.Role, name string, log *slog.Logger) error {
	was, err := Stored(path)
	if err == nil {
		if err := holds(was, path, role, name); err != nil {
			return err // the token stays good
		}
	}
	good := err == nil && time.Now().Before(was.Until())
	t, err := token()
	if err != nil && good {
		return nil // as after a restart with the same command
	}
	if err != nil {
		return err
	}
	_, err = JoinIn(ctx, t, path, identity.Name{Role: role, Name: name})
	if good && transfer.KindOf(err) == transfer.KindDenied {
		log.Warn("the token is not good; the identity stays as it is", "identity", was.Name(), "error", err)
		return nil
	}
	return err
}

// holds returns nil where the identity in a directory is that of a role and name.
func holds(i *identity.Identity, path string, role identity.Role, name string) error {
	if i.Name().Role == role && i.Name().Name == name {
		return nil
	}
	return transfer.Errorf(transfer.KindConflict, "the identity in %s is %s, and not that of %s %s", path, i.Name(), role, name).
		WithHint("choose another state directory with --dir")
}

// Login joins a network as a user with a token, and keeps the identity at path. Unless force is set, it refuses a token
// that is for another user than the valid identity at path, or that would change the user's role. Such a token stays good.
func Login(ctx context.Context, t enrol.Token, path string, force bool) (*identity.Identity, error) {
	was, err := Stored(path)
	if err != nil {
		if err := checkOurs(path); err != nil {
			return nil, err
		}
	}
	switch {
	case force:
		return joinIn(ctx, t, path, identity.Name{Role: identity.User}, false)
	case err != nil || !time.Now().Before(was.Until()):
		return joinIn(ctx, t, path, identity.Name{Role: identity.User}, true)
	case was.Name().Network != t.Network:
		return nil, transfer.Errorf(transfer.KindConflict, "the identity in %s is %s, and the token is of the network %s", path, was.Name(), t.Network).
			WithHint("give another directory, or --force to replace the identity")
	case was.Name().Role != identity.User:
		return nil, transfer.Errorf(transfer.KindConflict, "the identity in %s is %s, and not that of a user", path, was.Name()).
			WithHint("give another directory, or --force to replace the identity")
	}
	i, err := joinIn(ctx, t, path, identity.Name{Role: identity.User, Name: was.Name().Name}, true)
	var e *transfer.Error
	if errors.As(err, &e) && e.Kind == transfer.KindUsage && !strings.Contains(e.Hint, "--force") { // as for another role
		err = transfer.Errorf(e.Kind, "this user is %s already: %s", was.Name(), e.Text).
			WithHint("give --identity DIR to keep both identities, or --force to replace the one in " + path)
	}
	return i, err
}

// hasIdentity reports whether a directory with these entries has an identity, which may be damaged. A directory of keys of
// another program has neither file.
func hasIdentity(all []fs.DirEntry) bool {
	return slices.ContainsFunc(all, func(e fs.DirEntry) bool { return e.Name() == identity.FileSeed || e.Name() == fileToken })
}

// checkOurs refuses a path that a login replaces, unless it is free or has files of an identity.
func checkOurs(path string) error {
	all, err := os.ReadDir(path)
	begun := !slices.ContainsFunc(all, func(e fs.DirEntry) bool { return !keyfile.IsTemporary(e.Name()) })
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && (begun || hasIdentity(all)):
		return nil
	case err != nil:
		return transfer.Errorf(transfer.KindConflict, "%s would be replaced, and is no directory that can be read: %w", path, err).
			WithHint("move it away, or give another directory")
	}
	return transfer.Errorf(transfer.KindConflict, "the directory %s would be replaced, and has other files than those of an identity", path).
		WithHint("move it away, or give another directory")
}

// JoinIn joins a network as a name with a token, and keeps the identity at path. The identity has new keys, because old
// ones may be revoked or belong to another holder. An identity that was at path is put aside after that. A second call
// with the same token resumes the first one, or returns its identity.
func JoinIn(ctx context.Context, t enrol.Token, path string, as identity.Name) (*identity.Identity, error) {
	return joinIn(ctx, t, path, as, false)
}

// joinIn is JoinIn. With sameRole the authority refuses a token that would change the role of a name with a valid identity.
func joinIn(ctx context.Context, t enrol.Token, given string, as identity.Name, sameRole bool) (*identity.Identity, error) {
	path, err := filepath.Abs(given) // those beside it have its name with an ending
	if err != nil {
		return nil, transfer.Errorf(transfer.KindUsage, "the directory %s has no absolute path: %w", given, err).WithHint("give its absolute path")
	}
	sum := sha256.Sum256([]byte(t.Secret))
	mark := hex.EncodeToString(sum[:])
	marked := func(path string) bool {
		dir, err := keyfile.Open(path)
		if err != nil {
			return false
		}
		data, err := dir.Read(fileToken)
		return err == nil && string(data) == mark
	}
	if i, err := Stored(path); err == nil && marked(path) {
		return i, nil
	}

	fresh := path + ".new"
	for _, p := range []string{fresh, path + endingOld} {
		if err := checkOurs(p); err != nil {
			return nil, err // the token stays good
		}
	}
	if !marked(fresh) {
		if err := os.RemoveAll(fresh); err != nil {
			return nil, err
		}
	}
	dir, err := keyfile.Make(fresh)
	if err == nil {
		err = dir.Write(fileToken, []byte(mark))
	}
	if err != nil {
		return nil, transfer.Errorf(transfer.KindUnwritable, "the identity cannot be kept: %w", err)
	}
	if _, err := enrol.Join(ctx, t, as, dir, sameRole); err != nil {
		return nil, err
	}
	if _, err := os.Lstat(path); err == nil {
		if err := moveAside(path); err != nil {
			return nil, err
		}
	}
	if err := os.Rename(fresh, path); err != nil {
		return nil, err
	}
	return Stored(path)
}

const (
	fileToken = "token.sha256" // beside an identity: the hash of the token that the identity joined with
	endingOld = ".old"         // of a directory that was put aside
)

// PutAside puts a directory of an identity aside and makes an empty one.
func PutAside(path string) (*keyfile.Dir, error) {
	if err := moveAside(path); err != nil {
		return nil, err
	}
	return keyfile.Make(path)
}

// moveAside puts a directory of an identity aside, in the place of an earlier one. It removes an empty directory.
func moveAside(path string) error {
	if all, err := os.ReadDir(path); err == nil && len(all) == 0 {
		return os.Remove(path)
	}
	old := path + endingOld
	if err := checkOurs(old); err != nil {
		return err
	}
	if err := os.RemoveAll(old); err != nil {
		return err
	}
	return os.Rename(path, old)
}
