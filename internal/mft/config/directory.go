package config

import (
	"errors"
	"io"
	"io/fs"
	"path"
	"strings"

	"ferry/internal/content/textfile"
	mftxml "ferry/internal/mft/xml"
	"ferry/internal/transfer"
)

// Limits of a directory.
const (
	maxFiles = 10_000
	maxDepth = 16
)

// A Config is the content of a configuration directory of MQ MFT.
type Config struct {
	Agents    []Agent
	Documents []Document
	Notes     []Note
}

// A Document is an XML document in the directory, such as an exported monitor or template.
type Document struct {
	File string
	Data []byte
}

// Read reads a configuration directory: the directory of a coordination queue manager, one above it, or the directory
// of an agent. Errors are of KindUsage; the notes have the faults of single files.
func Read(dir fs.FS) (*Config, error) {
	c := &configReader{dir: dir, config: &Config{}, agents: map[transfer.AgentName]string{}}
	err := fs.WalkDir(dir, ".", c.visit)
	return c.config, err
}

type configReader struct {
	dir    fs.FS
	config *Config
	agents map[transfer.AgentName]string // the file of each agent
	count  int
}

func (c *configReader) note(file string, outcome Outcome, text string) {
	c.config.Notes = append(c.config.Notes, Note{File: file, Outcome: outcome, Text: text})
}

func (c *configReader) visit(name string, e fs.DirEntry, err error) error {
	switch {
	case err != nil && name == ".":
		return transfer.Errorf(transfer.KindUsage, "the directory cannot be read: %w", err)
	case err != nil:
		c.note(name, Missed, "it cannot be read: "+short(err))
		return nil
	}
	if c.count++; c.count > maxFiles {
		return transfer.Errorf(transfer.KindUsage, "there are more than %d files, the limit; name the directory of one coordination queue manager", maxFiles)
	}
	if e.IsDir() {
		return c.enter(name, e.Name())
	}
	c.file(name)
	return nil
}

// enter decides whether a directory is read.
func (c *configReader) enter(name, base string) error {
	switch {
	case strings.Count(name, "/") >= maxDepth:
		c.note(name, Missed, "the directory lies too deep, and is not read")
	case base == "exits":
		if empty(c.dir, name) {
			return fs.SkipDir
		}
		c.note(name, Missed, ofExits)
	case base == "logs":
		c.note(name, Needless, "logs are no configuration")
	default:
		return nil
	}
	return fs.SkipDir
}

// empty reports whether a directory has no file, at any depth.
func empty(dir fs.FS, name string) bool {
	found := errors.New("a file")
	return fs.WalkDir(dir, name, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return found
		}
		return nil
	}) == nil
}

// file handles one file, by its name.
func (c *configReader) file(name string) {
	switch base := path.Base(name); {
	case base == "agent.properties":
		c.agent(name)
	case base == "UserSandboxes.xml":
		if _, err := fs.Stat(c.dir, path.Join(path.Dir(name), "agent.properties")); err != nil {
			c.note(name, Missed, "there is no agent.properties beside it")
		}
	case base == "coordination.properties", base == "command.properties":
		c.network(name)
	case base == "logger.properties":
		c.note(name, Missed, "a logger into databases or files is not built; `ferry audit` reads and exports the audit log")
	case base == "MQMFTCredentials.xml":
		c.note(name, Needless, ofIdentities)
	case strings.HasPrefix(base, "ProtocolBridge"), strings.HasPrefix(base, "ConnectDirect"):
		c.note(name, Missed, "bridges are not built")
	case base == "qm.ini":
		c.note(name, Missed, "it configures a queue manager of MQ; for the buffers of its TCP stanza see --tcp-send-buffer and --tcp-receive-buffer, 64K or more")
	case path.Ext(base) == ".mqsc":
		c.note(name, Needless, "Ferry makes its queues itself")
	case path.Ext(base) == ".xml":
		c.document(name)
	default:
		c.note(name, Missed, "it is no file that is known, and is not read")
	}
}

// read reads a file of a limited size. It reports false after it has noted that the file cannot be read.
func (c *configReader) read(name string, most int64) ([]byte, bool) {
	st, err := fs.Stat(c.dir, name) // opening a pipe would block
	if err == nil && !st.Mode().IsRegular() {
		err = errors.New("it is no regular file")
	}
	var data []byte
	if err == nil {
		data, err = head(c.dir, name, most+1)
	}
	if err != nil {
		c.note(name, Missed, "it cannot be read: "+short(err))
	}
	return data, err == nil
}

// head returns the first bytes of a file.
func head(dir fs.FS, name string, most int64) ([]byte, error) {
	f, err := dir.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, most))
}

// short returns an error of the file system without the name, because the note has the name.
func short(err error) string {
	var e *fs.PathError
	if errors.As(err, &e) {
		return e.Err.Error()
	}
	return err.Error()
}

func (c *configReader) agent(name string) {
	files := Files{Properties: name, Sandboxes: path.Join(path.Dir(name), "UserSandboxes.xml")}
	var ok bool
	if files.Data, ok = c.read(name, textfile.Room(MaxProperties)); !ok {
		return
	}
	if _, err := fs.Stat(c.dir, files.Sandboxes); err == nil {
		if files.XML, ok = c.read(files.Sandboxes, mftxml.MaxDocument); !ok {
			c.note(name, Missed, "the agent is not made, for its UserSandboxes.xml cannot be read")
			return
		}
	}
	a, notes, err := ReadAgent(files)
	c.config.Notes = append(c.config.Notes, notes...)
	switch {
	case err != nil:
		c.note(name, Missed, err.Error()+"; the agent is not made")
	case a == nil:
	case c.agents[a.Name] != "":
		c.note(name, Missed, "agent "+string(a.Name)+" is not made of it, for "+c.agents[a.Name]+" is another agent of that name")
	default:
		c.agents[a.Name] = name
		c.config.Agents = append(c.config.Agents, *a)
	}
}

// network reads a file with the addresses of queue managers.
func (c *configReader) network(name string) {
	data, ok := c.read(name, textfile.Room(MaxProperties))
	if !ok {
		return
	}
	all, err := ParseProperties(data)
	if err != nil {
		c.note(name, Missed, err.Error())
		return
	}
	keys := networkKeys()
	for _, p := range all {
		note := Note{name, p.Line, printed(p.Key), Needless, keys[p.Key].why}
		if _, known := keys[p.Key]; !known {
			note.Outcome, note.Text = Missed, "the property is unknown"
		}
		c.config.Notes = append(c.config.Notes, note)
	}
}

func (c *configReader) document(name string) {
	if data, ok := c.read(name, mftxml.MaxDocument); ok {
		c.config.Documents = append(c.config.Documents, Document{name, data})
	}
}
