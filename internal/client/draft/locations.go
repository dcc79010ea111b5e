package draft

import (
	"ferry/internal/place/location"
	"ferry/internal/place/pipe"
	"ferry/internal/transfer"
)

// A Host is the process of a person's own command. It completes requests for files of its host, which name no agents,
// and requests with its standard input.
type Host interface {
	// Agents returns the names of the two agents in the process that move the files.
	Agents() (source, destination transfer.AgentName)
	// Location returns a location, and Path a path, that means the same in each working directory.
	Location(l transfer.Location) (transfer.Location, error)
	Path(p transfer.Path) (transfer.Path, error)
	// Streams sets the agent or the destination of a request for standard input, or refuses the request. is reports that
	// it is such a request.
	Streams(q *transfer.Request) (is bool, err error)
	// Names replaces the one source by the names in a list, if there is one.
	Names(q *transfer.Request) error
}

// Source reads the [AGENT:]LOCATION of a source. Without an agent, "-" is standard input.
func Source(arg string) (transfer.AgentName, transfer.Location, error) {
	return typed(arg, location.Source)
}

// Destination reads the [AGENT:]LOCATION of a DEST. Without an agent, "-" is standard output.
func Destination(arg string) (transfer.AgentName, transfer.Location, error) {
	return typed(arg, location.Dest)
}

func typed(arg string, read func(string) (transfer.Location, error)) (at transfer.AgentName, l transfer.Location, err error) {
	at, text, err := transfer.SplitAgent(arg)
	if err != nil {
		return "", l, err
	}
	if at == "" && text == string(pipe.Name) {
		return "", pipe.Stdio, nil
	}
	l, err = read(text)
	return at, l, err
}

// locate sets the agents and the locations of a request. This text is read nowhere else.
func locate(q *transfer.Request, texts []string, host Host) (err error) {
	if len(texts) == 0 {
		return transfer.Errorf(transfer.KindUsage, "the request has no destination").WithHint("give its sources, and its destination as the last one")
	}
	last := len(texts) - 1
	if q.Destination, q.Dest, err = Destination(texts[last]); err != nil {
		return err
	}
	for i, s := range texts[:last] {
		from, l, err := Source(s)
		if err != nil {
			return err
		}
		if i > 0 && from != q.Source {
			return transfer.Errorf(transfer.KindUsage, "the sources %q and %q are on different agents; one transfer has one source agent", texts[0], s)
		}
		q.Source = from
		q.Items = append(q.Items, transfer.RequestItem{Source: l})
	}

	if host != nil {
		if is, err := host.Streams(q); is || err != nil {
			return err
		}
	}

	if (q.Source == "") != (q.Destination == "") {
		return transfer.Errorf(transfer.KindUsage, "an agent is named on one side only: %q to %q", texts[0], texts[last]).
			WithHint("name one on both sides, or on none to move files on this host")
	}
	switch {
	case q.Source != "":
		return nil
	case host == nil:
		return transfer.Errorf(transfer.KindUsage, "no agent is named: %q to %q", texts[0], texts[last]).WithHint("name one on both sides")
	}
	return local(q, host)
}

// local makes the locations of a request those of a host.
func local(q *transfer.Request, host Host) (err error) {
	for n := range q.Items {
		it := &q.Items[n]
		if it.Source, err = host.Location(it.Source); err != nil {
			return err
		}
	}

	for n := range q.Triggers {
		for k, p := range q.Triggers[n].Files {
			if q.Triggers[n].Files[k], err = host.Path(p); err != nil {
				return err
			}
		}
	}

	if q.Archive != "" {
		if q.Archive, err = host.Path(q.Archive); err != nil {
			return err
		}
	}
	q.Dest, err = host.Location(q.Dest)
	return err
}
