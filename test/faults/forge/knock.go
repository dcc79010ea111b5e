package forge

import (
	"encoding/binary"
	"net"
	"time"
)

// frames are the first bytes that a stranger sends to a direct port: nothing, half of a head, heads that announce more
// bytes than follow, and bytes of other protocols.
var frames = [][]byte{
	nil,
	{0, 0},
	head(1<<20+16<<10, 5), // the largest CHUNK
	head(4<<10, 1),        // the largest HELLO
	head(1<<32-1, 1),
	head(8, 6), // PING
	append(head(2, 1), "{}"...),
	append(head(200, 1), `{"v":1,"from":"ALPHA","to":"BETA","transfer":"01890a5d-ac96-774b-bcce-b302099a8057","token":"00","group":"0"`...),
	[]byte("GET / HTTP/1.0\r\n\r\n"),
	{0x16, 0x03, 0x01, 0x02, 0x00}, // the first bytes of TLS
}

func head(length uint32, kind byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, length), kind)
}

// Knock opens connections to an agent's direct port and sends one of frames on each. They stay open until stop is
// called or the agent closes them.
func Knock(address string, connections int) (stop func()) {
	var open []net.Conn
	for n := range connections {
		c, err := net.DialTimeout("tcp", address, time.Second)
		if err != nil {
			break // for example, the backlog is full, which is the aim
		}
		c.SetWriteDeadline(time.Now().Add(time.Second))
		c.Write(frames[n%len(frames)])
		open = append(open, c)
	}
	return func() {
		for _, c := range open {
			c.Close()
		}
	}
}
