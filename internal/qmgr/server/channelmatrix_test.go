package server

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"ferry/internal/qmgr"
	"ferry/internal/qmgr/channel"
	"ferry/internal/qmgr/claims"
	"ferry/internal/qmgr/link"
	"ferry/internal/qmgr/qmgrtest"
	"ferry/internal/qmgr/roles"
	"ferry/internal/qmgr/streams"
	"ferry/internal/security/authority"
	"ferry/internal/security/authority/authoritytest"
	"ferry/internal/security/identity"
	"ferry/internal/wire"
)

// A hostile is a queue manager that a channel joins to another one, spoken by hand: over one connection for control and one for
// data.
type hostile struct {
	t             *testing.T
	name          string
	control, data *wireEnd
}

// A wireEnd is one of its connections.
type wireEnd struct {
	t     *testing.T
	conn  net.Conn
	lines chan string // subjects of messages, PONG, and other lines
	wants chan string // subjects that the other side subscribes
}

func newWireEnd(t *testing.T, conn net.Conn, in *bufio.Reader) *wireEnd {
	w := &wireEnd{t, conn, make(chan string, 10000), make(chan string, 10000)}
	go func() {
		defer close(w.lines)
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			words := strings.Fields(line)
			switch {
			case len(words) == 0:
			case words[0] == "PING":
				fmt.Fprint(conn, "PONG\r\n")
			case words[0] == "LMSG" || words[0] == "HMSG":
				size, err := strconv.Atoi(words[len(words)-1])
				if err != nil {
					return
				}
				if _, err := io.CopyN(io.Discard, in, int64(size)+2); err != nil {
					return
				}
				w.lines <- words[1]
			case words[0] == "PONG":
				w.lines <- "PONG"
			case words[0] == "LS+" && len(w.wants) < cap(w.wants):
				w.wants <- words[1]
			}
		}
	}()
	return w
}

// say sends lines, and returns when the other side has read them.
func (w *wireEnd) say(format string, args ...any) {
	w.t.Helper()
	_, err := fmt.Fprintf(w.conn, format+"PING\r\n", args...)
	must(w.t, err)
	for w.next("an answer of the queue manager") != "PONG" {
	}
}

// next returns the next line, of a connection that is there.
func (w *wireEnd) next(what string) string {
	w.t.Helper()
	line := qmgrtest.Receive(w.t, what, w.lines)
	if line == "" {
		w.t.Fatal("the connection was ended")
	}
	return line
}

// heard returns the subjects of the messages that have come before one on a marker.
func (w *wireEnd) heard(marker string) map[string]bool {
	w.t.Helper()
	all := map[string]bool{}
	for {
		subject := w.next("a message on " + marker)
		if subject == marker {
			return all
		}
		if subject != "PONG" {
			all[subject] = true
		}
	}
}

func message(subject string, body []byte) string {
	return fmt.Sprintf("LMSG %s %d\r\n%s\r\n", subject, len(body), body)
}

// into dials a queue manager.
func into(t *testing.T, s *Server, i *identity.Identity) *hostile {
	t.Helper()
	h := &hostile{t: t, name: i.Name().Name}
	for jwt, end := range map[string]**wireEnd{i.JWTs().Channel: &h.control, i.JWTs().ChannelData: &h.data} {
		l, err := leafOf(t, s, i, jwt)
		must(t, err)
		*end = newWireEnd(t, l.conn, l.in)
	}
	return h
}

