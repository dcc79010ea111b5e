package bench

import (
	"time"
)

// A Meter measures processes by role. What a process's children used is
// counted with it once it has waited for them, as servers that fork do.
type Meter struct {
	procs []metered
}

type metered struct {
	role Role
	pid  int
	cpu  time.Duration // at Begin
}

// Add has a process measured from the next Begin on.
func (m *Meter) Add(r Role, pid int) { m.procs = append(m.procs, metered{role: r, pid: pid}) }

// Begin begins a measurement: processor time counts from here, and the peak of
// memory starts from what is resident now.
func (m *Meter) Begin() error {
	for i := range m.procs {
		p := &m.procs[i]
		if err := resetPeak(p.pid); err != nil {
			return err
		}
		cpu, err := cpuTime(p.pid)
		if err != nil {
			return err
		}
		p.cpu = cpu
	}
	return nil
}

// End ends a measurement: the processor time of all processes of a role
// together, to the kernel's hundredth of a second, and the most memory that
// one of them had resident, in bytes.
func (m *Meter) End() (cpu map[Role]time.Duration, peak map[Role]int64, err error) {
	cpu, peak = map[Role]time.Duration{}, map[Role]int64{}
	for _, p := range m.procs {
		t, err := cpuTime(p.pid)
		if err != nil {
			return nil, nil, err
		}
		rss, err := peakRSS(p.pid)
		if err != nil {
			return nil, nil, err
		}
		cpu[p.role] += t - p.cpu
		peak[p.role] = max(peak[p.role], rss)
	}
	return cpu, peak, nil
}

// How long processes may go on with what work has left them to do.
const (
	settleStep = 20 * time.Millisecond
	settleMost = 500 * time.Millisecond
)

// settle waits until the processes use no more processor time, so that what
// they do after the end, such as handing over audit records, is counted too.
// Processes that never rest are waited for half a second.
func (m *Meter) settle() error {
	last := time.Duration(-1)
	for end := time.Now().Add(settleMost); time.Now().Before(end); time.Sleep(settleStep) {
		var now time.Duration
		for _, p := range m.procs {
			t, err := cpuTime(p.pid)
			if err != nil {
				return err
			}
			now += t
		}
		if now == last {
			return nil
		}
		last = now
	}
	return nil
}

// Measure runs work and gives the sample of it: time, and processor time and
// memory until the processes have come to rest. What work moved, it says itself.
func (m *Meter) Measure(work func() (Sample, error)) (Sample, error) {
	if err := m.Begin(); err != nil {
		return Sample{}, err
	}

	start := time.Now()
	s, err := work()
	wall := time.Since(start)
	if err != nil {
		return s, err
	}

	if s.Wall == 0 {
		s.Wall = wall
	}
	if err := m.settle(); err != nil {
		return s, err
	}

	cpu, peak, err := m.End()
	if err != nil {
		return s, err
	}

	if s.CPU == nil {
		s.CPU = cpu
	}

	s.Peak = peak
	return s, nil
}
