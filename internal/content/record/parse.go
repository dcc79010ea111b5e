package record

import (
	"slices"
	"strconv"
	"strings"

	"ferry/internal/transfer"
)

// maxAttributes is the greatest length of the text of attributes, in bytes.
const maxAttributes = 256

// allocation lists attributes of MQ MFT for the place of a data set on its disks (options of BPXWDYN).
const allocation = " ALCUNIT AVGREC BLOCK CYL CYLINDERS DATACLAS DIR DSNTYPE DSORG EXPDT LABEL LIKE MAXVOL MGMTCLAS PRIMARY RELEASE RETPD SECONDARY SPACE STORCLAS TRACKS TRK UNIT VOL "

// WithoutAllocation returns the text of a data set, or of attributes, without the attributes for the place on its disks,
// and the names of these, each once. Some have no value: CYL, TRK.
func WithoutAllocation(s string) (rest string, names []string) {
	depth, quoted, from := 0, false, 0
	var kept strings.Builder
	for n := 0; n <= len(s); n++ {
		if n < len(s) {
			switch c := s[n]; {
			case c == '\'':
				quoted = !quoted
				continue
			case quoted:
				continue
			case c == '(':
				depth++
				continue
			case c == ')':
				depth--
				continue
			case c != ',' && c != ';' || depth > 0:
				continue
			}
		}
		word, _, _ := strings.Cut(strings.Trim(s[from:n], ",; \t"), "(")
		if word = strings.ToUpper(strings.TrimSpace(word)); word != "" && strings.Contains(allocation, " "+word+" ") {
			if !slices.Contains(names, word) {
				names = append(names, word)
			}
		} else {
			kept.WriteString(s[from:n])
		}
		from = n
	}
	return strings.TrimLeft(kept.String(), ",;"), names
}

// ParseAttributes parses RECFM(FB),LRECL(80),BLKSIZE(0). Order and case do not matter. Commas, semicolons or blanks
// separate the attributes, and a pair of brackets may enclose them all. RECFM(F,B) is RECFM(FB). Without BLKSIZE it is
// 0. The result has been checked.
func ParseAttributes(s string) (Attributes, error) {
	a, err := parseAttributes(s)
	if err == nil {
		err = a.Check()
	}
	if err != nil {
		return Attributes{}, err
	}
	return a, nil
}

func parseAttributes(s string) (Attributes, error) {
	if len(s) > maxAttributes {
		return Attributes{}, transfer.Errorf(transfer.KindUsage, "the attributes of a record file have %d bytes; the limit is %d", len(s), maxAttributes)
	}

	whole := s
	s = strings.TrimSpace(s)
	if strings.HasPrefix(s, "(") && strings.HasSuffix(s, ")") {
		s = s[1 : len(s)-1]
	}

	var a Attributes
	seen := map[string]bool{}
	for {
		s = strings.TrimLeft(s, ",; \t")
		if s == "" {
			break
		}
		key, rest, ok := strings.Cut(s, "(")
		value, after, closed := strings.Cut(rest, ")")
		key = strings.ToUpper(strings.TrimSpace(key))
		if !ok || !closed || strings.ContainsAny(value, "(") {
			return Attributes{}, transfer.Errorf(transfer.KindUsage, "attributes %q cannot be read at %q", whole, s).WithHint("write them as RECFM(FB),LRECL(80),BLKSIZE(0)")
		}
		if seen[key] {
			return Attributes{}, transfer.Errorf(transfer.KindUsage, "attributes %q give %s twice", whole, key)
		}
		seen[key] = true
		if err := a.set(key, value); err != nil {
			return Attributes{}, err
		}
		s = after
	}

	if a.Format != 0 && a.Format != U && !seen["LRECL"] {
		return Attributes{}, transfer.Errorf(transfer.KindUsage, "attributes %q give no LRECL", whole).WithHint("add LRECL(N), 1 to 32,760")
	}
	return a, nil
}

func (a *Attributes) set(key, value string) (err error) {
	switch {
	case key == "RECFM":
		a.Format, a.ASA, err = ParseRECFM(value)
	case key == "LRECL":
		a.LRECL, err = number(key, value)
	case key == "BLKSIZE":
		a.BLKSIZE, err = number(key, value)
	case key != "" && strings.Contains(allocation, " "+key+" "):
		return transfer.Errorf(transfer.KindUsage, "attribute %s says how a data set lies on its disk, which an ordinary file has no use for", key).WithHint("leave it out")
	default:
		return transfer.Errorf(transfer.KindUsage, "attribute %q is unknown; it is one of RECFM, LRECL, BLKSIZE", key)
	}
	return err
}

func number(key, value string) (int, error) {
	n, err := strconv.ParseUint(strings.TrimSpace(value), 10, 31)
	if err != nil {
		return 0, transfer.Errorf(transfer.KindUsage, "%s %q is not a number of bytes", key, value)
	}
	return int(n), nil
}

// ParseRECFM parses a record format: F, FB, V, VB or U, with A at its end for ASA control characters. It ignores commas
// and blanks between the letters.
func ParseRECFM(s string) (f Format, asa bool, err error) {
	name := strings.ToUpper(strings.NewReplacer(",", "", " ", "").Replace(s))
	plain := strings.TrimSuffix(name, "A")
	for f := F; f <= U; f++ {
		if formatNames[f] == plain {
			return f, plain != name, nil
		}
	}

	bad := transfer.Errorf(transfer.KindUsage, "RECFM %q is unknown; it is one of F, FB, V, VB, U, with A at its end for ASA control characters", s)
	if len(name) < 2 || len(name) > 5 || !strings.Contains("FVU", name[:1]) || strings.Trim(name[1:], "BSAM") != "" {
		return 0, false, bad
	}

	switch {
	case strings.Contains(name, "M"):
		return 0, false, transfer.Errorf(transfer.KindUsage, "RECFM %s has machine control characters (M), which are commands to a printer's channel and stand for no text", name).
			WithHint("leave out the M: each record's first byte is then data like the rest")
	case strings.Contains(name, "S") && name[0] == 'V':
		return 0, false, transfer.Errorf(transfer.KindUsage, "RECFM %s has spanned records (S), which are not supported", name).WithHint("copy the data set to RECFM VB first")
	case strings.Contains(name, "S") && name[0] == 'F':
		return 0, false, transfer.Errorf(transfer.KindUsage, "RECFM %s says that only its last block is short (S), which a file does not need to know", name).WithHint("leave out the S: the bytes are the same")
	}
	return 0, false, bad
}

// FromFlags makes attributes of --recfm, --lrecl and --blksize, and checks them. If recfm is empty, the others must be
// 0, and the attributes are zero.
func FromFlags(recfm string, lrecl, blksize int) (Attributes, error) {
	if recfm == "" {
		if lrecl != 0 || blksize != 0 {
			return Attributes{}, transfer.Errorf(transfer.KindUsage, "--lrecl and --blksize mean nothing without --recfm").WithHint("add --recfm F, FB, V, VB or U")
		}
		return Attributes{}, nil
	}

	f, asa, err := ParseRECFM(recfm)
	if err != nil {
		return Attributes{}, err
	}

	a := Attributes{f, asa, lrecl, blksize}
	if f != U && lrecl == 0 {
		return Attributes{}, transfer.Errorf(transfer.KindUsage, "--recfm %s needs a record length", a.RECFM()).WithHint("add --lrecl N, 1 to 32,760")
	}
	if err := a.Check(); err != nil {
		return Attributes{}, err
	}
	return a, nil
}
