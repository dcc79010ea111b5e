package script_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// patience is how long a command waits before it gives up. It decides nothing: the awaited event comes, or the product
// is wrong.
const patience = 4 * time.Minute

// commands are the commands of the scripts beside testscript's own.
//
//	code N PROGRAM ARG...     run it; the result code must be N, or one of N,N...: 0,3 is a --detach to an
//	                          agent that a busy host may keep from its receipt for five seconds
//	mkfile PATH SIZE SEED     make a file of bytes that follow from the seed; a new one appears with all of them
//	sparse PATH SIZE          make a file of zeros that takes no room
//	words PATH N TEXT         make a file of TEXT, N times
//	octets PATH PIECE...      make a file of the pieces: hexadecimal digits, *N after them for N times;
//	                          a:TEXT, TEXT as it is; e:TEXT, TEXT in EBCDIC
//	are PATH PIECE...         the file has exactly these pieces
//	same A B                  the files have the same bytes
//	holds DIR [NAME...]       exactly these are beneath DIR, directories with a final slash
//	tidy [DIR]                no temporary of Ferry's is beneath DIR ($WORK), and no attributes of a file that is not there
//	fifo PATH                 make a named pipe
//	jsonl [-any] FIELD...     the last line of stdout (any line) is JSON with each FIELD,
//	                          FIELD=VALUE, FIELD!=VALUE or FIELD~REGEXP
//	keep VAR [FIELD]          set VAR to the last line of stdout, or to a field of it
//	until REGEXP ARG...       run ferry again until it succeeds and stdout matches
//	appears GLOB              wait until a file has such a name
//	shows PATH REGEXP         wait until the file has such a text
//	port VAR                  set VAR to another free port
//	patch PATH OLD NEW        change the bytes of a file
//	repeat VAR TEXT N         set VAR to TEXT, N times
var commands = map[string]func(*testscript.TestScript, bool, []string){
	"code":    code,
	"mkfile":  mkfile,
	"sparse":  sparse,
	"words":   words,
	"octets":  octets,
	"are":     are,
	"same":    same,
	"holds":   holds,
	"tidy":    noLeftovers,
	"fifo":    fifo,
	"jsonl":   jsonl,
	"keep":    keep,
	"until":   until,
	"appears": appears,
	"shows":   shows,
	"port":    port,
	"patch":   patch,
	"repeat":  repeat,
}

// want ends the script where a command was not given as it must be.
func want(ts *testscript.TestScript, neg bool, ok bool, usage string) {
	if neg || !ok {
		ts.Fatalf("usage: %s", usage)
	}
}

func code(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, len(args) >= 2, "code N PROGRAM ARG...")
	got := run(ts, args[1:])
	if !slices.Contains(strings.Split(args[0], ","), strconv.Itoa(got)) {
		ts.Fatalf("result code %d, want %s", got, args[0])
	}
}

func run(ts *testscript.TestScript, args []string) int {
	err := ts.Exec(args[0], args[1:]...)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	ts.Check(err)
	return 0
}

func bytesOf(ts *testscript.TestScript, s string) int64 {
	shift := 0
	switch {
	case strings.HasSuffix(s, "K"):
		shift = 10
	case strings.HasSuffix(s, "M"):
		shift = 20
	}
	n, err := strconv.ParseInt(strings.TrimRight(s, "KM"), 10, 64)
	ts.Check(err)
	return n << shift
}

func create(ts *testscript.TestScript, name string) *os.File {
	ts.Check(os.MkdirAll(filepath.Dir(ts.MkAbs(name)), 0o777))
	f, err := os.Create(ts.MkAbs(name))
	ts.Check(err)
	return f
}

func mkfile(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, len(args) == 3, "mkfile PATH SIZE SEED")
	seed := [32]byte{}
	copy(seed[:], args[2])
	name, made := ts.MkAbs(args[0]), args[0]
	if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
		made = filepath.Join(ts.Getenv("WORK"), ".mkfile") // a monitor sees the file as a whole, or not at all
	}
	f := create(ts, made)
	_, err := io.CopyN(f, rand.NewChaCha8(seed), bytesOf(ts, args[1]))
	ts.Check(errors.Join(err, f.Close()))
	if made != args[0] {
		ts.Check(os.MkdirAll(filepath.Dir(name), 0o777))
		ts.Check(os.Rename(made, name))
	}
}

