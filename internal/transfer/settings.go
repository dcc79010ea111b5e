package transfer

// Settings are the flow-control settings of a transfer; 0 means the agent's.
type Settings struct {
	ChunkSize          int `json:"chunk_size,omitempty"`          // bytes of one data message, MinChunk to MaxChunk
	WindowSize         int `json:"window_size,omitempty"`         // chunks to one acknowledgement, 1 to 10,000
	FrameSize          int `json:"frame_size,omitempty"`          // windows of run-ahead, 1 to 1,000
	CheckpointInterval int `json:"checkpoint_interval,omitempty"` // frames to one checkpoint, 1 to 1,000
	// Auto, in the settings of a transfer, says that its run-ahead was not set explicitly. The destination may let it
	// grow beyond the settings.
	Auto bool `json:"auto,omitempty"`
}

// DefaultSettings returns MQ MFT's defaults.
func DefaultSettings() Settings {
	return Settings{ChunkSize: 256 << 10, WindowSize: 10, FrameSize: 5, CheckpointInterval: 1}
}

// Or returns s with unset settings taken from d.
func (s Settings) Or(d Settings) Settings {
	or := func(a, b int) int {
		if a != 0 {
			return a
		}
		return b
	}
	return Settings{or(s.ChunkSize, d.ChunkSize), or(s.WindowSize, d.WindowSize),
		or(s.FrameSize, d.FrameSize), or(s.CheckpointInterval, d.CheckpointInterval), s.Auto}
}

// Check refuses a setting out of range. 0 means unset and passes.
func (s Settings) Check() error {
	for _, c := range []struct {
		name       string
		v, min, mx int
	}{
		{"chunk size", s.ChunkSize, MinChunk, MaxChunk},
		{"window size", s.WindowSize, 1, 10000},
		{"frame size", s.FrameSize, 1, 1000},
		{"checkpoint interval", s.CheckpointInterval, 1, 1000},
	} {
		if c.v != 0 && (c.v < c.min || c.v > c.mx) {
			return Errorf(KindUsage, "%s %d is out of range; it goes from %d to %d", c.name, c.v, c.min, c.mx)
		}
	}
	return nil
}
