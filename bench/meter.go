package bench

import (
	"time"
)

// A Meter measures processes by role. It counts a process's children after the process has waited for them, as forking
// servers do.
type Meter struct {
	procs []metered
}

type metered struct {
	role Role
	pid  int
	cpu  time.Duration // at Begin
}

// Add adds a process to the measurements from the next Begin on.
func (m *Meter) Add(r Role, pid int) { m.procs = append(m.procs, metered{role: r, pid: pid}) }

// Begin begins a measurement: of processor time from here on, and of the peak of memory from its present size on.
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

// End ends a measurement. It returns the processor time of all processes of a role together, to the kernel's hundredth
// of a second. It returns the most resident memory of one of them, in bytes.
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

// Time that processes may take to finish the rest of their work.
const (
	settleStep = 20 * time.Millisecond
	settleMost = 500 * time.Millisecond
)

// settle waits until the processes use no more processor time. So the measurement includes their work after the end,
// such as handing over audit records. It waits half a second for processes that never rest.
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

// Measure runs work and returns its sample: time, and processor time and memory until the processes rest. work itself
// returns the moved bytes.
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