func sparse(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, len(args) == 2, "sparse PATH SIZE")
	f := create(ts, args[0])
	ts.Check(errors.Join(f.Truncate(bytesOf(ts, args[1])), f.Close()))
}

func words(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, len(args) == 3, "words PATH N TEXT")
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(strings.Repeat(args[2], n)), 0o666))
}

func same(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, false, len(args) == 2, "[!] same A B")
	a, err := os.ReadFile(ts.MkAbs(args[0]))
	ts.Check(err)
	b, err := os.ReadFile(ts.MkAbs(args[1]))
	ts.Check(err)
	if bytes.Equal(a, b) == neg {
		ts.Fatalf("%s (%d bytes) and %s (%d bytes): same is %v", args[0], len(a), args[1], len(b), !neg)
	}
}

// beneath lists the contents of a directory; a missing directory has none.
func beneath(ts *testscript.TestScript, dir string) []string {
	var names []string
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || name == dir {
			return nil
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			rel += "/"
		}
		names = append(names, rel)
		return err
	})
	ts.Check(err)
	return names
}

func holds(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, len(args) >= 1, "holds DIR [NAME...]")
	got := beneath(ts, ts.MkAbs(args[0]))
	slices.Sort(got)
	names := slices.Sorted(slices.Values(args[1:]))
	if !slices.Equal(got, names) {
		ts.Fatalf("%s holds %q, want %q", args[0], got, names)
	}
}

func noLeftovers(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, len(args) <= 1, "tidy [DIR]")
	dir := ts.Getenv("WORK")
	if len(args) == 1 {
		dir = ts.MkAbs(args[0])
	}
	for _, name := range beneath(ts, dir) {
		if strings.HasPrefix(filepath.Base(name), ".ferry-") && !isSidecar(filepath.Join(dir, filepath.FromSlash(name))) {
			ts.Fatalf("a temporary is left: %s", name)
		}
	}
}

// lines are those of the last command's stdout.
func lines(ts *testscript.TestScript) []string {
	return strings.Split(strings.TrimSpace(ts.ReadFile("stdout")), "\n")
}

func object(ts *testscript.TestScript, line string) map[string]any {
	d := json.NewDecoder(strings.NewReader(line))
	d.UseNumber()
	var m map[string]any
	if err := d.Decode(&m); err != nil {
		ts.Fatalf("%v: not an object of JSON: %q", err, line)
	}
	return m
}

// field is a value by its dotted name, as text; lists are not looked into.
func field(m map[string]any, name string) (string, bool) {
	first, rest, more := strings.Cut(name, ".")
	v, ok := m[first]
	if !ok {
		return "", false
	}
	if sub, isMap := v.(map[string]any); more && isMap {
		return field(sub, rest)
	}
	switch v := v.(type) {
	case string:
		return v, !more
	default:
		b, err := json.Marshal(v)
		return string(b), err == nil && !more
	}
}

var condition = regexp.MustCompile(`^([A-Za-z0-9_.]+)(?:(!?=|~)((?s).*))?$`)

// unmet is the first condition that a line does not meet.
func unmet(ts *testscript.TestScript, line string, conditions []string) string {
	m := object(ts, line)
	for _, c := range conditions {
		parts := condition.FindStringSubmatch(c)
		if parts == nil {
			ts.Fatalf("malformed condition %q", c)
		}
		v, ok := field(m, parts[1])
		switch parts[2] {
		case "=":
			ok = ok && v == parts[3]
		case "!=":
			ok = !ok || v != parts[3]
		case "~":
			ok = ok && regexp.MustCompile(parts[3]).MatchString(v)
		}
		if !ok {
			return fmt.Sprintf("%s, but it is %q", c, v)
		}
	}
	return ""
}

