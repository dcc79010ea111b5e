package bench

import (
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"
)

// Measures of a chart, in pixels.
const (
	chartWidth  = 720
	plotHeight  = 260
	plotLeft    = 64
	plotRight   = 16
	plotTop     = 36
	axisHeight  = 52 // beneath the plot: numbers and the axis's name
	legendLine  = 18
	legendWidth = (chartWidth - plotLeft - plotRight) / 2
)

// palette are the colours of a chart's lines, in turn. The first eight can be
// told apart without seeing red and green (after Okabe and Ito, 2008).
var palette = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999999",
	"#7a4e2d", "#8ab800", "#6a3d9a", "#b3cde3"}

// A plot maps values to pixels.
type plot struct {
	strings.Builder
	chart  *Chart
	x0, x1 float64 // values at the left and the right edge
	y1     float64 // value at the top; the bottom is 0
	height int     // of the whole drawing
}

// SVG draws the chart as one svg element that needs nothing from elsewhere.
func (c *Chart) SVG() string {
	p := &plot{chart: c}
	rows := (len(c.Lines) + 1) / 2
	p.height = plotTop + plotHeight + axisHeight + rows*legendLine
	p.ranges()
	fmt.Fprintf(p, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" font-family="sans-serif" font-size="12">`, chartWidth, p.height)
	fmt.Fprintf(p, "<title>%s</title>", html.EscapeString(c.Title))
	fmt.Fprintf(p, `<rect width="%d" height="%d" fill="#fff"/>`, chartWidth, p.height)
	p.text(chartWidth/2, 20, "middle", "14", c.Title)
	p.axes()
	if c.Kind == Bars {
		p.bars()
	} else {
		p.lines()
	}
	p.legend()
	p.WriteString("</svg>")
	return p.String()
}

// ranges finds what the axes span.
func (p *plot) ranges() {
	p.x0, p.x1 = math.Inf(1), math.Inf(-1)
	for _, l := range p.chart.Lines {
		for _, q := range l.Points {
			p.x0, p.x1 = min(p.x0, q.X), max(p.x1, q.X)
			p.y1 = max(p.y1, q.Y, q.Max)
		}
	}
	if p.chart.Kind == Bars {
		p.x0, p.x1 = -0.5, float64(max(1, len(p.chart.Categories)))-0.5
	}
	if !(p.x0 < p.x1) { // one point, or none
		if math.IsInf(p.x0, 0) {
			p.x0 = 1
		}
		p.x0, p.x1 = p.x0-0.5, p.x0+0.5
	}
	if p.y1 <= 0 {
		p.y1 = 1
	}
	step := niceStep(p.y1, 5)
	p.y1 = math.Ceil(p.y1/step-1e-9) * step
}

// niceStep is 1, 2, 2.5 or 5 times a power of ten, so that about n steps cover
// span.
func niceStep(span float64, n int) float64 {
	raw := span / float64(n)
	unit := math.Pow(10, math.Floor(math.Log10(raw)))
	for _, m := range []float64{1, 2, 2.5, 5} {
		if m*unit >= raw*(1-1e-9) {
			return m * unit
		}
	}
	return 10 * unit
}

// logarithmic reports whether the X axis is, which needs values above 0.
func (p *plot) logarithmic() bool { return p.chart.LogX && p.chart.Kind == Lines && p.x0 > 0 }

func (p *plot) px(x float64) float64 {
	share := (x - p.x0) / (p.x1 - p.x0)
	if p.logarithmic() {
		share = math.Log(x/p.x0) / math.Log(p.x1/p.x0)
	}
	return plotLeft + share*(chartWidth-plotLeft-plotRight)
}

func (p *plot) py(y float64) float64 { return plotTop + plotHeight*(1-y/p.y1) }

// number writes a value of an axis without needless digits.
func number(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }

func (p *plot) text(x, y float64, anchor, size, s string) {
	fmt.Fprintf(p, `<text x="%.1f" y="%.1f" text-anchor="%s" font-size="%s">%s</text>`, x, y, anchor, size, html.EscapeString(s))
}

func (p *plot) line(x1, y1, x2, y2 float64, colour string) {
	fmt.Fprintf(p, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s"/>`, x1, y1, x2, y2, colour)
}

func (p *plot) axes() {
	step := niceStep(p.y1, 5)
	for y := 0.0; y <= p.y1*(1+1e-9); y += step {
		p.line(plotLeft, p.py(y), chartWidth-plotRight, p.py(y), "#ddd")
		p.text(plotLeft-6, p.py(y)+4, "end", "11", number(y))
	}
	bottom := float64(plotTop + plotHeight)
	p.line(plotLeft, bottom, chartWidth-plotRight, bottom, "#333")
	for _, t := range p.ticks() {
		p.text(p.px(t.x), bottom+16, "middle", "11", t.name)
	}
	p.text((plotLeft+chartWidth-plotRight)/2, bottom+38, "middle", "12", p.chart.X)
	fmt.Fprintf(p, `<text transform="translate(14 %d) rotate(-90)" text-anchor="middle">%s</text>`, plotTop+plotHeight/2, html.EscapeString(p.chart.Y))
}

type tick struct {
	x    float64
	name string
}

// ticks are the marks of the X axis: the categories, or every X that has a
// point, unless those are too many to be read.
func (p *plot) ticks() (all []tick) {
	if p.chart.Kind == Bars {
		for i, name := range p.chart.Categories {
			all = append(all, tick{float64(i), name})
		}
		return all
	}
	last := math.Inf(-1)
	for _, x := range p.xs() {
		if at := p.px(x); at-last >= 34 {
			all, last = append(all, tick{x, number(x)}), at
		}
	}
	return all
}

// xs are the different X of all points, ascending.
func (p *plot) xs() []float64 {
	var xs []float64
	for _, l := range p.chart.Lines {
		for _, q := range l.Points {
			xs = append(xs, q.X)
		}
	}
	return ascending(xs)
}

func (p *plot) lines() {
	for i, l := range p.chart.Lines {
		colour := palette[i%len(palette)]
		var path strings.Builder
		for _, q := range l.Points {
			fmt.Fprintf(&path, "%.1f,%.1f ", p.px(q.X), p.py(q.Y))
		}
		fmt.Fprintf(p, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`, strings.TrimSpace(path.String()), colour)
		for _, q := range l.Points {
			p.spread(p.px(q.X), q, colour)
			fmt.Fprintf(p, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"><title>%s: %s</title></circle>`,
				p.px(q.X), p.py(q.Y), colour, html.EscapeString(l.Name), number(q.Y))
		}
	}
}

// spread draws the least and the greatest of what a point is the median of.
func (p *plot) spread(x float64, q Point, colour string) {
	if q.Max <= q.Min {
		return
	}
	p.line(x, p.py(q.Min), x, p.py(q.Max), colour)
	p.line(x-3, p.py(q.Min), x+3, p.py(q.Min), colour)
	p.line(x-3, p.py(q.Max), x+3, p.py(q.Max), colour)
}

func (p *plot) bars() {
	group := 0.8 * (chartWidth - plotLeft - plotRight) / float64(max(1, len(p.chart.Categories)))
	width := group / float64(max(1, len(p.chart.Lines)))
	for i, l := range p.chart.Lines {
		colour := palette[i%len(palette)]
		for _, q := range l.Points {
			x := p.px(q.X) - group/2 + float64(i)*width
			fmt.Fprintf(p, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"><title>%s: %s</title></rect>`,
				x, p.py(q.Y), max(1, width-1), plotTop+plotHeight-p.py(q.Y), colour, html.EscapeString(l.Name), number(q.Y))
			p.spread(x+width/2, q, "#333")
		}
	}
}

func (p *plot) legend() {
	for i, l := range p.chart.Lines {
		x := float64(plotLeft + i%2*legendWidth)
		y := float64(plotTop + plotHeight + axisHeight + i/2*legendLine)
		fmt.Fprintf(p, `<rect x="%.1f" y="%.1f" width="12" height="10" fill="%s"/>`, x, y-4, palette[i%len(palette)])
		p.text(x+18, y+5, "start", "12", l.Name)
	}
}
