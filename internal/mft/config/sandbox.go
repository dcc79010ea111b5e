package config

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"

	mftxml "ferry/internal/mft/xml"
	"ferry/internal/security/policy"
	"ferry/internal/transfer"
)

// sandboxRules makes the rules of one sandbox, number n of its file, and returns the directories that contain its
// files. The second of its rules is the last one for the users of the sandbox, as in MQ MFT. A note that is Missed has
// the reason why the rules cannot be made.
func sandboxRules(s *mftxml.Sandbox, n int, home string) (rules []policy.Rule, dirs []string, notes []Note) {
	what := fmt.Sprintf("sandbox user=%q", s.User)
	who, err := users(s)
	if err != nil {
		return nil, nil, []Note{{Line: s.Line, What: what, Outcome: Missed, Text: err.Error()}}
	}

	of := func(area mftxml.Area) (include, except []string) {
		for _, list := range []struct {
			to       *[]string
			patterns []mftxml.AreaPattern
			name     string
		}{{&include, area.Include, "include"}, {&except, area.Exclude, "exclude"}} {
			for _, p := range list.patterns {
				text, err := pattern(p, home)
				if err != nil {
					notes = append(notes, Note{Line: p.Line, What: list.name, Outcome: Missed, Text: err.Error()})
					continue
				}
				*list.to = append(*list.to, text)
				if list.name == "include" && !ofQueue(p) {
					dirs = append(dirs, above(text))
				}
			}
		}
		return include, except
	}
	read, notRead := of(s.Read)
	write, notWrite := of(s.Write)

	name := fmt.Sprintf("sandbox %d ", n)
	if len(read) > 0 {
		rules = append(rules, policy.Rule{Name: name + "reads", Who: []string{who}, May: []transfer.Authority{transfer.AuthSource, transfer.AuthDeleteSource}, Read: read, Except: notRead})
	}
	last := policy.Rule{Name: name + "writes", Who: []string{who}, Last: true}
	if len(write) > 0 {
		last.May, last.Write, last.Except = []transfer.Authority{transfer.AuthDest, transfer.AuthOverwrite}, write, notWrite
	}
	notes = append(notes, Note{Line: s.Line, What: what, Outcome: Taken, Text: who + " reads " + counted(read) + " and writes " + counted(write)})
	return append(rules, last), dirs, notes
}

func counted(patterns []string) string {
	switch len(patterns) {
	case 0:
		return "nothing"
	case 1:
		return "the matches of 1 pattern"
	}
	return fmt.Sprintf("the matches of %d patterns", len(patterns))
}

// users returns the users of a sandbox in the form of a rule. In Ferry, names of users are in lower case.
func users(s *mftxml.Sandbox) (string, error) {
	switch {
	case s.Regex:
		text, err := expression(s.User)
		return "users:" + text, err
	case strings.ContainsAny(s.User, "*?"):
		text := regexp.QuoteMeta(strings.ToLower(s.User))
		return "users:" + strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(text), nil
	}
	return "user:" + strings.ToLower(s.User), nil
}

// expression returns a regular expression of Java that has the same meaning in Go, as most have. It refuses others. It
// also refuses capitals, which would never match a name here, except in a range beside the lower-case letters.
func expression(text string) (string, error) {
	no := func(what, why string) (string, error) {
		return "", transfer.Errorf(transfer.KindUsage, "the expression %.100q has %s, %s", text, what, why).WithHint("write it in another way")
	}
	if name, found := capital(text); found {
		return no("the capital "+name, "and names of users are in small letters")
	}
	class, quantified := false, false
	for n := 0; n < len(text); n++ {
		c, after := text[n], text[n+1:]
		quantifier := false
		switch {
		case c == '\\':
			if after == "" || !strings.Contains(`dDwWsS`, after[:1]) && (after[0] > unicode.MaxASCII || unicode.IsLetter(rune(after[0])) || unicode.IsDigit(rune(after[0]))) {
				return no(fmt.Sprintf("%.2q", text[n:]), "which is of Java alone")
			}
			n++
		case class && c == '[', class && c == '&' && strings.HasPrefix(after, "&"):
			return no("a class within a class", "which is of Java alone")
		case class:
			class = c != ']'
		case c == '[':
			class = true
			if strings.HasPrefix(strings.TrimPrefix(after, "^"), "]") {
				return no("a class that begins with ]", "which Java reads in another way")
			}
		case c == '(' && strings.HasPrefix(after, "?") && !strings.HasPrefix(after, "?:"):
			return no(fmt.Sprintf("%.3q", text[n:]), "which is not taken")
		case c == '{':
			digits := counts.FindString(text[n:])
			if digits == "" {
				return no("a { that counts nothing", "which Java does not take")
			}
			n += len(digits) - 1
			quantifier = true
		case quantified && c == '+':
			return no("a quantifier with + behind it", "which is of Java alone")
		case c == '*' || c == '+' || c == '?':
			quantifier = !quantified // the second one changes the greediness of the first one
		}
		quantified = quantifier
	}
	return text, nil
}

