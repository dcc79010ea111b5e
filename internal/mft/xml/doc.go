// Package xml reads and writes the XML messages of IBM MQ Managed File Transfer: the messages that its agents take
// from their command queues, and the files that its commands write.
//
// A document has one of seven roots, without a namespace but for the two about monitors, which are in
// http://www.ibm.com/xmlns/wmqfte/7.0.1/MonitorDefinition, and for pingAgent:
//
//	request                  asks for one thing, the name of the element in it:
//	  managedTransfer        a transfer
//	  managedCall            a program to run at an agent
//	  deleteScheduledTransfer
//	cancel                   ends a transfer, which it names
//	transferSpecifications   items alone, for fteCreateTransfer -td
//	monitor, deleteMonitor   a resource monitor
//	pingAgent                asks an agent whether it is there
//	transferTemplate         a transfer to be submitted by its name
//
// A managedTransfer has the requester (originator: hostName, userID) and the two agents (sourceAgent, destinationAgent:
// agent, QMgr). It may have a time (schedule), a condition (trigger) and the address of an answer (reply). A
// transferSet follows: metaDataSet, up to four programs (preSourceCall, postSourceCall, preDestinationCall,
// postDestinationCall) and the items. An item has a mode and a checksumMethod, a source (type, recursive, disposition)
// and a destination (type, exist), each with a file, a dataset or a queue. A job with a name stands at the end.
//
// # Reading
//
// Elements may have any order and any prefix. Parse ignores no element silently. An unknown element or attribute is an
// error of KindDocument that names it and its line. An element that Ferry cannot carry out yet is an error of
// KindNotBuilt (Document.Lacks). Only parts that do not concern the transfer have no effect: names of queue managers,
// versions, hints where a schema lies, comments (Document.Ignored lists the first).
//
// A document has at most MaxDocument bytes, in UTF-8, UTF-16, or any code page that its declaration names; it has no
// document type and no entities but XML's own five.
//
// # Ferry's attributes
//
// Attributes in the namespace urn:ferry have the options that IBM's documents lack, under the names of the flags of
// `ferry send`. They are in the transferSet (lane, durability …) and in a file (replace, and of a source: as-given). A
// request may have the attribute id with the ID of its transfer: then every delivery of the document is the same
// transfer.
//
// # Sources
//
// A directory as a source with recursive="true" means its contents, not the directory itself: its path gets "/." at its
// end, which is Ferry's spelling of that. A pattern with recursive="true" matches names in all directories below. With
// as-given="true" in the file a source has the same meaning as in `ferry send`.
package xml
