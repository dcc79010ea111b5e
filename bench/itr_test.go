package bench

import (
	"math"
	"testing"
	"time"

	"ferry/bench/published"
)

// rounded rounds a value to the digits that the report prints.
func rounded(v float64, digits int) float64 {
	p := math.Pow10(digits)
	return math.Round(v*p) / p
}

func TestWorkedExample(t *testing.T) {
	if got := rounded(Z10.PerProcessor(), 3); got != 1.383 {
		t.Errorf("one processor of %s has %v", Z10.Name, got)
	}
	if got := rounded(Z9.PerProcessor(), 3); got != 0.907 {
		t.Errorf("one processor of %s has %v", Z9.Name, got)
	}
	ratio, err := ProcessorRatio(Z9, Z10)
	want, _ := published.Lookup("itr-ratio")
	if err != nil || rounded(ratio, 3) != want.Value {
		t.Errorf("ratio %v, %v; the report has %v", ratio, err, want.Value)
	}
	cost, err := CarryCost(100, Z10, Z9)
	if err != nil || math.Abs(cost-100/ratio) > 1e-9 || cost <= 100 {
		t.Errorf("100 µs on %s become %v, %v on %s, which is slower", Z10.Name, cost, err, Z9.Name)
	}
	back, err := CarryCost(cost, Z9, Z10)
	if err != nil || math.Abs(back-100) > 1e-9 {
		t.Errorf("there and back, 100 µs become %v, %v", back, err)
	}
	busy, err := Busy(640*time.Millisecond, time.Second, 3)
	example, _ := published.Lookup("busy-example")
	if err != nil || rounded(busy, 2) != example.Value {
		t.Errorf("%v percent busy, %v; the report has %v", busy, err, example.Value)
	}
}

func TestSystemsOfTheReport(t *testing.T) {
	for id, s := range map[string]System{"itr-2097-703": Z10, "itr-2094-703": Z9} {
		if r, ok := published.Lookup(id); !ok || r.Value != s.ITR || s.Processors != 3 {
			t.Errorf("%s: %+v, printed %v", id, s, r.Value)
		}
	}
}

func TestImpossibleCosts(t *testing.T) {
	for _, s := range []System{{"none", 0, 3}, {"negative", -1, 3}, {"no processor", 1, 0}, {"not a number", math.NaN(), 1}, {"endless", math.Inf(1), 1}} {
		if _, err := CarryCost(1, s, Z9); err == nil {
			t.Errorf("a cost was carried from %+v", s)
		}
		if _, err := CarryCost(1, Z9, s); err == nil {
			t.Errorf("a cost was carried to %+v", s)
		}
	}
	for _, c := range []struct {
		cpu, elapsed time.Duration
		processors   int
	}{{-1, 1, 1}, {1, 0, 1}, {1, -1, 1}, {1, 1, 0}} {
		if b, err := Busy(c.cpu, c.elapsed, c.processors); err == nil {
			t.Errorf("%+v is %v percent busy", c, b)
		}
	}
	if b, err := Busy(2*time.Second, time.Second, 1); err != nil || b != 200 {
		t.Errorf("two seconds in one are %v percent, %v", b, err)
	}
}
