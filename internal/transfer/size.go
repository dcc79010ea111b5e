package transfer

import (
	"fmt"
	"strconv"
	"strings"
)

// ParseSize reads bytes with an optional binary unit: 65536, 64K, 64KiB, 1M.
func ParseSize(s string) (int, error) {
	bad := Errorf(KindUsage, "size %q is malformed; write it as 65536, 64K or 1M", s)
	t := strings.ToUpper(strings.TrimSuffix(strings.TrimSuffix(strings.ToUpper(s), "IB"), "B"))
	shift := 0
	for unit, sh := range map[string]int{"K": 10, "M": 20, "G": 30} {
		if strings.HasSuffix(t, unit) {
			t, shift = strings.TrimSuffix(t, unit), sh
			break
		}
	}

	n, err := strconv.ParseUint(t, 10, 32)
	if err != nil || n<<shift > 1<<40 {
		return 0, bad
	}
	return int(n << shift), nil
}

// FormatBytes formats a number of bytes for users, in binary units.
func FormatBytes(n int64) string {
	const units = "KMGTPE"
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	v, u := float64(n)/1024, 0
	for v >= 1024 && u < len(units)-1 {
		v, u = v/1024, u+1
	}
	return fmt.Sprintf("%.1f %ciB", v, units[u])
}
