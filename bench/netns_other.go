//go:build !linux

package bench

import (
	"context"
	"net"

	"ferry/internal/transfer"
)

// A namespace exists only on Linux.
type namespace struct{ name string }

func noNamespaces() error {
	return transfer.Errorf(transfer.KindNotBuilt, "network namespaces are Linux's alone").WithHint("run this scenario on Linux")
}

func newNamespace(context.Context, string) (*namespace, error)    { return nil, noNamespaces() }
func (*namespace) remove()                                        {}
func (*namespace) wrap() []string                                 { return nil }
func (*namespace) ip(context.Context, ...string) error            { return noNamespaces() }
func (*namespace) limit(context.Context, string, int64) error     { return noNamespaces() }
func (*namespace) listen(string) (net.Listener, error)            { return nil, noNamespaces() }
func (*namespace) dial(context.Context, string) (net.Conn, error) { return nil, noNamespaces() }
