package bench

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Sizes of a chart.
const (
	chartWidth = 7.5 * vg.Inch
	plotHeight = 3.6 * vg.Inch
	legendLine = 0.22 * vg.Inch // beneath the plot, so that it covers no line
)

// palette has the colours of a chart's lines, in turn. The first eight differ also without the perception of red and
// green (after Okabe and Ito, 2008).
var palette = []color.RGBA{{0, 0x72, 0xb2, 255}, {0xd5, 0x5e, 0, 255}, {0, 0x9e, 0x73, 255}, {0xcc, 0x79, 0xa7, 255},
	{0xe6, 0x9f, 0, 255}, {0x56, 0xb4, 0xe9, 255}, {0, 0, 0, 255}, {0x99, 0x99, 0x99, 255},
	{0x7a, 0x4e, 0x2d, 255}, {0x8a, 0xb8, 0, 255}, {0x6a, 0x3d, 0x9a, 255}, {0xb3, 0xcd, 0xe3, 255}}

// errorPoints are points with the ranges of their values.
type errorPoints []Point

func (e errorPoints) Len() int                       { return len(e) }
func (e errorPoints) XY(i int) (x, y float64)        { return e[i].X, e[i].Y }
func (e errorPoints) YError(i int) (low, up float64) { return e[i].Y - e[i].Min, e[i].Max - e[i].Y }

// SVG returns the chart as one svg element without external parts.
func (c *Chart) SVG() (string, error) {
	p, legend := plot.New(), plot.NewLegend()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = c.Title, c.X, c.Y
	legend.Padding = 3
	for style, size := range map[*text.Style]vg.Length{&p.Title.TextStyle: 13, &p.X.Label.TextStyle: 11, &p.Y.Label.TextStyle: 11,
		&p.X.Tick.Label: 10, &p.Y.Tick.Label: 10, &legend.TextStyle: 11} {
		style.Font.Variant, style.Font.Size = "Sans", size
	}

	p.Add(plotter.NewGrid())
	for i := range c.Lines {
		draw := c.addLine
		if c.Kind == Bars {
			draw = c.addBars
		}
		if err := draw(p, &legend, i); err != nil {
			return "", fmt.Errorf("chart %q, line %q: %w", c.Title, c.Lines[i].Name, err)
		}
	}

	c.axes(p)

	height := plotHeight + vg.Length(len(c.Lines))*legendLine
	canvas := vgsvg.NewWith(vgsvg.UseWH(chartWidth, height))
	all := draw.New(canvas)
	all.FillPolygon(color.White, []vg.Point{all.Min, {X: all.Max.X, Y: all.Min.Y}, all.Max, {X: all.Min.X, Y: all.Max.Y}})
	p.Draw(draw.Crop(all, 0, -12, height-plotHeight, -6))
	legend.Left, legend.XOffs = true, 40
	legend.Draw(draw.Crop(all, 0, 0, 4, plotHeight-height))

	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return "", err
	}
	return out.String()[bytes.Index(out.Bytes(), []byte("<svg")):], nil
}

// axes makes axes that begin at 0, with a mark for each category, or for each X with a point.
func (c *Chart) axes(p *plot.Plot) {
	p.Y.Min = 0
	if p.Y.Max <= 0 || math.IsInf(p.Y.Max, 0) {
		p.Y.Max = 1
	}

	if c.Kind == Bars {
		p.NominalX(c.Categories...)
		p.X.Min, p.X.Max = -0.5, float64(max(1, len(c.Categories)))-0.5
		c.slant(p)
		return
	}

	var ticks plot.ConstantTicks
	for _, x := range c.xs() {
		ticks = append(ticks, plot.Tick{Value: x, Label: fmt.Sprintf("%.4g", x)})
	}

	if len(ticks) < 2 {
		p.X.Min, p.X.Max = 0, 2
	}

	if len(ticks) > 0 {
		p.X.Tick.Marker = ticks
	}

	if len(ticks) > 1 && c.LogX && ticks[0].Value > 0 {
		p.X.Scale = plot.LogScale{}
	} else if len(ticks) > 12 {
		p.X.Tick.Marker = plot.DefaultTicks{}
	}

	c.slant(p)
}

// slant turns the names at the X axis if they would overlap.
func (c *Chart) slant(p *plot.Plot) {
	var widest vg.Length
	all := p.X.Tick.Marker.Ticks(p.X.Min, p.X.Max)
	for _, t := range all {
		widest = max(widest, p.X.Tick.Label.Width(t.Label)+8)
	}
	if widest*vg.Length(len(all)) > chartWidth*4/5 {
		p.X.Tick.Label.Rotation = math.Pi / 5
		p.X.Tick.Label.XAlign, p.X.Tick.Label.YAlign = text.XRight, text.YTop
	}
}

// xs returns the different X of all points, ascending.
func (c *Chart) xs() []float64 {
	var xs []float64
	for _, l := range c.Lines {
		for _, q := range l.Points {
			xs = append(xs, q.X)
		}
	}
	return ascending(xs)
}

func (c *Chart) addLine(p *plot.Plot, legend *plot.Legend, i int) error {
	points := errorPoints(c.Lines[i].Points)
	if len(points) == 0 {
		legend.Add(c.Lines[i].Name)
		return nil
	}

	line, dots, err := plotter.NewLinePoints(points)
	if err != nil {
		return err
	}

	colour := palette[i%len(palette)]
	line.Color, line.Width = colour, 1.5
	dots.Color, dots.Shape, dots.Radius = colour, draw.CircleGlyph{}, 2.5
	p.Add(line, dots)
	legend.Add(c.Lines[i].Name, line, dots)
	return extremes(p, points, colour)
}

func (c *Chart) addBars(p *plot.Plot, legend *plot.Legend, i int) error {
	const group = 0.8 // part of the distance between two categories
	width := group / float64(len(c.Lines))
	left := float64(i)*width - group/2
	var bars []plotter.XYer
	points := slices.Clone(c.Lines[i].Points)
	for k, q := range points {
		x0, x1 := q.X+left, q.X+left+width*0.95
		bars = append(bars, plotter.XYs{{X: x0}, {X: x0, Y: q.Y}, {X: x1, Y: q.Y}, {X: x1}})
		points[k].X = (x0 + x1) / 2
	}

	if len(bars) == 0 {
		legend.Add(c.Lines[i].Name)
		return nil
	}

	all, err := plotter.NewPolygon(bars...)
	if err != nil {
		return err
	}

	all.Color, all.LineStyle.Width = palette[i%len(palette)], 0
	p.Add(all)
	legend.Add(c.Lines[i].Name, all)
	return extremes(p, points, color.RGBA{0x33, 0x33, 0x33, 255})
}

// extremes draws the least and the greatest value of each point.
func extremes(p *plot.Plot, points errorPoints, colour color.Color) error {
	points = slices.DeleteFunc(slices.Clone(points), func(q Point) bool { return q.Max <= q.Min })
	if len(points) == 0 {
		return nil
	}
	bars, err := plotter.NewYErrorBars(points)
	if err != nil {
		return err
	}
	bars.Color = colour
	p.Add(bars)
	return nil
}
