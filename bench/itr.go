package bench

import (
	"math"
	"time"

	"ferry/internal/transfer"
)

// A System is a machine in IBM's Large Systems Performance Reference. Its capacity, of all of its processors together,
// is an Internal Throughput Ratio to a machine of that table.
type System struct {
	Name       string
	ITR        float64 // greater than 0
	Processors int     // at least 1
}

// The two systems of the worked example in the z/OS report, "CPU Cost
// Calculations on other System Z Systems", page 47, for a mixed workload.
var (
	Z10 = System{Name: "2097-703", ITR: 4.15, Processors: 3}
	Z9  = System{Name: "2094-703", ITR: 2.72, Processors: 3}
)

func (s System) check() error {
	if !(s.ITR > 0) || math.IsInf(s.ITR, 0) || s.Processors < 1 {
		return transfer.Errorf(transfer.KindUsage, "system %q has an ITR of %v and %d processors; both must be greater than zero", s.Name, s.ITR, s.Processors)
	}
	return nil
}

// PerProcessor returns the ITR of one of a system's processors.
func (s System) PerProcessor() float64 { return s.ITR / float64(s.Processors) }

// ProcessorRatio returns the work of one processor of a system for each unit of work of one of another: 0.655 for the
// report's 2094-703 over its 2097-703.
func ProcessorRatio(of, over System) (float64, error) {
	for _, s := range []System{of, over} {
		if err := s.check(); err != nil {
			return 0, err
		}
	}
	return of.PerProcessor() / over.PerProcessor(), nil
}

// CarryCost converts a cost in processor time from one system to another: the cost divided by ProcessorRatio(to, from).
// The unit is the cost's own.
func CarryCost(cost float64, from, to System) (float64, error) {
	ratio, err := ProcessorRatio(to, from)
	if err != nil {
		return 0, err
	}
	return cost / ratio, nil
}

// Busy returns the utilisation of a system's processors, in percent of all of them, when work uses cpu of processor
// time in an elapsed time. It is 21.33 for 640 ms in a second on three. More than 100 means that the work cannot be
// done in that time.
func Busy(cpu, elapsed time.Duration, processors int) (float64, error) {
	if elapsed <= 0 || processors < 1 || cpu < 0 {
		return 0, transfer.Errorf(transfer.KindUsage, "%v of processor time in %v on %d processors: none may be negative, and the last two not zero", cpu, elapsed, processors)
	}
	return float64(cpu) / (float64(elapsed) * float64(processors)) * 100, nil
}
