package bench

import (
	"html/template"
	"strings"
)

// page is the template of the whole HTML page, with all its parts.
var page = template.Must(template.New("page").Parse(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Ferry: measured</title>
<style>
body { font: 15px/1.45 sans-serif; color: #222; max-width: 76em; margin: 2em auto; padding: 0 1em }
table { border-collapse: collapse; margin: 0.5em 0 1.2em; display: block; overflow-x: auto }
caption { text-align: left; font-weight: bold; padding: 0.4em 0 }
th, td { border: 1px solid #ccc; padding: 0.2em 0.6em; text-align: left; vertical-align: top; white-space: nowrap }
td.n { text-align: right; font-variant-numeric: tabular-nums }
td small { color: #777 }
th { background: #f3f3f3 }
.charts { display: flex; flex-wrap: wrap; gap: 1em }
.charts svg { width: 36em; max-width: 100%; border: 1px solid #ddd }
.passed { background: #e5f5e0 } .missed { background: #fde0dd } .absent { background: #fff7d6 }
dl { display: grid; grid-template-columns: max-content auto; gap: 0 1em; margin: 0.5em 0 1em }
dt { color: #777 } dd { margin: 0 }
</style>
</head>
<body>
<h1>Ferry: measured</h1>
<nav>{{range .}}<a href="#{{.ID}}">{{.Scenario}}</a> {{end}}</nav>
{{range .}}
<h2 id="{{.ID}}">{{.Scenario}}</h2>
<p>{{.What}}</p>
<dl>{{range .Facts}}<dt>{{index . 0}}</dt><dd>{{index . 1}}</dd>{{end}}</dl>
{{if .Bars}}<table><caption>Bars</caption>
<tr><th>bar</th><th>value</th><th>to pass</th><th>aim</th><th>verdict</th></tr>
{{range .Bars}}<tr class="{{.Class}}"><td>{{.Name}}</td><td class="n">{{.Value}}</td><td>{{.Limit}}</td><td>{{.Aim}}</td><td>{{.Verdict}}</td></tr>
{{end}}</table>{{end}}
<div class="charts">{{range .Charts}}{{.}}{{end}}</div>
{{range .Tables}}<table><caption>{{.Title}}</caption>
<tr>{{range .Columns}}<th>{{.}}</th>{{end}}</tr>
{{range .Rows}}<tr>{{range .}}{{if .Figure}}<td class="n">{{.Text}}</td>{{else}}<td>{{.Text}}</td>{{end}}{{end}}</tr>
{{end}}</table>
{{range .Notes}}<p>{{.}}</p>{{end}}{{end}}
{{if .Notes}}<ul>{{range .Notes}}<li>{{.}}</li>{{end}}</ul>{{end}}
{{end}}
</body>
</html>
`))

type pageReport struct {
	ID, Scenario, What string
	Facts              [][2]string
	Bars               []pageBar
	Charts             []template.HTML
	Tables             []pageTable
	Notes              []string
}

type pageBar struct{ Class, Name, Value, Limit, Aim, Verdict string }

type pageTable struct {
	Title   string
	Columns []string
	Rows    [][]pageCell
	Notes   []string
}

type pageCell struct {
	Figure bool
	Text   string
}

// HTML writes reports as one page without external parts.
func HTML(reports []*Report) (string, error) {
	var all []pageReport
	for _, r := range reports {
		p, err := r.page()
		if err != nil {
			return "", err
		}
		all = append(all, p)
	}
	var b strings.Builder
	err := page.Execute(&b, all)
	return b.String(), err
}

func (r *Report) page() (pageReport, error) {
	p := pageReport{ID: "scenario-" + r.Scenario, Scenario: r.Scenario, What: r.What, Facts: r.facts(), Notes: r.Notes}
	for _, b := range r.Bars {
		class := "missed"
		switch {
		case b.Missing != "":
			class = "absent"
		case b.Passed:
			class = "passed"
		}
		limit, aim := b.Limits()
		p.Bars = append(p.Bars, pageBar{class, b.Name, b.Shown(), limit, aim, b.Verdict()})
	}

	for _, c := range r.Charts {
		drawing, err := c.SVG()
		if err != nil {
			return p, err
		}
		p.Charts = append(p.Charts, template.HTML(drawing)) // SVG escapes all its texts
	}

	for _, t := range r.Tables {
		pt := pageTable{Title: t.Title, Notes: t.Notes}
		for _, c := range t.Columns {
			pt.Columns = append(pt.Columns, c.heading())
		}
		for _, row := range t.Rows {
			var cells []pageCell
			for i, c := range row {
				cells = append(cells, pageCell{c.Figure != nil, c.show(t.Columns[i])})
			}
			pt.Rows = append(pt.Rows, cells)
		}
		p.Tables = append(p.Tables, pt)
	}
	return p, nil
}
