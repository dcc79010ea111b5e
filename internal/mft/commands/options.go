package commands

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"ferry/internal/content/record"
	"ferry/internal/transfer"
)

// A kind is the kind of an option's value.
type kind int

const (
	flag   kind = iota
	value       // the next argument
	number      // the next argument, if it is a number
	truth       // the next argument, if it is yes or no
	define      // NAME=VALUE, in the same argument or in the next one; it may be repeated
)

// An Option is an option of a command.
type Option struct {
	Name string
	kind kind
	many bool // it may be repeated, and a comma separates its values
	idle bool // it has no effect in Ferry; Notices reports it
	late bool // not built yet
}

// A Command is a command of MQ MFT.
type Command struct {
	Name    string
	Options []Option
	least   int    // arguments
	most    int    // -1: any number
	args    string // description of the arguments

	// Needless is the reason why Ferry needs nothing of the command, as a sentence. Then it takes any arguments.
	Needless string

	// Missing is the reason why Ferry does not have the command, as a sentence. It fails with any arguments.
	Missing string
}

func flags(names ...string) (all []Option) {
	for _, n := range names {
		all = append(all, Option{Name: n})
	}
	return all
}

func values(names ...string) (all []Option) {
	for _, n := range names {
		all = append(all, Option{Name: n, kind: value})
	}
	return all
}

// idle returns options with a value and without effect.
func idle(names ...string) (all []Option) {
	for _, n := range names {
		all = append(all, Option{Name: n, kind: value, idle: true})
	}
	return all
}

// late returns options that are not built yet.
func late(k kind, names ...string) (all []Option) {
	for _, n := range names {
		all = append(all, Option{Name: n, kind: k, late: true})
	}
	return all
}

