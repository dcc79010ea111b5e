package translate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ferry/internal/automation/template"
	mftxml "ferry/internal/mft/xml"
	"ferry/internal/transfer"
)

func templateOf(t *testing.T, text string) (*template.Template, error) {
	t.Helper()
	d, err := mftxml.Parse([]byte(text))
	if err != nil {
		return nil, err
	}
	return Template(d, nil)
}

// A schedule is kept in words. A document with a schedule makes no template without it.
func TestDocumentWithSchedule(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "xml", "testdata", "template.xml"))
	if err != nil {
		t.Fatal(err)
	}
	d, err := mftxml.Parse([]byte(strings.Replace(string(data), "<priority>", "<schedule><submit>21:00</submit></schedule><priority>", 1)))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Template(d, &template.Later{At: "21:00"}); err != nil || got.Schedule.At != "21:00" {
		t.Errorf("%+v, %v", got, err)
	}
	for name, later := range map[string]*template.Later{"left out": nil, "without a beginning": {Every: "1d"}, "too long": {At: strings.Repeat("1", 101)}, "a count": {At: "21:00", Count: -1}} {
		if got, err := Template(d, later); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// A template of MQ MFT is one of Ferry's that is sent from in the same way.
func TestDocument(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "xml", "testdata", "template.xml"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	got, err := templateOf(t, text)
	if err != nil {
		t.Fatal(err)
	}
	q := got.Request
	if got.Name != "NIGHTLY" || len(got.Params) > 0 || !q.ID.IsZero() || !q.Submitted.IsZero() || q.Source != "ALPHA" || q.Destination != "BETA" || q.Priority != 7 || q.Recovery >= 0 ||
		q.Job != "nightly" || len(q.Meta) != 1 || q.Meta["team"] != "orders" {
		t.Errorf("%+v", got)
	}
	// The items are those that a transfer of the same words has.
	head, rest, _ := strings.Cut(text, "<fileSpecs>")
	items, tail, _ := strings.Cut(rest, "</fileSpecs>")
	d, err := mftxml.Parse([]byte(`<request><managedTransfer><sourceAgent agent="ALPHA"/><destinationAgent agent="BETA"/><transferSet priority="7">` +
		`<metaDataSet><metaData key="team">orders</metaData></metaDataSet>` + items + `</transferSet><job><name>nightly</name></job></managedTransfer></request>`))
	if err != nil {
		t.Fatal(err)
	}
	want, err := d.Request(transfer.ID{1})
	if err != nil {
		t.Fatal(err)
	}
	q.ID, q.Submitted = want.ID, want.Submitted
	if q.Hash() != want.Hash() {
		t.Errorf("%+v; want %+v", q, want)
	}

	with := func(old, new string) string { return strings.Replace(text, old, new, 1) }
	for word, broken := range map[string]string{
		"no <fileSpecs>":            head + tail,
		"<fileSpecs> has no item":   head + "<fileSpecs/>" + tail,
		"names no agent":            with("ALPHA", ""),
		"agent name":                with("ALPHA", "A B"),
		"no <destinationAgentName>": with("<destinationAgentName>BETA</destinationAgentName>", ""),
		"template name":             with("NIGHTLY", "every night"),
		"the priority is":           with(">7<", ">10<"),
		"<colour>":                  with("<priority>", "<colour/><priority>"),
		"the attribute owner":       with(`id="`, `owner="me" id="`),
		"<schedule>":                with("<priority>", "<schedule/><priority>"),
		"includeDelimiterInFile":    with("<file>/srv/out/*.csv</file>", `<queue delimiter="x0A" delimiterType="binary" includeDelimiterInFile="false">Q</queue>`),
	} {
		if _, err := templateOf(t, broken); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %v", word, err)
		}
	}
	if _, err := templateOf(t, `<cancel><transfer>1</transfer></cancel>`); err == nil {
		t.Error("a cancel is a template")
	}

	// As a request it begins nothing.
	d, err = mftxml.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Request(transfer.ID{1}); transfer.KindOf(err) != transfer.KindDocument || !strings.Contains(err.Error(), "ferry import") {
		t.Errorf("as a request: %v", err)
	}
}
