#!/bin/sh -e
# Sets up a bridge to a server of FTP.
fteCreateBridgeAgent -agentName BRIDGE -agentQMgr QM1 -bt FTP -bh ftp.example -bm UNIX -bsl en_GB -bfe UTF-8 -f
fteStartAgent BRIDGE
