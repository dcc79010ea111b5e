package direct

import (
	"net"
	"strings"

	"ferry/internal/sys/tcp"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Move makes the hub follow its host's address. The hub listens at an address, HOST:PORT, unless it does already. It
// tells others to dial addresses, with port 0 for its listening port; without addresses, it tells the listening
// address. A hub that only dials gets an empty listen and stays so. Move ends connections over an address that the host
// does not have any more, and returns their peers in lost. Its errors are of kind Usage or InUse; then nothing has
// changed.
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

	for _, p := range h.withoutAddress() {
		p.end(errMoved)
		lost = append(lost, p.peer)
	}
	return lost, nil
}

// toldOf returns the addresses for others to dial.
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

// follow replaces the listener, if the new one is another.
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

// withoutAddress returns the paths over an address that the host does not have any more.
func (h *Hub) withoutAddress() (all []*path) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, ps := range h.paths {
		for _, p := range ps {
			if !p.hasAddress() {
				all = append(all, p)
			}
		}
	}
	return all
}
