package direct

import (
	"net"
	"strings"

	"ferry/internal/tcp"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Move has the hub follow its host's address: it listens at an address, HOST:PORT,
// unless it does, and has others told to dial addresses, with port 0 for the one that it
// listens on; none: where it listens. A hub that only dials keeps to that, with listen
// empty. What came over an address that is no longer this host's is given up: lost are
// the peers to which that led. Its errors are of kind Usage or InUse; then all is as before.
func (h *Hub) Move(listen string, addresses []string) (lost []transfer.AgentName, err error) {
	h.mu.Lock()
	l, fresh := h.listen, listen != h.at
	h.mu.Unlock()
	if fresh {
		if l, err = net.Listen("tcp", listen); err != nil {
			kind := transfer.KindUsage
			if tcp.InUse(err) {
				kind = transfer.KindInUse
			}
			return nil, transfer.Errorf(kind, "the direct lane cannot listen on %s: %w", listen, err).
				WithHint("give --direct-listen HOST:PORT with another address, or --direct off")
		}
	}

	told, err := toldOf(l, addresses)
	if err == nil {
		err = h.follow(listen, l, told)
	}
	if err != nil {
		if fresh {
			l.Close()
		}
		return nil, err
	}

	for _, p := range h.fallen() {
		p.end(errMoved)
		lost = append(lost, p.peer)
	}
	return lost, nil
}

// toldOf is what others are told to dial.
func toldOf(l net.Listener, addresses []string) ([]string, error) {
	if l == nil {
		return nil, nil
	}

	if len(addresses) == 0 {
		return []string{l.Addr().String()}, nil
	}

	var told []string
	_, port, _ := net.SplitHostPort(l.Addr().String())
	for _, a := range addresses {
		if strings.HasSuffix(a, ":0") {
			a = strings.TrimSuffix(a, "0") + port
		}
		told = append(told, a)
	}
	return told, wire.CheckAddresses(told)
}

// follow takes a listener in place of the one before, where it is another.
func (h *Hub) follow(at string, l net.Listener, told []string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ctx.Err() != nil {
		return errClosed
	}

	if l != h.listen {
		if h.listen != nil {
			h.listen.Close()
		}
		h.wg.Go(func() { h.accept(l) })
	}

	h.listen, h.at, h.told = l, at, told
	return nil
}

// fallen are the paths that lead over an address that is not this host's any more.
func (h *Hub) fallen() (all []*path) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, ps := range h.paths {
		for _, p := range ps {
			if !p.stands() {
				all = append(all, p)
			}
		}
	}
	return all
}
