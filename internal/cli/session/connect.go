package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ferry/internal/cli/output"
	"ferry/internal/node/config"
	"ferry/internal/node/member"
	"ferry/internal/node/process"
	"ferry/internal/qmgr"
	"ferry/internal/security/enrol"
	"ferry/internal/security/keyfile"
	"ferry/internal/transfer"
)

// AddNetwork adds the flags of a user's command that speaks to a network.
func AddNetwork(fl *pflag.FlagSet, url *string) {
	fl.StringVar(url, "network", "", "URL of a queue manager; also in FERRY_NETWORK")
	fl.String("identity", "", "directory of the identity as which to connect (default: this user's in that network)")
}

// envJoin is the environment variable for a token, for services that cannot name a file.
const envJoin = "FERRY_JOIN"

// AddJoin adds the flag for a token.
func AddJoin(c *cobra.Command, join *string) {
	c.Flags().StringVar(join, "join", "", "file with the token of ferry token create, which other users cannot read, or - for standard input; the token itself may be in FERRY_JOIN")
	config.Never(c, "join") // FERRY_JOIN is a token, and not its file
}

// joining reports whether a token is given.
func joining(join string) bool { return join != "" || os.Getenv(envJoin) != "" }

// ReadToken reads a token from a file or from standard input; from FERRY_JOIN where neither
// is named.
func ReadToken(cmd *cobra.Command, from string) (enrol.Token, error) {
	switch {
	case from == "":
		return enrol.ParseToken(os.Getenv(envJoin))
	case strings.HasPrefix(from, "ferry-token:"):
		return enrol.Token{}, transfer.Errorf(transfer.KindUsage, "--join takes a file and not the token: each user of this host can read the arguments of a command").
			WithHint("have a new one made with `ferry token create --out FILE`, and give the file or standard input")
	}
	data, err := readSecret(cmd, "token", from, 64<<10)
	if errors.Is(err, keyfile.ErrRead) {
		if strings.HasPrefix(from, "/dev/") || strings.HasPrefix(from, "/proc/") { // a file that the shell has opened
			return enrol.Token{}, transfer.AsError(err).WithHint("give standard input as `--join -`")
		}
		return enrol.Token{}, transfer.AsError(err).WithHint("if no other user has read it, `chmod 600 " + quoted(from) + "`; otherwise take it back with `ferry token rm`, and have a new one made with `ferry token create --out FILE`")
	}
	if err != nil {
		return enrol.Token{}, transfer.AsError(err).WithHint("--join takes a file with the token, or - for standard input")
	}
	return enrol.ParseToken(string(data))
}

// SecretDirs are the directories of this user's identities, which no transfer may touch.
func SecretDirs(cmd *cobra.Command) (all []string) {
	if home, err := member.StateDir(); err == nil {
		all = append(all, filepath.Join(home, "identities"))
	}
	if as := identityFlag(cmd); as != "" {
		all = append(all, as)
	}
	return all
}

// NeedNetwork refuses a location with an agent where no network is given.
func NeedNetwork(url string) error {
	if url != "" {
		return nil
	}
	return transfer.Errorf(transfer.KindUsage, "a location names an agent, but no network is given").
		WithHint("give --network URL or set FERRY_NETWORK")
}

// Unsent adds to an error from before the submission of a request that no request was sent, where a signal ended the
// command.
func Unsent(ctx context.Context, err error) error {
	if sig, ok := Signalled(ctx); ok && err != nil {
		return fmt.Errorf("%w: nothing was sent", sig)
	}
	return err
}

// Connect tries for limit, and prints a notice when it takes a while.
func Connect(ctx context.Context, cmd *cobra.Command, url, name string, limit time.Duration, log *slog.Logger) (*qmgr.Conn, error) {
	defer ConsoleOf(cmd).Slow(url)()
	return ConnectUser(ctx, cmd, url, name, limit, log)
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

// identityFlag returns the directory of --identity; "" where the flag is not given, or the command has none.
func identityFlag(cmd *cobra.Command) string {
	if f := cmd.Flags().Lookup("identity"); f != nil {
		return f.Value.String()
	}
	return ""
}

// ConnectUser connects this OS user, with the identity of --identity where that is given.
func ConnectUser(ctx context.Context, cmd *cobra.Command, url, name string, patience time.Duration, log *slog.Logger) (*qmgr.Conn, error) {
	return member.Connect(ctx, identityFlag(cmd), url, name, patience, log)
}

// EntryOf returns the way in which a service gets its identity, by --join and --identity.
func EntryOf(cmd *cobra.Command, join string) member.Entry {
	e := member.Entry{As: identityFlag(cmd)}
	if joining(join) {
		e.Token = func() (enrol.Token, error) { return ReadToken(cmd, join) }
	}
	if joining("") {
		e.Later = func() (enrol.Token, error) { return ReadToken(cmd, "") }
	}
	return e
}

// ConsoleOf returns the console of a command that runs a process.
func ConsoleOf(cmd *cobra.Command) process.Console {
	return process.Console{Out: cmd.OutOrStdout(), Notice: func(text string) { fmt.Fprintf(cmd.ErrOrStderr(), "ferry: %s\n", output.Printable(text)) }}
}