func jsonl(ts *testscript.TestScript, neg bool, args []string) {
	anyLine := len(args) > 0 && args[0] == "-any"
	if anyLine {
		args = args[1:]
	}
	want(ts, neg && !anyLine, len(args) > 0, "jsonl FIELD..., [!] jsonl -any FIELD...")
	all := lines(ts)
	inSchema(ts, all)
	if !anyLine {
		if bad := unmet(ts, all[len(all)-1], args); bad != "" {
			ts.Fatalf("want %s in %s", bad, all[len(all)-1])
		}
		return
	}
	found := slices.ContainsFunc(all, func(l string) bool { return l != "" && unmet(ts, l, args) == "" })
	if found == neg {
		ts.Fatalf("a line with %q: %v", args, found)
	}
}

func keep(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, len(args) == 1 || len(args) == 2, "keep VAR [FIELD]")
	all := lines(ts)
	v := all[len(all)-1]
	if len(args) == 2 {
		var ok bool
		if v, ok = field(object(ts, v), args[1]); !ok {
			ts.Fatalf("no %s in %s", args[1], all[len(all)-1])
		}
	}
	ts.Setenv(args[0], v)
}

// await asks again and again until done returns true. When the time is over, it fails with the text of last. Between
// two questions it pauses twice as long as the first of them took, and an eighth of the time since the first question,
// up to half a second. So the awaited processes, and those of other scripts, have the processor.
func await(ts *testscript.TestScript, what string, done func() bool, last func() string) {
	deadline, first := time.After(patience), time.Now()
	for {
		began := time.Now()
		if done() {
			return
		}
		select {
		case <-time.After(max(50*time.Millisecond, 2*time.Since(began), min(time.Since(first)/8, time.Second/2))):
		case <-deadline:
			if last != nil {
				ts.Logf("[last]\n%s", last())
			}
			ts.Fatalf("%s has not come to pass within %s", what, patience)
		}
	}
}

func until(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, false, len(args) >= 2, "until REGEXP ARG...") // ! until: it fails, and says so
	pattern, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	var out []byte
	await(ts, fmt.Sprintf("%q in what ferry %q says", args[0], args[1:]), func() bool {
		c := exec.Command(filepath.Join(ts.Getenv("BIN"), exe("ferry")), args[1:]...)
		c.Dir = ts.MkAbs(".")
		for _, name := range []string{"PATH", "HOME", "TMPDIR", "XDG_STATE_HOME", "FERRY_NETWORK", "FERRY_TIMEOUT"} {
			c.Env = append(c.Env, name+"="+ts.Getenv(name))
		}
		out, err = c.Output() // not ts.Exec: the log would have every try
		if failed := (*exec.ExitError)(nil); neg && errors.As(err, &failed) {
			out = failed.Stderr
		}
		return (err != nil) == neg && pattern.Match(out)
	}, func() string { return string(out) })
	_, err = ts.Stdout().Write(out)
	ts.Check(err)
}

func appears(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, len(args) == 1, "appears GLOB")
	await(ts, args[0], func() bool {
		found, err := filepath.Glob(ts.MkAbs(args[0]))
		ts.Check(err)
		return len(found) > 0
	}, nil)
}

func shows(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, len(args) == 2, "shows PATH REGEXP")
	pattern, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	var text []byte
	await(ts, fmt.Sprintf("%q in %s", args[1], args[0]), func() bool {
		text, err = os.ReadFile(ts.MkAbs(args[0]))
		return err == nil && pattern.Match(text)
	}, func() string { return string(text) })
}

func port(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, len(args) == 1, "port VAR")
	p, err := freePort(ts.Defer)
	ts.Check(err)
	ts.Setenv(args[0], p)
}

func patch(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, len(args) == 3, "patch PATH OLD NEW")
	name := ts.MkAbs(args[0])
	b, err := os.ReadFile(name)
	ts.Check(err)
	changed := bytes.Replace(b, []byte(args[1]), []byte(args[2]), 1)
	if bytes.Equal(b, changed) {
		ts.Fatalf("%s has no %q to change", args[0], args[1])
	}
	ts.Check(os.WriteFile(name, changed, 0o600))
}

func repeat(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, len(args) == 3, "repeat VAR TEXT N")
	n, err := strconv.Atoi(args[2])
	ts.Check(err)
	ts.Setenv(args[0], strings.Repeat(args[1], n))
}