func join(lists ...[]Option) (all []Option) {
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

// common returns the options that every command has.
func common() []Option {
	return join(idle("p", "mquserid", "mqpassword", "trace", "tracePath", "credentialsFile"), []Option{{Name: "nolpw", idle: true}}, flags("h", "v"))
}

// Commands returns all commands.
func Commands() []Command {
	waits := []Option{{Name: "w", kind: number}}
	sends := join(values("sa", "sm", "da", "dm", "td", "ss", "tb", "oi", "of", "oc", "es", "tr", "jn", "cs", "pr", "sce", "dce", "dle", "qmp", "presrc", "predst", "postsrc", "postdst",
		"df", "dd", "ds", "dp", "dq", "du", "qs", "dqdb", "dqdt", "dqdp", "dfa", "de", "t", "dqp", "sd", "sqwt", "sqdb", "sqdt", "sqdp", "rt"),
		[]Option{{Name: "md", kind: value, many: true}, {Name: "tl", kind: truth}}, flags("dtr", "qi", "r", "sq", "sqgi", "skeep"), late(value, "srdb", "srdp"))
	ofMonitor := join(common(), values("ma", "mn"), idle("mm"))
	return slices.Concat(needless(), missing(), []Command{
		{Name: "fteCreateTransfer", most: -1, args: "source", Options: join(common(), waits, values("gt"), sends)},
		{Name: "fteCancelTransfer", least: 1, most: 1, args: "transfer ID", Options: join(common(), idle("m"), values("a"))},
		{Name: "fteListAgents", most: 1, args: "pattern", Options: common()},
		{Name: "fteShowAgentDetails", least: 1, most: 1, args: "agent", Options: join(common(), flags("d"))},
		{Name: "ftePingAgent", least: 1, most: 1, args: "agent", Options: join(common(), waits, idle("m"))},
		{Name: "fteDisplayVersion", Options: common()},
		{Name: "fteCreateAgent", Options: join(common(), values("agentName", "agentQMgr"), idle("agentQMgrHost", "agentQMgrPort", "agentQMgrChannel", "agentDesc"), flags("f", "ac"))},
		{Name: "fteStartAgent", least: 1, most: 1, args: "agent", Options: join(common(), flags("F"))},
		{Name: "fteStopAgent", least: 1, most: 1, args: "agent", Options: join(common(), flags("i"), idle("m"))},
		{Name: "fteCreateMonitor", Options: join(ofMonitor, values("md", "mq", "pi", "pu", "tr", "x", "pt", "rl", "bs", "tcr", "tcc", "mt", "jn", "dv", "ix", "ox"), idle("mmd"), flags("tc", "f", "c"))},
		{Name: "fteListMonitors", Options: join(ofMonitor, values("ox", "od"))},
		{Name: "fteDeleteMonitor", Options: ofMonitor},
		{Name: "fteStartMonitor", Options: join(ofMonitor, waits)},
		{Name: "fteStopMonitor", Options: join(ofMonitor, waits)},
		{Name: "fteClearMonitorHistory", Options: join(ofMonitor, waits)},
		{Name: "fteCreateTemplate", most: -1, args: "source", Options: join(common(), values("tn"), sends)},
		{Name: "fteListTemplates", most: -1, args: "template", Options: join(common(), values("o"), flags("x", "f"))},
		{Name: "fteDeleteTemplates", least: 1, most: -1, args: "template", Options: common()},
		{Name: "fteListScheduledTransfers", most: 1, args: "pattern", Options: common()},
		{Name: "fteDeleteScheduledTransfer", least: 1, most: 1, args: "schedule", Options: join(common(), values("agentName"), idle("m"))},
		{Name: "fteAnt", most: -1, args: "target", Options: join(common(), values("f", "file", "buildfile", "propertyfile"), []Option{{Name: "D", kind: define, many: true}},
			flags("d", "debug", "verbose", "q", "quiet", "k", "keep-going", "version"))},
	})
}

// Find returns the command with the name of a program, in any directory.
func Find(program string) (*Command, bool) {
	name := strings.TrimSuffix(filepath.Base(program), ".exe")
	for _, c := range Commands() {
		if c.Name == name {
			return &c, true
		}
	}
	return nil, false
}

// A Call is a parsed command line.
type Call struct {
	*Command
	values  map[string]string
	Args    []string
	Defined map[string]string // of -D
}

// Read parses the arguments of a command. Its errors are of KindUsage.
func (c *Command) Read(args []string) (*Call, error) {
	call := &Call{Command: c, values: map[string]string{}, Defined: map[string]string{}}
	if c.Needless != "" || c.Missing != "" {
		if slices.Contains(args, "-h") {
			call.values["h"] = ""
		}
		return call, nil
	}
	args = slices.Clone(args)
	for n := 0; n < len(args); n++ {
		a := args[n]
		if len(a) < 2 || a[0] != '-' {
			call.Args = append(call.Args, a)
			continue
		}
		if a == "-?" {
			a = "-h"
		}
		o := c.option(a[1:])
		if d := c.option("D"); o == nil && d != nil && strings.HasPrefix(a, "-D") {
			args[n], o = a[2:], d
			n--
		}
		switch {
		case o == nil:
			return nil, call.usage("the option %s is unknown", a)
		case call.Has(o.Name) && !o.many:
			return nil, call.usage("the option %s stands twice", a)
		}
		before, again := call.values[o.Name]
		call.values[o.Name] = ""
		switch o.kind {
		case value, define:
			if n++; n == len(args) {
				return nil, call.usage("the option %s has no value", a)
			}
			if o.kind == define {
				name, text, is := strings.Cut(args[n], "=")
				if !is || name == "" {
					return nil, call.usage("-D %.100q is malformed; write it as -D NAME=VALUE", args[n])
				}
				call.Defined[name] = text
				continue
			}
			call.values[o.Name] = args[n]
			if again {
				call.values[o.Name] = before + "," + args[n]
			}
		case number, truth:
			if n+1 < len(args) && o.takes(args[n+1]) {
				n++
				call.values[o.Name] = args[n]
			}
		}
	}
	if call.Has("h") {
		return call, nil
	}
	if len(call.Args) < c.least {
		return nil, call.usage("no %s is given", c.args)
	}
	if c.most >= 0 && len(call.Args) > c.most {
		return nil, call.usage("%q is one argument too many", call.Args[c.most])
	}
	return call, nil
}

// takes reports whether an option with an optional value takes the next argument as its value.
func (o *Option) takes(next string) bool {
	if o.kind == truth {
		return strings.EqualFold(next, "yes") || strings.EqualFold(next, "no")
	}
	return isNumber(next)
}

func isNumber(s string) bool {
	_, err := strconv.Atoi(s)
	return err == nil
}

func (c *Command) option(name string) *Option {
	for n := range c.Options {
		if c.Options[n].Name == name {
			return &c.Options[n]
		}
	}
	return nil
}

func (c *Call) usage(format string, args ...any) *transfer.Error {
	return transfer.Errorf(transfer.KindUsage, c.Name+": "+format, args...).WithHint(c.Name + " -h lists its options")
}

// Has reports whether an option is given.
func (c *Call) Has(option string) bool {
	_, ok := c.values[option]
	return ok
}

// Get returns the value of an option, or the empty text if it is not given.
func (c *Call) Get(option string) string { return c.values[option] }

// Notices returns the parts of the command line without effect, as text for users.
func (c *Call) Notices() (all []string) {
	for _, o := range c.Options {
		if o.idle && c.Has(o.Name) {
			all = append(all, "-"+o.Name+" has no effect: "+why(o.Name))
		}
	}
	for _, o := range []string{"sm", "dm", "agentQMgr"} {
		if c.Has(o) {
			all = append(all, "-"+o+" "+c.Get(o)+" has no effect: "+why("m"))
		}
	}
	for _, o := range []string{"ds", "dp", "dfa"} {
		_, names := record.WithoutAllocation(c.Get(o))
		for _, name := range names {
			all = append(all, name+" of -"+o+" has no effect: a data set lies in an ordinary file")
		}
	}
	return all
}

// why returns the reason why an option has no effect.
func why(option string) string {
	switch option {
	case "p":
		return "the network is that of FERRY_NETWORK or of the settings file"
	case "m", "mm":
		return "agents are found by their names, at any queue manager"
	case "mquserid", "mqpassword", "nolpw":
		return "your identity has your user name"
	case "trace", "tracePath":
		return "the log of an agent shows its steps with --log-level debug"
	case "credentialsFile":
		return "your identity takes the place of passwords"
	case "mmd":
		return "the monitor exit gets the metadata of the task"
	}
	return "an agent says it of itself, in its settings"
}

// Result codes of MQ MFT that only commands have.
const (
	codeFailed         = 1
	CodeMonitorMissing = 104
	codeMonitorThere   = 105
)

// Code returns the exit code of a command that failed with err.
func (c *Command) Code(err error) int {
	kind := transfer.KindOf(err)
	switch ofMonitor := strings.Contains(c.Name, "Monitor"); {
	case ofMonitor && kind == transfer.KindNotFound:
		return CodeMonitorMissing
	case ofMonitor && kind == transfer.KindConflict:
		return codeMonitorThere
	}
	return CodeOf(kind.Code())
}

// CodeOf returns the exit code of a command for a result code of Ferry's: a usage error ends with 1, also one that an
// agent has found.
func CodeOf(code int) int {
	if code == transfer.CodeUsage {
		return codeFailed
	}
	return code
}

// Lacks returns an error of KindNotBuilt for a command or an option that is not built yet, or nil.
func (c *Call) Lacks() error {
	if c.Missing != "" {
		return transfer.Errorf(transfer.KindNotBuilt, "%s is not built: %s", c.Name, c.Missing)
	}
	for _, o := range c.Options {
		if o.late && c.Has(o.Name) {
			return transfer.Errorf(transfer.KindNotBuilt, "-%s of %s is not built yet", o.Name, c.Name).WithHint("leave it out")
		}
	}
	return nil
}

// Wait returns the seconds of -w, or -1 without a number.
func (c *Call) Wait() (seconds int, err error) {
	v := c.Get("w")
	if v == "" {
		return -1, nil
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < -1 || n > 1<<31-1 {
		return 0, c.usage("-w %s is no number of seconds", v)
	}
	return n, nil
}

// Agent parses the agent name of an argument or an option.
func (c *Call) Agent(name string) (transfer.AgentName, error) {
	a, err := transfer.ParseAgentName(name)
	if err != nil {
		return "", c.usage("%v", err)
	}
	return a, nil
}

// Help lists the options of a command.
func (c *Command) Help() string {
	var b strings.Builder
	b.WriteString("usage: " + c.Name)
	for _, o := range c.Options {
		switch o.kind {
		case flag:
			b.WriteString(" [-" + o.Name + "]")
		case value:
			b.WriteString(" [-" + o.Name + " VALUE]")
		case number:
			b.WriteString(" [-" + o.Name + " [SECONDS]]")
		case truth:
			b.WriteString(" [-" + o.Name + " [yes|no]]")
		case define:
			b.WriteString(" [-" + o.Name + " NAME=VALUE]")
		}
	}
	if c.Needless != "" || c.Missing != "" {
		b.WriteString(" [ANYTHING]")
	}
	if c.args != "" {
		b.WriteString(" " + strings.ToUpper(c.args))
	}
	return b.String() + "\n"
}
