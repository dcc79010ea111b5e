package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	cliidentity "ferry/internal/cli/identity"
	"ferry/internal/cli/session"
	"ferry/internal/security/enrol"
	"ferry/internal/transfer"
)

// TestTextsOfWindows: so may a token, rules, and a text that readText reads.
func TestTextsOfWindows(t *testing.T) {
	name := filepath.Join(t.TempDir(), "text")
	wide := []byte{0xff, 0xfe}
	for _, c := range []byte("version: 1\r\n") {
		wide = append(wide, c, 0)
	}
	if err := os.WriteFile(name, wide, 0o600); err != nil {
		t.Fatal(err)
	}
	c := &cobra.Command{}
	if b, err := session.ReadText(c, "template", name, 1000); err != nil || string(b) != "version: 1\r\n" {
		t.Errorf("readText gave %q, %v", b, err)
	}
	if b, err := cliidentity.ReadRules(c, name); b != nil || strings.Contains(fmt.Sprint(err), "UTF") || strings.ContainsRune(fmt.Sprint(err), 0xfffd) {
		t.Errorf("readRules gave %q, %v", b, err)
	}
	const rules = `{"v": 1}`
	if err := os.WriteFile(name, []byte("\xff\xfe"+strings.Join(strings.Split(rules, ""), "\x00")+"\x00"), 0o600); err != nil {
		t.Fatal(err)
	}
	if b, err := cliidentity.ReadRules(c, name); err != nil || string(b) != rules {
		t.Errorf("readRules gave %q, %v", b, err)
	}
	want := enrol.Token{Network: strings.Repeat("a", 8), Root: strings.Repeat("0", 64), Secret: strings.Repeat("A", 43), Addresses: []string{"hub:4223"}}
	for _, text := range []string{want.String() + "\n", "\xef\xbb\xbf" + want.String() + "\r\n", "\xff\xfe" + strings.Join(strings.Split(want.String(), ""), "\x00") + "\x00"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := session.ReadToken(c, name); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("readToken gave %+v, %v", got, err)
		}
	}
}

// wideText is an ASCII text in UTF-16 with a byte-order mark.
func wideText(text string) string {
	wide := []byte("\xff\xfe")
	for _, c := range []byte(text) {
		wide = append(wide, c, 0)
	}
	return string(wide)
}

// TestLimitsOfWideTexts: a text in UTF-16 has the limit of the same text in UTF-8. A longer one is refused with its
// name and its limit, and never as half a character.
func TestLimitsOfWideTexts(t *testing.T) {
	name := filepath.Join(t.TempDir(), "text")
	put := func(text string) {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := &cobra.Command{}
	for _, most := range []int{1000, 1001} {
		text := strings.Repeat("x", most)
		for _, encoded := range []string{text, "\xef\xbb\xbf" + text, wideText(text)} {
			put(encoded)
			if b, err := session.ReadText(c, "template", name, int64(most)); err != nil || string(b) != text {
				t.Errorf("%d bytes of %d: %d bytes, %v", most, most, len(b), err)
			}
		}
		for _, encoded := range []string{text + "x", wideText(text + "x"), wideText(text + text), "\xff\xfe" + strings.Repeat("\x01\x4e", most/3+1)} {
			put(encoded)
			_, err := session.ReadText(c, "template", name, int64(most))
			if transfer.KindOf(err) != transfer.KindTooLarge || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), fmt.Sprint(most)) {
				t.Errorf("too long: %v", err)
			}
		}
	}
	rules := `{"v": 1}` + strings.Repeat(" ", 200<<10)
	put(wideText(rules))
	if b, err := cliidentity.ReadRules(c, name); err != nil || string(b) != rules {
		t.Errorf("readRules gave %d bytes, %v", len(b), err)
	}
	put(strings.Repeat("x", 64<<10+1))
	if _, err := session.ReadToken(c, name); !strings.Contains(fmt.Sprint(err), name) || !strings.Contains(fmt.Sprint(err), "65536") {
		t.Errorf("a token that is too long: %v", err)
	}
}