// under has a queue manager of a name dial it.
func under(t *testing.T, a *authority.Authority, i *identity.Identity, name string) (*hostile, *Server) {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", i.Server(func(identity.Name) error { return nil }))
	must(t, err)
	t.Cleanup(func() { listener.Close() })
	h := &hostile{t: t, name: i.Name().Name}
	type greeted struct {
		end  *wireEnd
		data bool
	}
	ends := make(chan greeted, 2)
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { c.Close() })
			c.SetDeadline(time.Now().Add(qmgrtest.Patience))
			info := fmt.Sprintf("INFO {\"server_id\":\"x\",\"server_name\":\"%s\",\"version\":\"2.15.2\",\"nonce\":\"abc\",\"max_payload\":%d,\"headers\":true,\"jetstream\":true,\"domain\":\"%s\",\"client_id\":7,\"info_on_connect\":true}\r\n", h.name, streams.MaxPayload, h.name)
			io.WriteString(c, info)
			in := bufio.NewReader(c)
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			io.WriteString(c, strings.Replace(info, "info_on_connect", "connect_info", 1))
			_, user, _ := strings.Cut(line, `"remote_account":"`)
			user, _, _ = strings.Cut(user, `"`)
			signed, err := a.Claims()
			if err != nil {
				return
			}
			r, err := claims.Read(signed)
			if err != nil {
				return
			}
			ends <- greeted{newWireEnd(t, c, in), user == r.Data.Subject}
		}
	}()
	s := linked(t, a, name, channel.Channel{Name: h.name, URL: "nats://" + listener.Addr().String()})
	for range 2 {
		if g := qmgrtest.Receive(t, "a connection of the channel", ends); g.data {
			h.data = g.end
		} else {
			h.control = g.end
		}
	}
	return h, s
}

// place publishes the registration of an identity.
func (h *hostile) place(i *identity.Identity, at string) {
	h.t.Helper()
	h.control.say("%s", message(wire.RegistrationSubject(i.Name().Token()), placedAt(h.t, i, at, time.Now())))
}

// The registrations of a speaker or listener, as seen from the queue manager that holds the other end of a channel to it.
const (
	isBehind    = "BEHIND"    // the channel
	isHere      = "HERE"      // at this queue manager
	isElsewhere = "ELSEWHERE" // behind another channel
	isNowhere   = "NOWHERE"   // at no queue manager that is known
)

var everyPlace = []string{isBehind, isHere, isElsewhere, isNowhere}

// A matrixRow is a subject, of a listener and a speaker by their places.
type matrixRow struct {
	subject func(to, from string) string
	hears   func(to string) bool
	says    func(from string) bool
}

func only(place string) bool { return place == isBehind }
func always(string) bool     { return true }
func never(string) bool      { return false }

// matrix returns all subjects.
func matrix(managers map[string]string) []matrixRow {
	id := "01900000-0000-7000-8000-000000000000"
	rows := []matrixRow{
		{func(to, from string) string { return "ferry.reply." + to + "." + from }, only, only},
		{func(to, from string) string { return "ferry.data." + to + "." + from + "." + id }, only, only},
		{func(to, from string) string { return "ferry.ask." + to + "." + from }, only, only},
		{func(to, from string) string { return "ferry.inbox." + to + "." + from + "." + qmgrtest.Secret + ".1" }, only, only},
		{func(to, from string) string { return "ferry.inbox." + to + "." + from + ".INSTANCE" }, only, only},
		{func(to, from string) string {
			return "ferry.inbox." + to + ".qmgr." + qmgrtest.Secret + "." + numberOf(from)
		}, never, never},
		{func(to, from string) string {
			return "ferry.inbox." + to + ".store-" + managers[from] + "." + qmgrtest.Secret + ".1"
		}, only, only},
		{func(to, from string) string { return "ferry.progress." + from + "." + strings.ToLower(to) }, only, only},
		{func(_, from string) string { return "ferry.beat." + from }, always, only},
		{func(_, from string) string { return "ferry.manager." + managers[from] }, always, only},
		{func(to, from string) string { return "ferry.forward." + managers[to] + "." + managers[from] }, only, only},
		{func(to, from string) string { return "ferry.data.store-" + managers[to] + "." + from + "." + id }, only, only},
		{func(to, from string) string { return "ferry.data." + to + "." + from }, only, never},
		{func(string, string) string { return "ferry.trust" }, always, always},
		{func(string, string) string { return "ferry.claims" }, always, always},
	}
	for _, f := range []string{"ferry.command.%s.%s", "ferry.control.%s.%s", "ferry.event.%s%s", "ferry.owner.%s%s", "ferry.store.%s.%s.x.1", "ferry.queue.Q.%s.%s", "ferry.queued.Q.%s.x.%s", "ferry.hold.Q.%s.%s",
		"ferry.ask.qmgr.%[2]s", "ferry.ask.up.%[2]s", "ferry.inbox.up.%[2]s.x.1", "ferry.log.xml.%s.%s", "ferry.status.xml.%s.%s", "ferry.member.%s%s", "ferry.reply.%s.%s.x", "ferry.beat.%s.%s", "ferry.refused.%s.%s",
		"$JS.API.STREAM.PURGE.%s%s", "$JS.ACK.FERRY_COMMAND.command-%s.%s.1.2.3.4.5", "$SYS.%s.%s", "_INBOX.%s.%s", "_R_.%s.%s", "_GR_.%s.%s", "other.%s.%s"} {
		rows = append(rows, matrixRow{func(to, from string) string { return fmt.Sprintf(f, to, from) }, never, never})
	}
	return rows
}

