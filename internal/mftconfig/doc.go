// Package mftconfig reads the configuration of IBM MQ Managed File Transfer: the properties files of
// Java, and a directory of them with the UserSandboxes.xml of its agents. It makes settings of Ferry
// of what they say, and rules of who may read and write where.
//
// Nothing is passed over. Each property and each file gets a Note: that it became a setting (Taken),
// that Ferry needs nothing for it (Needless), or that somebody has to see to it (Missed).
//
// What narrows an agent is taken as a whole or not at all: where a part of its sandbox cannot be
// said in Ferry's rules with the same decisions, the agent is not made.
package mftconfig