var counts = regexp.MustCompile(`^\{\d+(,\d*)?\}`)

// capital finds a literal capital letter in an expression.
func capital(text string) (string, bool) {
	text = strings.NewReplacer("A-Za-z", "", "a-zA-Z", "", "A-Z0-9a-z", "", "a-z0-9A-Z", "").Replace(text)
	escaped := false
	for _, c := range text {
		if unicode.IsUpper(c) && !escaped {
			return string(c), true
		}
		escaped = c == '\\' && !escaped
	}
	return "", false
}

func ofQueue(p mftxml.AreaPattern) bool { return strings.EqualFold(p.Type, "queue") }

// queuePattern returns a pattern for queues, QUEUE or QUEUE@QMGR. In Ferry, names of queues are in capitals.
func queuePattern(text string) (string, error) {
	name, manager, _ := strings.Cut(text, "@")
	if strings.Trim(manager, "*") != "" && strings.ContainsAny(manager, "*?") {
		return "", transfer.Errorf(transfer.KindUsage, "%.100q is of the queues of some queue managers; an agent has those of its own", text).WithHint("write it without @")
	}
	name = strings.ToUpper(strings.ReplaceAll(name, "**", "*"))
	if name == "" || strings.ContainsAny(name, "/\\") {
		return "", transfer.Errorf(transfer.KindUsage, "%.100q is no pattern for queues that Ferry can have", text)
	}
	return "/queue:" + name, nil
}

// pattern returns a pattern of a sandbox in the form of a rule.
func pattern(p mftxml.AreaPattern, home string) (string, error) {
	if ofQueue(p) {
		text, err := queuePattern(p.Name)
		if err == nil {
			_, err = policy.ParsePattern(text)
		}
		return text, err
	}
	if !strings.EqualFold(p.Type, "file") {
		return "", transfer.Errorf(transfer.KindUsage, "%.100q is of the type %.40q; rules are about files and queues", p.Name, p.Type)
	}
	text, err := slashed(p.Name)
	switch {
	case err != nil:
		return "", err
	case strings.HasPrefix(text, "**"):
		return "", transfer.Errorf(transfer.KindUsage, "%.100q does not say where it begins", p.Name).WithHint("write /" + text)
	case !absolute(text) && (windows(text) || home == ""):
		return "", transfer.Errorf(transfer.KindUsage, "%.100q is relative to the home directory of the agent's user", p.Name).WithHint("write it as absolute")
	case !absolute(text):
		text = strings.TrimSuffix(home, "/") + "/" + text
	}
	if windows(text) {
		text = strings.ToUpper(text[:1]) + text[1:]
	}
	if _, err := policy.ParsePattern(text); err != nil {
		return "", err
	}
	return text, nil
}

// above returns the directory that contains all matches of a pattern.
func above(pattern string) string {
	levels := strings.Split(pattern, "/")
	end := len(levels) - 1 // the last level is a file, or the files beneath
	for n, level := range levels[:end] {
		if strings.ContainsAny(level, "*?") {
			end = n
			break
		}
	}
	dir := strings.Join(levels[:end], "/")
	if dir == "" || windows(dir) && len(dir) == 2 {
		dir += "/"
	}
	return dir
}
