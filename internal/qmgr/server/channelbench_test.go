package server

import (
	"fmt"
	"testing"
	"time"

	"ferry/internal/qmgr"
	"ferry/internal/qmgr/channel"
	"ferry/internal/qmgr/link"
	"ferry/internal/qmgr/roles"
	"ferry/internal/security/authority/authoritytest"
	"ferry/internal/security/identity"
)

// BenchmarkChannel moves messages through a channel with identities: chunks on the data connection, small messages there, and
// answers on the other one.
func BenchmarkChannel(b *testing.B) {
	a := authoritytest.New(b)
	server := func(name string, to ...channel.Channel) *Server {
		claims, err := a.Claims()
		benched(b, err)
		s, err := Start(b.Context(), Config{Name: name, Dir: b.TempDir(), Listen: "127.0.0.1:0", ChannelListen: "127.0.0.1:0", Channels: to,
			Guard: &Guard{Identity: authoritytest.Identity(b, a, identity.Manager, name, roles.Manager), Claims: claims}})
		benched(b, err)
		b.Cleanup(s.Shutdown)
		return s
	}
	hub := server("HUB")
	one := server("ONE", channel.Channel{Name: "HUB", URL: "nats://" + hub.Channels().Addr()})
	conn := func(s *Server, name string) *qmgr.Conn {
		c, err := qmgr.Connect(b.Context(), qmgr.ConnConfig{URL: s.URL(), Identity: authoritytest.Identity(b, a, identity.Agent, name, roles.Agent), Timeout: time.Minute})
		benched(b, err)
		b.Cleanup(c.Close)
		return c
	}
	alpha, beta := conn(one, "ALPHA"), conn(hub, "BETA")
	const ahead, last = 32, 1
	came := make(chan byte, 4*ahead)
	hears := func(m link.Message) { came <- m.Data[0] }
	_, err := beta.SubscribeData("ferry.data.BETA.>", hears)
	benched(b, err)
	_, err = beta.Subscribe("ferry.reply.BETA.*", hears)
	benched(b, err)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for _, x := range []struct {
		name    string
		size    int
		publish func([]byte) error
	}{
		{"data", 256 << 10, func(data []byte) error { return alpha.PublishData("ferry.data.BETA.ALPHA.x", data) }},
		{"data", 4 << 10, func(data []byte) error { return alpha.PublishData("ferry.data.BETA.ALPHA.x", data) }},
		{"reply", 200, func(data []byte) error { return qmgr.PublishPlain(alpha, "ferry.reply.BETA.ALPHA", data) }},
	} {
		data := make([]byte, x.size)
		for passes := false; !passes; { // it needs a moment until the peer knows the subject
			benched(b, x.publish(data))
			select {
			case <-came:
				passes = true
			case <-tick.C:
			}
		}
		data[0] = last
		benched(b, x.publish(data))
		for <-came != last {
		}
		b.Run(fmt.Sprintf("%s/%d", x.name, x.size), func(b *testing.B) {
			b.SetBytes(int64(x.size))
			n := 0
			for ; b.Loop(); n++ {
				benched(b, x.publish(data))
				if n >= ahead {
					<-came
				}
			}
			for range min(n, ahead) {
				<-came
			}
		})
	}
}

func benched(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}