// kindOf returns 1 for a subject of the account for data: a leafnode that names a subject of another account is cut
// off.
func kindOf(subject string) int {
	if strings.HasPrefix(subject, "ferry.data.") {
		return 1
	}
	return 0
}

func numberOf(place string) string { return strconv.Itoa(slices.Index(everyPlace, place)) }

// The test has each subject, direction, and registration of a speaker and of a listener. The queue manager at the other end of a channel
// hears messages for the identities behind it, and publishes messages of them. Either end may have dialled.
func TestWhatAChannelPasses(t *testing.T) {
	for _, dials := range []string{"the other side dials", "this side dials"} {
		t.Run(dials, func(t *testing.T) {
			a := authoritytest.New(t)
			managers := map[string]string{isBehind: "TWO", isHere: "ONE", isElsewhere: "THREE", isNowhere: "FOUR"}
			ids := map[string]*identity.Identity{}
			for _, m := range []string{"TWO", "THREE"} {
				ids[m] = authoritytest.Identity(t, a, identity.Manager, m, roles.Manager)
			}
			var s *Server
			var two *hostile
			if dials == "this side dials" {
				two, s = under(t, a, ids["TWO"], "ONE")
			} else {
				s = linked(t, a, "ONE")
				two = into(t, s, ids["TWO"])
			}
			three := into(t, s, ids["THREE"])
			three.place(authoritytest.Identity(t, a, identity.Agent, isElsewhere, roles.Agent), "THREE")
			three.place(authoritytest.Identity(t, a, identity.User, "elsewhere", roles.User), "THREE")
			two.place(authoritytest.Identity(t, a, identity.Agent, isBehind, roles.Agent), "TWO")
			two.place(authoritytest.Identity(t, a, identity.User, "behind", roles.User), "TWO")
			here := as(t, a, s, isHere)
			connect(t, qmgr.ConnConfig{URL: s.URL(), Asks: true, Identity: authoritytest.Identity(t, a, identity.User, "here", roles.User)})
			all := trusted(t, s) // publishes as any identity, and hears all messages
			rows := matrix(managers)

			t.Run("hears", func(t *testing.T) {
				var wants [2]strings.Builder // for control and data
				for _, r := range rows {
					for _, to := range everyPlace {
						for _, from := range everyPlace {
							subject := r.subject(to, from)
							fmt.Fprintf(&wants[kindOf(subject)], "LS+ %s\r\n", subject)
						}
					}
				}
				const data = "ferry.data.BEHIND.LAST.x"
				two.control.say("%sLS+ ferry.reply.BEHIND.LAST\r\n", wants[0].String())
				two.data.say("%sLS+ %s\r\n", wants[1].String(), data)
				for _, r := range rows {
					for _, to := range everyPlace {
						for _, from := range everyPlace {
							subject := r.subject(to, from)
							if strings.HasPrefix(subject, "ferry.data.") {
								must(t, all.PublishData(subject, []byte("x")))
							} else if !strings.HasPrefix(subject, "$") && !strings.HasPrefix(subject, "_GR_") {
								must(t, all.Publish(subject, []byte("x")))
							}
						}
					}
				}
				must(t, all.Publish("ferry.reply.BEHIND.LAST", []byte("x")))
				must(t, all.PublishData(data, []byte("x")))
				heard := two.control.heard("ferry.reply.BEHIND.LAST")
				maps.Copy(heard, two.data.heard(data))
				for _, r := range rows {
					for _, to := range everyPlace {
						for _, from := range everyPlace {
							if subject := r.subject(to, from); heard[subject] != r.hears(to) {
								t.Errorf("%s is heard: %t", subject, heard[subject])
							}
						}
					}
				}
			})

			t.Run("wildcards", func(t *testing.T) {
				for _, w := range []string{">", "*.>", "ferry.>", "ferry.*.>", "ferry.*.*", "ferry.*.*.*", "ferry.reply.>", "ferry.reply.*.*", "ferry.reply.*.HERE", "ferry.data.>", "ferry.data.*.HERE.>", "ferry.data.*.*.*", "ferry.inbox.>", "ferry.inbox.*.>",
					"ferry.inbox.qmgr.>", "ferry.inbox.qmgr.*.*.*", "ferry.ask.>", "ferry.ask.*.*", "ferry.progress.>", "ferry.progress.*.*", "ferry.forward.>", "ferry.forward.*.*", "ferry.beat.>", "ferry.command.>", "$JS.>", "$SYS.>"} {
					two.control.say("LS+ %s\r\nLS+ %s GROUP 1\r\n", w, w)
					two.data.say("LS+ %s\r\nLS+ %s GROUP 1\r\n", w, w)
				}
				must(t, here.Publish("ferry.reply.ELSEWHERE.HERE", []byte("x")))
				must(t, here.PublishData("ferry.data.ELSEWHERE.HERE.x", []byte("x")))
				must(t, all.Publish("ferry.inbox.qmgr.qmgr."+qmgrtest.Secret+".1", []byte("x")))
				must(t, all.Publish("ferry.ask.HERE.here", []byte("x")))
				must(t, all.Publish("ferry.progress.HERE.here", []byte("x")))
				must(t, here.Healthy(qmgrtest.Context(t)))
				must(t, all.Publish("ferry.reply.BEHIND.LAST", []byte("x")))
				must(t, all.PublishData("ferry.data.BEHIND.LAST.x", []byte("x")))
				heard := two.control.heard("ferry.reply.BEHIND.LAST")
				maps.Copy(heard, two.data.heard("ferry.data.BEHIND.LAST.x"))
				maps.DeleteFunc(heard, func(subject string, _ bool) bool {
					// ONE forwards to TWO the commands for BEHIND that were published before, when it has looked at
					// them.
					return subject == "ferry.forward.TWO.ONE" || strings.HasPrefix(subject, "ferry.manager.") || strings.HasPrefix(subject, "ferry.place.") || strings.HasPrefix(subject, "ferry.beat.")
				})
				if len(heard) > 0 {
					t.Errorf("heard is %v", slices.Sorted(maps.Keys(heard)))
				}
			})

			t.Run("says", func(t *testing.T) {
				heard := make(chan string, 10000)
				take := func(m link.Message) {
					if string(m.Data) == "MALLORY" {
						heard <- m.Subject
					}
				}
				for _, subject := range []string{">"} {
					_, err := all.Subscribe(subject, take)
					must(t, err)
				}
				_, err := all.SubscribeData("ferry.data.>", take)
				must(t, err)
				must(t, all.Healthy(qmgrtest.Context(t)))
				var said [2]strings.Builder
				for _, r := range rows {
					for _, to := range everyPlace {
						for _, from := range everyPlace {
							subject := r.subject(to, from)
							said[kindOf(subject)].WriteString(message(subject, []byte("MALLORY")))
						}
					}
				}
				two.control.say("%s", said[0].String()+message("ferry.reply.LAST.BEHIND", []byte("MALLORY")))
				two.data.say("%s", said[1].String()+message("ferry.data.LAST.BEHIND.x", []byte("MALLORY")))
				got := map[string]bool{}
				for left := 2; left > 0; {
					subject := qmgrtest.Receive(t, "the last message", heard)
					if subject == "ferry.reply.LAST.BEHIND" || subject == "ferry.data.LAST.BEHIND.x" {
						left--
					} else {
						got[subject] = true
					}
				}
				for _, r := range rows {
					for _, to := range everyPlace {
						for _, from := range everyPlace {
							if subject := r.subject(to, from); got[subject] != r.says(from) {
								t.Errorf("%s passes: %t", subject, got[subject])
							}
						}
					}
				}
			})
		})
	}
}
