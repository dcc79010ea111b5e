package queuemanager

import (
	"net"
	"os"
	"slices"
	"strconv"

	"ferry/internal/qmgr"
	"ferry/internal/transfer"
)

// nextPort returns the address for joiners: given, or the port after the queue manager's.
func nextPort(given, listen, url string) (string, error) {
	if given != "" {
		if _, _, err := net.SplitHostPort(given); err != nil {
			return "", transfer.Errorf(transfer.KindUsage, "--enrol %q is no HOST:PORT", given)
		}
		return given, nil
	}
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return "", err
	}
	at := qmgr.Addresses(url)
	if len(at) == 0 {
		return "", transfer.Errorf(transfer.KindInternal, "the queue manager at %s has no port", url)
	}
	_, text, err := net.SplitHostPort(at[0])
	if err != nil {
		return "", err
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return "", err
	}
	if port++; port > 65535 {
		port = 65534
	}
	return net.JoinHostPort(host, strconv.Itoa(port)), nil
}

// reached returns the addresses of a listener for clients. A listener on all addresses gets those of this host.
func reached(listen string, also []string) []string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return also
	}
	if len(also) > 0 {
		if _, p, err := net.SplitHostPort(also[0]); err == nil {
			port = p // the port that was free
		}
	}
	if ip := net.ParseIP(host); host != "" && (ip == nil || !ip.IsUnspecified()) {
		return []string{net.JoinHostPort(host, port)}
	}

	var all []string
	if name, err := os.Hostname(); err == nil {
		all = append(all, net.JoinHostPort(name, port))
	}
	addresses, _ := net.InterfaceAddrs() // without them the name has to do
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLoopback() && !n.IP.IsLinkLocalUnicast() {
			all = append(all, net.JoinHostPort(n.IP.String(), port))
		}
	}
	all = all[:min(len(all), 15)]
	return slices.Compact(append(all, net.JoinHostPort("127.0.0.1", port)))
}
