package streams

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go/jetstream"
)

// Error codes of JetStream for more replicas than there are members of a cluster.
const (
	codeNoPeers    = 10005 // not enough members with room are there
	codeResources  = codeNoStorage
	codeNoReplicas = 10074 // there is no cluster
)

// TooFew reports whether an error means that there are not enough members for so many replicas.
func TooFew(err error) bool {
	api := (*jetstream.APIError)(nil)
	if !errors.As(err, &api) {
		return false
	}
	switch api.ErrorCode {
	case codeNoPeers, codeResources, codeNoReplicas:
		return true
	}
	return false
}

// noCluster reports whether an error means that there is no cluster.
func noCluster(err error) bool {
	api := (*jetstream.APIError)(nil)
	return errors.As(err, &api) && api.ErrorCode == codeNoReplicas
}

// create makes a stream, with as many replicas as there are members, three at most. Its durables have as many.
func (l Library) create(ctx context.Context, cfg jetstream.StreamConfig) (jetstream.Stream, error) {
	cfg.Replicas = Replicas
	s, err := l.JS().CreateStream(ctx, cfg)
	if TooFew(err) {
		cfg.Replicas = 1
		s, err = l.JS().CreateStream(ctx, cfg)
	}
	return s, err
}

// raise gives a stream of one replica three if there are three members by now; its durables follow. It takes none away:
// a member that is gone for an hour is no reason to keep fewer.
func (l Library) raise(ctx context.Context, s jetstream.Stream) (jetstream.Stream, error) {
	info := s.CachedInfo()
	if info.Cluster == nil || info.Cluster.Name == "" || info.Config.Replicas > 1 {
		return s, nil
	}
	cfg := info.Config
	cfg.Replicas = Replicas
	now, err := l.JS().UpdateStream(ctx, cfg)
	if TooFew(err) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	return now, nil
}

const (
	Replicas = 3 // of each queue, where there are as many members
)
