// Package ant runs scripts of Apache Ant that use the tasks of IBM MQ MFT, such as fte:filecopy and fte:call. It has the
// parts of Ant that such scripts need: properties, targets, conditions, echo, fail, sequential and parallel.
//
// Parse checks a whole script before any of it runs. It refuses an element or an attribute that the package does not
// have, with the file and the line. A Runner runs targets. It reads and writes local files itself, and gives transfers,
// calls and pings to a Network.
package ant
