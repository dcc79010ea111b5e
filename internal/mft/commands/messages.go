package commands

import "fmt"

// A Message is a line of a command's output, with its own identifier. I marks success, W an option without effect, E a
// failure.
type Message string

// The messages.
const (
	Issued      Message = "FERRY0001I: The transfer request is issued. The request ID is: %s"
	Waiting     Message = "FERRY0002I: The request waits in the queue of agent %s, which has not confirmed it yet."
	Taken       Message = "FERRY0003I: Agent %s has the request, and carries it out."
	Written     Message = "FERRY0004I: The request is written to %s."
	Ended       Message = "FERRY0005I: The transfer %s has ended as %s. Files: %d, bytes: %d."
	EndedBad    Message = "FERRY0006E: The transfer %s has ended as %s. Files: %d, failed: %d. Reason: %s"
	Cancelled   Message = "FERRY0007I: The transfer %s is %s."
	Answered    Message = "FERRY0008I: Agent %s has answered in %.3f seconds. Its state is %s."
	Notice      Message = "FERRY0009W: %s."
	Failed      Message = "FERRY0010E: %s."
	TimedOut    Message = "FERRY0011E: The time of -w is over. The transfer %s goes on."
	Defined     Message = "FERRY0012I: Agent %s needs no queue to be defined. Its queue manager makes these when it is started:"
	Started     Message = "FERRY0013I: Agent %s is started. Its log is %s."
	Stopped     Message = "FERRY0014I: Agent %s is stopped."
	Interrupted Message = "FERRY0016E: Told to stop waiting. The transfer %s goes on."
	Scheduled   Message = "FERRY0017I: Agent %s keeps the schedule %s. Its first transfer is at %s."
	Unscheduled Message = "FERRY0018I: Agent %s has no schedule %s any more."
	Monitored   Message = "FERRY0019I: The monitor %s is %s at agent %s."
	Kept        Message = "FERRY0020I: The template %s is kept by agent %s."
	Unkept      Message = "FERRY0021I: The template %s is removed from agent %s."
	Needless    Message = "FERRY0023I: %s has nothing to do here: %s."
	Runs        Message = "FERRY0024I: Agent %s runs already."
	Credentials Message = "FERRY0025I: Identities of the network take the place of a credentials file."
	CallEnded   Message = "FERRY0026I: The call %s has ended as %s. The exit code of its program is %d."
	CallFailed  Message = "FERRY0027E: The call %s has ended as %s. Reason: %s"
	None        Message = "FERRY0022W: Nothing is called %s."
	Pinging     Message = "FERRY0015I: Asking agent %s whether it is there."
)

// With returns the line of a message.
func (m Message) With(args ...any) string { return fmt.Sprintf(string(m), args...) + "\n" }
