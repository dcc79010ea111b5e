package disk

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"path"
	"strconv"
	"strings"

	"ferry/internal/transfer"
)

// Reserved begins every name that Ferry makes for its own use beside users' files. Such names are never sent, never
// matched and never landed on.
const Reserved = ".ferry-"

// IsReserved reports whether a name begins with reserved. It ignores case, because some file systems treat both cases
// as the same name.
func IsReserved(name string) bool {
	return len(name) >= len(Reserved) && strings.EqualFold(name[:len(Reserved)], Reserved)
}

// refusesReserved returns an error if a path beneath a root has a reserved name in it. p is the path as given in the
// request.
func refusesReserved(p transfer.Path, rel string) error {
	for name := range strings.SplitSeq(rel, "/") {
		if IsReserved(name) {
			if !strings.Contains(string(p), name) { // a link leads there
				return Wrap(transfer.KindOutsideRoot, nil, "choose another name", "%s leads to %q, a name that begins with %s, which Ferry keeps for its own files", p, name, Reserved)
			}
			return Wrap(transfer.KindOutsideRoot, nil, "choose another name", "%s contains a name that begins with %s, which Ferry keeps for its own files", p, Reserved)
		}
	}
	return nil
}

// TempPrefix begins the names of all temporaries of one transfer.
func TempPrefix(incarnation, generation uint64, id transfer.ID) string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], incarnation)
	binary.BigEndian.PutUint64(b[8:], generation)
	sum := sha256.Sum256(append(b[:], id[:]...))
	text := base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:10])
	return Reserved + strings.ToLower(text) + "-"
}

// TempName returns the name of an item's temporary. Its length does not depend on the item's name, and no other item or
// program uses it.
func TempName(incarnation, generation uint64, id transfer.ID, item uint64) string {
	return TempOf(TempPrefix(incarnation, generation, id), item)
}

// TempOf returns the name of an item's temporary after a prefix of TempPrefix.
func TempOf(prefix string, item uint64) string {
	return prefix + strconv.FormatUint(item, 36) + TempSuffix
}

// AsideName returns the name that a source has while it is being deleted.
func AsideName(incarnation uint64, id transfer.ID, item uint64) string {
	return strings.TrimSuffix(TempName(incarnation, 0, id, item), TempSuffix) + ".del"
}

// CheckName refuses a name that could land outside the destination, or that no file system accepts. Names come from the
// network.
func CheckName(name transfer.Path) error {
	bad := func(why string) error {
		return Wrap(transfer.KindOutsideRoot, nil, "", "destination name %.300s %s", name, why)
	}
	switch {
	case name == "":
		return Wrap(transfer.KindOutsideRoot, nil, "", "an item has no destination name")
	case len(name) > transfer.MaxPath:
		return bad("is longer than 4,096 bytes")
	case strings.ContainsRune(string(name), 0):
		return bad("holds a NUL byte")
	case isAbs(name):
		return bad("is absolute")
	}

	for part := range strings.SplitSeq(string(name), "/") {
		switch why := HostRules.refusesName(part); {
		case part == "":
			return bad("has an empty component")
		case part == "." || part == "..":
			return bad("has a component . or ..")
		case len(part) > transfer.MaxName:
			return bad("has a component of more than 255 bytes")
		case IsReserved(part):
			return bad("has a component that begins with .ferry-, which Ferry keeps for its own files")
		case why != "":
			return bad(why)
		case HostRules.Windows && strings.ContainsAny(part, `\*?`):
			return bad(`has a component with \, * or ?`)
		}
	}
	return nil
}

// TargetOf returns the path where an item of the given name lands.
func TargetOf(res transfer.Resolution, name transfer.Path) transfer.Path {
	if res.Into {
		return transfer.Path(path.Join(string(res.Base), string(name)))
	}
	_, below, _ := strings.Cut(string(name), "/")
	return transfer.Path(path.Join(string(res.Base), below))
}

// TempSuffix ends the name of every temporary.
const TempSuffix = ".part"
