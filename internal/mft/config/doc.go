// Package config reads the configuration of IBM MQ Managed File Transfer: the properties files of Java, and a
// directory of them with the UserSandboxes.xml of its agents. It makes settings of Ferry, and rules of the files that
// users may read and write.
//
// No property or file is ignored silently. Each gets a Note: it became a setting (Taken), Ferry needs no setting for it
// (Needless), or the administrator has to handle it (Missed).
//
// A restriction of an agent is taken completely or not at all: if Ferry's rules cannot express a part of its sandbox
// with the same decisions, the agent is not made.
package config
