package bench

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"
)

// Names of the files of WriteDocument.
const (
	FileDocument     = "reports.md"
	FileDocumentJSON = "reports.json"
)

// WriteDocument writes a document into a directory, and makes the directory: as Markdown, as JSON, and each chart with
// a figure of Ferry as an SVG file.
func WriteDocument(dir string, doc *Document) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return unwritten(dir, err)
	}
	text, charts, err := doc.markdown()
	if err != nil {
		return err
	}
	for name, drawing := range charts {
		if err := write(dir, name, drawing); err != nil {
			return err
		}
	}
	data, err := json.MarshalIndent(doc, "", " ")
	if err != nil {
		return err
	}
	if err := write(dir, FileDocumentJSON, string(data)+"\n"); err != nil {
		return err
	}
	return write(dir, FileDocument, text)
}

// markdown returns the document, and its charts by the names of their files.
func (doc *Document) markdown() (text string, charts map[string]string, err error) {
	var b strings.Builder
	charts = map[string]string{}
	b.WriteString("# IBM's five reports, and the same with Ferry\n\n")
	tables, drawings, conclusions := doc.Tables()
	if doc.Measured {
		fmt.Fprintf(&b, "`ferry-bench reports` made this document. It has %d tables, %d charts and %d conclusions. [performance.md](../performance.md) says how it measures.\n\n", tables, drawings, conclusions)
	} else {
		fmt.Fprintf(&b, "**Not measured.** `ferry-bench reports --short` made this document: it has all %d tables, %d charts and %d conclusions, and no figure of Ferry.\n\n", tables, drawings, conclusions)
	}
	h := doc.Host
	facts := [][2]string{{"started", doc.Started.UTC().Format(time.RFC3339)}, {"took", fmt.Sprintf("%.0f min", doc.Seconds/60)}, {"rounds", fmt.Sprintf("up to %d", doc.Rounds)}, {"host", strings.TrimSpace(fmt.Sprintf("%s/%s %s", h.OS, h.Arch, h.Kernel))},
		{"processors", strings.TrimSpace(fmt.Sprintf("%d %s", h.Cores, h.CPU))}, {"memory", fmt.Sprintf("%.1f GiB", float64(h.Memory)/(1<<30))}, {"load before", fmt.Sprintf("%.2f", h.Load)}, {"ferry", doc.Commit}}
	for _, f := range facts {
		fmt.Fprintf(&b, "- %s: %s\n", f[0], plain(f[1]))
	}
	b.WriteString("\n\"There\" is IBM's figure, \"here\" is Ferry's, and the ratio is the second over the first. Processor shares are of all processors of a machine there, and of this one host here. Most charts of the report for System z are pictures without figures.\n\n")
	doc.verdicts(&b)
	drawn := 0
	for _, p := range doc.Parts {
		fmt.Fprintf(&b, "## %s\n\n", plain(p.Title))
		for _, c := range p.Chapters {
			fmt.Fprintf(&b, "### %s\n\n", plain(c.Title))
			for _, t := range c.Tables {
				t.write(&b, "####")
			}
			for _, chart := range c.Charts {
				if len(chart.Lines) == 0 {
					fmt.Fprintf(&b, "%s: %s.\n\n", plain(chart.Title), NotMeasured)
					continue
				}
				drawing, err := chart.SVG()
				if err != nil {
					return "", nil, err
				}
				drawn++
				name := fmt.Sprintf("reports-%02d.svg", drawn)
				charts[name] = drawing
				fmt.Fprintf(&b, "![%s](%s)\n\n", plain(chart.Title), name)
			}
			for _, k := range c.Conclusions {
				fmt.Fprintf(&b, "- %s: there %s, here %s. **%s.**\n", plain(k.Statement), plain(k.Theirs), plain(k.Ours), capital(k.Verdict))
			}
			if len(c.Conclusions) > 0 {
				b.WriteString("\n")
			}
			for _, n := range c.Notes {
				fmt.Fprintf(&b, "%s\n\n", plain(n))
			}
		}
	}
	return b.String(), charts, nil
}

// verdicts writes the number of each verdict.
func (doc *Document) verdicts(b *strings.Builder) {
	of := map[string]int{}
	for _, p := range doc.Parts {
		for _, c := range p.Chapters {
			for _, k := range c.Conclusions {
				of[k.Verdict]++
			}
		}
	}
	b.WriteString("| conclusions of the reports that | number |\n|---|---:|\n")
	for _, v := range []string{Holds, HoldsNot, Reversed, NotMeasured} {
		name := map[string]string{Holds: "hold", HoldsNot: "do not hold", Reversed: "are reversed", NotMeasured: "are not measured, or have no counterpart"}[v]
		fmt.Fprintf(b, "| %s | %d |\n", name, of[v])
	}
	b.WriteString("\n")
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
