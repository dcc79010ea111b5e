package disk

import (
	"iter"
	"path"
	"runtime"
	"strings"

	"ferry/internal/transfer"
)

// Rules holds the path syntax of a kind of system. Its methods work on text alone, so that tests can check the rules of
// one system on another.
//
// Inside this package '/' is the separator everywhere. On Windows a path may also be written with '\', and begins with
// a drive or a share. Case does not distinguish names there, and some names stand for devices in every directory.
type Rules struct {
	Windows bool
}

// HostRules are the rules of this host.
var HostRules = Rules{Windows: runtime.GOOS == "windows"}

// slashed returns a path with '/' between its names. It removes the prefix of long Windows paths, because Ferry does
// not need it.
func (r Rules) slashed(p string) string {
	if !r.Windows {
		return p
	}

	p = strings.ReplaceAll(p, `\`, "/")
	if rest, ok := strings.CutPrefix(p, "//?/"); ok {
		if share, ok := cutFold(rest, "UNC/"); ok {
			return "//" + share
		}
		if IsDrive(rest) {
			return rest
		}
	}
	return p
}

func cutFold(p, prefix string) (rest string, ok bool) {
	if len(p) < len(prefix) || !strings.EqualFold(p[:len(prefix)], prefix) {
		return p, false
	}
	return p[len(prefix):], true
}

// IsDrive reports whether a path begins with a drive.
func IsDrive(p string) bool {
	return len(p) >= 2 && p[1] == ':' && ('a' <= p[0]|0x20 && p[0]|0x20 <= 'z')
}

// volume separates the drive or the share from a slashed path.
func (r Rules) volume(p string) (vol, rest string) {
	switch {
	case !r.Windows:
	case IsDrive(p):
		return p[:2], p[2:]
	case strings.HasPrefix(p, "//"):
		server, rest, _ := strings.Cut(p[2:], "/")
		share, _, _ := strings.Cut(rest, "/")
		if server != "" && share != "" {
			n := len("//") + len(server) + len("/") + len(share)
			return p[:n], p[n:]
		}
	}
	return "", p
}

// isAbs reports whether a path is independent of the working directory. On Windows a path without a drive is not
// relative either: see Absolute.
func (r Rules) isAbs(p string) bool {
	_, rest := r.volume(r.slashed(p))
	return strings.HasPrefix(rest, "/")
}

// Clean returns the shortest spelling of an absolute path. A share begins with one slash in it, and ".." does not leave
// a drive or a share.
func (r Rules) Clean(p string) string {
	vol, rest := r.volume(r.slashed(p))
	switch {
	case vol == "":
		return path.Clean(rest)
	case IsDrive(vol):
		return strings.ToUpper(vol) + path.Clean("/"+rest)
	}
	return strings.TrimSuffix(vol[1:]+path.Clean("/"+rest), "/")
}

// host returns a clean absolute path as the system itself writes it.
func (r Rules) host(p string) string {
	if !r.Windows {
		return p
	}
	if strings.HasPrefix(p, "/") && !strings.HasPrefix(p, "//") {
		p = "/" + p // of a share, which clean has left one of its two slashes
		if strings.Count(p, "/") == 3 {
			p += "/" // the top of a share, which needs a slash
		}
	}
	return strings.ReplaceAll(p, "/", `\`)
}

// same reports whether two clean paths are equal on the system.
func (r Rules) same(p, q string) bool {
	return p == q || r.Windows && strings.EqualFold(p, q)
}

// Beneath reports whether p is dir or lies beneath it; both are clean.
func (r Rules) Beneath(p, dir string) bool {
	dir = strings.TrimSuffix(dir, "/")
	return r.same(strings.TrimSuffix(p, "/"), dir) || len(p) > len(dir) && p[len(dir)] == '/' && r.same(p[:len(dir)], dir)
}

// Below returns the rest of a path beneath a directory; "." is the directory itself.
func (r Rules) Below(p, dir string) string {
	if rest := strings.Trim(p[min(len(p), len(strings.TrimSuffix(dir, "/"))):], "/"); rest != "" {
		return rest
	}
	return "."
}

// find returns the root of a clean absolute path, by its text alone, and the path relative to it. A root may have
// several spellings; the longest that fits wins.
func (r Rules) find(abs string, roots iter.Seq2[int, string]) (root int, rel string, ok bool) {
	best := ""
	for n, s := range roots {
		if r.Beneath(abs, s) && (!ok || len(s) > len(best)) {
			root, best, ok = n, s, true
		}
	}
	return root, r.Below(abs, best), ok
}

// Absolute returns the absolute form of a path that a user wrote on this host. A relative path is beneath the working
// directory wd. The last name and a slash at the end stay, because both have a meaning.
func (r Rules) Absolute(p transfer.Path, wd string) (transfer.Path, error) {
	s := r.slashed(string(p))
	vol, rest := r.volume(s)
	wd = r.slashed(wd)
	switch {
	case vol != "" && !strings.HasPrefix(rest, "/") && rest != "":
		return "", transfer.Errorf(transfer.KindUsage, "path %s is relative to the directory that drive %s is in", p, vol).
			WithHint("write " + vol + "/" + rest + ", or leave the drive out")
	case vol != "" && rest == "":
		return transfer.Path(vol + "/"), nil
	case vol != "":
		return transfer.Path(s), nil
	case strings.HasPrefix(s, "/"):
		if drive, _ := r.volume(wd); !strings.HasPrefix(s, "//") {
			s = drive + s // of the drive of the working directory
		}
		return transfer.Path(s), nil
	}
	return transfer.Path(strings.TrimSuffix(wd, "/") + "/" + s), nil
}

// refuses returns the reason why a path cannot be the path of a file, or an empty text. It does not check wildcards.
func (r Rules) refuses(p string) string {
	if strings.ContainsRune(p, 0) {
		return "holds a NUL byte, which no file name may"
	}

	if !r.Windows {
		return ""
	}

	p = r.slashed(p)
	vol, rest := r.volume(p)
	switch {
	case strings.HasPrefix(p, "//?/"), strings.HasPrefix(p, "//./"):
		return "is a device, not a file"
	case vol != "" && rest != "" && rest[0] != '/':
		return "is relative to the directory that its drive is in"
	}

	for name := range strings.SplitSeq(rest, "/") {
		if why := r.refusesName(name); why != "" {
			return why
		}
	}
	return ""
}

// refusesName returns the reason why a component of a path cannot be the name of a file, or an empty text.
func (r Rules) refusesName(name string) string {
	if !r.Windows || name == "" || name == "." || name == ".." {
		return ""
	}

	switch last := name[len(name)-1]; {
	case strings.Contains(name, ":"):
		return "has a ':' in a name: that is another stream of a file"
	case strings.ContainsAny(name, `<>"|`) || strings.ContainsFunc(name, func(c rune) bool { return c < ' ' }):
		return "has a character in a name that no name may have on Windows"
	case last == '.' || last == ' ':
		return "has a name that ends with a dot or a blank, which Windows drops"
	case isDevice(name):
		return "has the name of a device in it, such as CON or NUL"
	}
	return ""
}

// isDevice reports whether Windows treats a name as a device, in any directory and with any extension.
func isDevice(name string) bool {
	base, _, _ := strings.Cut(strings.ToUpper(name), ".")
	base = strings.TrimRight(base, " ")
	switch base {
	case "CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$":
		return true
	}
	for _, port := range []string{"COM", "LPT"} {
		if n, ok := strings.CutPrefix(base, port); ok && strings.Contains("0123456789¹²³", n) && len([]rune(n)) == 1 {
			return true
		}
	}
	return false
}

// Components returns the components of path below dir.
func Components(p, dir string) []string {
	return strings.Split(strings.TrimPrefix(strings.TrimPrefix(p, dir), "/"), "/")
}
