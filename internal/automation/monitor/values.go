package monitor

import (
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"ferry/internal/place"
	"ferry/internal/transfer"
)

// A file is a file that triggers, or messages of a queue that trigger.
type file struct {
	place.Found
	version transfer.Version   // of a file
	queue   transfer.QueueName // of messages; empty: it is a file
	group   string             // of messages; empty: they have none
	bytes   int64              // of messages
	picked  transfer.Path      // of messages: the path that selects them
	after   uint64             // of messages of no group: the number before them
	tries   int                // of messages: number of their failed transfers
	waits   bool               // of messages: the last transfer has failed, and the next one comes later
}

// isFile reports whether f is a file of a directory.
func (f *file) isFile() bool { return f != nil && f.queue == "" }

// source returns the location of the file or the messages.
func (f *file) source() transfer.Location {
	if f.queue != "" {
		return transfer.Location{Place: transfer.Queues, Path: f.Path}
	}
	return transfer.File(f.Path)
}

// A triggerVariables has the values of the variables of one trigger.
type triggerVariables struct {
	agent    transfer.AgentName
	monitor  string
	transfer transfer.ID
	now      time.Time // the trigger's, to the millisecond
	files    []file    // none of the condition nomatch
	at       int       // index in files for a variable without a number
	defaults map[string]string
}

// The forms of dates, as in {format=…}.
const (
	dateForm  = "yyyy-MM-dd"
	timeForm  = "HH.mm.ss"
	stampForm = "yyyyMMddHHmmssSSS"
)

// Variables has the names of all variables, for display.
const Variables = "FilePath, FileName, FileSize, SubPath, LastModifiedDate, LastModifiedTime, LastModifiedDateUTC, LastModifiedTimeUTC, CurrentTimeStamp, CurrentTimeStampUTC, AgentName, MonitorName, TransferId, BatchSize; of a queue also QueueName and GroupId"

// bytes returns the value of a variable for a path, unchanged.
func (s *triggerVariables) bytes(name string, forms []string) (string, error) {
	f, forms, err := s.numbered(name, forms)
	if err != nil {
		return "", err
	}
	low := strings.ToLower(name)
	if f != nil && f.queue != "" {
		if value, ok := f.ofQueue(low); ok {
			return reform(value, forms)
		}
	}
	if of, form, ok := s.timeOf(low, f); ok {
		return dated(of, form, forms)
	}
	value := ""
	switch low {
	case "agentname":
		value = string(s.agent)
	case "monitorname":
		value = s.monitor
	case "transferid":
		value = s.transfer.String()
	case "batchsize":
		value = strconv.Itoa(len(s.files))
	case "filepath", "filename", "filesize", "subpath":
		if f == nil {
			return "", transfer.Errorf(transfer.KindUsage, "variable %s speaks of a file, and the condition nomatch has none", name)
		}
		value = map[string]string{"filepath": string(f.Path), "filename": path.Base(string(f.Path)), "filesize": strconv.FormatInt(f.Size, 10), "subpath": string(f.Rel)}[low]
	default:
		for k, v := range s.defaults {
			if strings.EqualFold(k, name) {
				return reform(v, forms)
			}
		}
		return "", transfer.Errorf(transfer.KindUsage, "there is no variable %.40s; a monitor has %s", name, Variables)
	}
	return reform(value, forms)
}

// path is bytes for a location. Only the values of FilePath, SubPath and times may contain separators. The separators
// of a time are part of the definition.
func (s *triggerVariables) path(name string, forms []string) (string, error) {
	value, err := s.bytes(name, forms)
	low := strings.ToLower(name)
	if _, _, time := s.timeOf(low, &file{}); err == nil && strings.Contains(value, "/") && low != "filepath" && low != "subpath" && !time {
		return "", transfer.Errorf(transfer.KindUsage, "the value %s of %s has a '/', which only FilePath and SubPath may bring into a path", transfer.Path(value), name)
	}
	return value, err
}

// ofQueue returns the value of a variable for messages.
func (f *file) ofQueue(low string) (value string, ok bool) {
	switch low {
	case "queuename", "filename":
		return string(f.queue), true
	case "groupid":
		return f.group, f.group != ""
	case "filesize":
		return strconv.FormatInt(f.bytes, 10), true
	}
	return "", false
}

// text is bytes for values that must be UTF-8, such as a job. Other values are escaped, as in logs.
func (s *triggerVariables) text(name string, forms []string) (string, error) {
	v, err := s.bytes(name, forms)
	if err == nil && !utf8.ValidString(v) {
		v = transfer.Path(v).String()
	}
	return v, err
}

