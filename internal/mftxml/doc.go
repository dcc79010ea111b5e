// Package mftxml reads and writes the XML messages of IBM MQ Managed File Transfer: what
// its agents take from their command queues, and what its commands write into files.
//
// A document has one of six roots, without a namespace but for the two about monitors,
// which are in http://www.ibm.com/xmlns/wmqfte/7.0.1/MonitorDefinition:
//
//	request                  asks for one thing, the name of the element in it:
//	  managedTransfer        a transfer
//	  managedCall            a program to run at an agent
//	  deleteScheduledTransfer
//	cancel                   ends a transfer, which it names
//	transferSpecifications   items alone, for fteCreateTransfer -td
//	monitor, deleteMonitor   a resource monitor
//	transferTemplate         a transfer to be submitted by its name
//
// A managedTransfer says who asks (originator: hostName, userID), from which agent to which
// (sourceAgent, destinationAgent: agent, QMgr), perhaps when (schedule), on which condition
// (trigger) and where an answer goes (reply), and then has a transferSet: metaDataSet, up to
// four programs (preSourceCall, postSourceCall, preDestinationCall, postDestinationCall) and
// the items. An item has a mode and a checksumMethod, a source (type, recursive, disposition)
// and a destination (type, exist), each with a file, a dataset or a queue. A job with a name
// stands at the end.
//
// # What is read
//
// Elements may stand in any order, with any prefix. Nothing is passed over: what is not
// understood is an error of KindDocument that names the element or the attribute and its
// line, and what is understood and cannot be done yet is an error of KindNotBuilt
// (Document.Lacks). Only what says nothing about the transfer has no effect: names of queue
// managers, versions, hints where a schema lies, comments (Document.Ignored lists the first).
//
// A document has at most MaxDocument bytes, in UTF-8, UTF-16, or any code page that its
// declaration names; it has no document type and no entities but XML's own five.
//
// # What Ferry adds
//
// Attributes in the namespace urn:ferry say what IBM's documents have no word for, under the
// names of the flags of `ferry send`. They stand in the transferSet (lane, durability …) and
// in a file (replace, and of a source: as-given). A request has the attribute id where it names
// its own transfer: the same document is then the same transfer, however often it comes.
//
// # Sources
//
// A directory as a source means what is in it, with recursive="true", and not the directory
// itself: its path gets "/." at its end, which is how Ferry says that. A pattern with
// recursive="true" matches names in all directories below. With as-given="true" in the file a
// source is what it would be in `ferry send`.
package mftxml
