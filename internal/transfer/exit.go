package transfer

import (
	"context"
	"path"
	"strings"
	"time"
)

// The call points of exits: programs that an agent's configuration has run at a stage of each of its transfers, or at
// each trigger of its monitors. CallPoints does not include them.
const (
	SourceStartExit CallPoint = "source-start-exit" // before the pre-source program
	SourceEndExit   CallPoint = "source-end-exit"   // before the post-source program
	DestStartExit   CallPoint = "destination-start-exit"
	DestEndExit     CallPoint = "destination-end-exit"
	MonitorExit     CallPoint = "monitor-exit" // after a trigger, before its transfer is submitted
)

// Limits of exits.
const (
	MaxExitFacts   = 16 << 20 // bytes of the facts that an exit is given
	MaxExitAnswer  = 4 << 20  // bytes of its answer
	MaxExitMessage = 1 << 10

	DefaultExitTime = time.Minute
)

// Exits are an agent's exits: the program of each call point.
type Exits struct {
	Programs map[CallPoint]string
	Time     time.Duration // limit of one run; 0: DefaultExitTime
}

const exitSuffix = "-exit"

// ExitPoints returns the call points of exits.
func ExitPoints() []CallPoint {
	return []CallPoint{SourceStartExit, SourceEndExit, DestStartExit, DestEndExit, MonitorExit}
}

// Exit returns the call point of the exit that runs just before the program of a call point of a transfer.
func (c CallPoint) Exit() CallPoint {
	return map[CallPoint]CallPoint{PreSource: SourceStartExit, PostSource: SourceEndExit, PreDest: DestStartExit, PostDest: DestEndExit}[c]
}

// ParseExits reads POINT=PROGRAM: source-start=filter.sh. limit is the time limit of one run.
func ParseExits(settings []string, limit time.Duration) (Exits, error) {
	e := Exits{Programs: map[CallPoint]string{}, Time: limit}
	if limit <= 0 || limit > MaxProgramTime {
		return e, Errorf(KindUsage, "the time limit of an exit is %s; it must be more than 0, and %s at most", limit, MaxProgramTime).
			WithHint("`--exit-time 30s` is half a minute; without the flag the limit is " + DefaultExitTime.String())
	}
	for _, s := range settings {
		point, program, ok := strings.Cut(s, "=")
		at := CallPoint(point + exitSuffix)
		known := false
		for _, p := range ExitPoints() {
			known = known || p == at
		}
		if !ok || !known {
			return e, Errorf(KindUsage, "the exit %.100q is malformed", s).
				WithHint("write it as POINT=PROGRAM; POINT is source-start, source-end, destination-start, destination-end or monitor")
		}
		if e.Programs[at] != "" {
			return e, Errorf(KindUsage, "%s is given twice", at.Noun()).WithHint("write one program that runs both")
		}
		if err := (&Program{Name: program}).Check(at); err != nil {
			return e, err
		}
		e.Programs[at] = program
	}
	return e, nil
}

// Given returns the exits as ParseExits reads them, in the order of ExitPoints.
func (e Exits) Given() (all []string) {
	for _, at := range ExitPoints() {
		if name := e.Programs[at]; name != "" {
			all = append(all, strings.TrimSuffix(string(at), exitSuffix)+"="+name)
		}
	}
	return all
}

// An ExitFile is a file of a transfer, for an exit.
type ExitFile struct {
	Source   Path      `json:"source"`
	Name     Path      `json:"name"` // beneath DEST
	Size     int64     `json:"size"`
	Modified time.Time `json:"modified,omitzero"`
	Item     int       `json:"item,omitempty"`    // index of the request item that it comes from
	Arrived  bool      `json:"arrived,omitempty"` // false: it has not, or that is not known
	Failed   bool      `json:"failed,omitempty"`
	Error    string    `json:"error,omitempty"`
	Dest     Location  `json:"-"` // DEST of the request item, if it has its own
}

// ExitFiles calls put for each file of a transfer.
type ExitFiles func(ctx context.Context, put func(ExitFile) error) error

// A Choice is the part of an answer of an exit that changes a transfer.
type Choice struct {
	Meta map[string]*string `json:"metadata,omitempty"` // entries to set; nil: to remove
	// Chosen says that only the Files are sent, which may be none. Otherwise all files are sent, under their own names.
	Chosen bool         `json:"chosen,omitempty"`
	Files  []ChosenFile `json:"files,omitempty"`
}

// A ChosenFile is a file that an exit has chosen, with its name beneath DEST.
type ChosenFile struct {
	Item   int  `json:"item,omitempty"` // as in ExitFile
	Source Path `json:"source"`
	Name   Path `json:"name"`
}

// An ItemPath is a path of the files that come from one request item.
type ItemPath struct {
	Item int
	Path Path
}

// ApplyMeta returns metadata with the entries of the choice.
func (c *Choice) ApplyMeta(meta map[string]string) map[string]string {
	if c == nil || len(c.Meta) == 0 {
		return meta
	}
	all := map[string]string{}
	for k, v := range meta {
		all[k] = v
	}
	for k, v := range c.Meta {
		if delete(all, k); v != nil {
			all[k] = *v
		}
	}
	return all
}

// Directories returns the directories of the chosen names.
func (c *Choice) Directories() map[ItemPath]bool {
	dirs := map[ItemPath]bool{}
	for _, f := range c.Files {
		for d := path.Dir(string(f.Name)); d != "." && d != "/" && !dirs[ItemPath{f.Item, Path(d)}]; d = path.Dir(d) {
			dirs[ItemPath{f.Item, Path(d)}] = true
		}
	}
	return dirs
}

// CheckExitName returns an error for a name that is none beneath a directory.
func CheckExitName(name Path) error {
	if err := name.Check(); err != nil {
		return err
	}
	for part := range strings.SplitSeq(string(name), "/") {
		if part == "" || part == "." || part == ".." {
			return Errorf(KindUsage, "the name %s leads out of DEST", name).WithHint("name the file beneath DEST, as day/a.csv")
		}
	}
	return nil
}