// numbered removes the form {file=N}, which selects a file of a batch: counted from 1, or from the end if it is
// negative.
func (s *triggerVariables) numbered(name string, forms []string) (f *file, rest []string, err error) {
	at := s.at
	for _, form := range forms {
		text, ok := strings.CutPrefix(form, "file=")
		if !ok {
			rest = append(rest, form)
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil || n == 0 {
			return nil, nil, transfer.Errorf(transfer.KindUsage, "${%s{%.40s}}: a file of a batch is {file=1} or, from the end, {file=-1}", name, form)
		}
		if at = n - 1; n < 0 {
			at = len(s.files) + n
		}
		if at < 0 || at >= len(s.files) {
			return nil, nil, transfer.Errorf(transfer.KindUsage, "${%s{%s}}: the trigger has %d files", name, form, len(s.files))
		}
	}
	if at < len(s.files) {
		f = &s.files[at]
	}
	return f, rest, nil
}

// timeOf returns the time of a variable, and its default form.
func (s *triggerVariables) timeOf(low string, f *file) (at time.Time, form string, ok bool) {
	base, utc := strings.CutSuffix(low, "utc")
	switch {
	case base == "currenttimestamp":
		at, form = s.now, stampForm
	case base == "lastmodifieddate" && f.isFile():
		at, form = time.Unix(0, f.Mtime), dateForm
	case base == "lastmodifiedtime" && f.isFile():
		at, form = time.Unix(0, f.Mtime), timeForm
	default:
		return at, "", false
	}
	if utc {
		return at.UTC(), form, true
	}
	return at.Local(), form, true
}

// dated returns a time as text, in the form {format=…} if it is given.
func dated(at time.Time, form string, forms []string) (string, error) {
	var rest []string
	for _, f := range forms {
		if text, ok := strings.CutPrefix(f, "format="); ok {
			form = text
		} else {
			rest = append(rest, f)
		}
	}
	if len(form) > 100 {
		return "", transfer.Errorf(transfer.KindUsage, "the form of a date has more than 100 characters")
	}
	text := strings.NewReplacer("yyyy", fmt.Sprintf("%04d", at.Year()), "yy", fmt.Sprintf("%02d", at.Year()%100), "MM", fmt.Sprintf("%02d", at.Month()),
		"dd", fmt.Sprintf("%02d", at.Day()), "DDD", fmt.Sprintf("%03d", at.YearDay()), "HH", fmt.Sprintf("%02d", at.Hour()),
		"mm", fmt.Sprintf("%02d", at.Minute()), "ss", fmt.Sprintf("%02d", at.Second()), "SSS", fmt.Sprintf("%03d", at.Nanosecond()/1e6)).Replace(form)
	return reform(text, rest)
}

// reform applies the forms after a variable to its value, from left to right. A separator belongs to the token at any
// position.
func reform(value string, forms []string) (string, error) {
	separator := "/"
	for _, form := range forms {
		if s, ok := strings.CutPrefix(form, "separator="); ok {
			if separator = s; s == "" {
				return "", transfer.Errorf(transfer.KindUsage, "the separator of a token is empty")
			}
		}
	}
	for _, form := range forms {
		name, arg, _ := strings.Cut(form, "=")
		switch {
		case strings.EqualFold(form, "toUpper"):
			value = upper(value)
		case strings.EqualFold(form, "toLower"):
			value = lower(value)
		case name == "separator":
		case name == "token":
			n, err := strconv.Atoi(arg)
			tokens := tokensOf(value, separator)
			if n < 0 {
				n += len(tokens) + 1
			}
			if err != nil || n < 1 || n > len(tokens) {
				return "", transfer.Errorf(transfer.KindUsage, "%s has no token %.20s between %q; it has %d", transfer.Path(value), arg, separator, len(tokens))
			}
			value = tokens[n-1]
		default:
			return "", transfer.Errorf(transfer.KindUsage, "a variable has no form {%.40s}; the forms are {toUpper}, {toLower}, {token=N}, {separator=S}, {format=F} of a time, and {file=N} of a batch", form)
		}
	}
	return value, nil
}

// tokensOf returns the parts between separators that are not empty.
func tokensOf(value, separator string) (all []string) {
	for t := range strings.SplitSeq(value, separator) {
		if t != "" {
			all = append(all, t)
		}
	}
	return all
}

// upper and lower do not change bytes that are not UTF-8.
func upper(s string) string { return folded(s, strings.ToUpper) }
func lower(s string) string { return folded(s, strings.ToLower) }

func folded(s string, fold func(string) string) string {
	if utf8.ValidString(s) {
		return fold(s)
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && n == 1 {
			b.WriteString(s[:1])
		} else {
			b.WriteString(fold(s[:n]))
		}
		s = s[n:]
	}
	return b.String()
}
