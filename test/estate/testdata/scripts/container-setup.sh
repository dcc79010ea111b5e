#!/bin/sh -e
# Sets up an agent in a container, and waits until it takes transfers.
fteSetupCoordination -coordinationQMgr QMCOORD -coordinationQMgrHost hub -coordinationQMgrPort 1414 -coordinationQMgrChannel MFT.CHANNEL -credentialsFile cred.xml -f
fteSetupCommands -p QMCOORD -connectionQMgr QM1 -connectionQMgrHost hub -connectionQMgrPort 1414 -connectionQMgrChannel MFT.CHANNEL -f
fteCreateAgent -p QMCOORD -agentName ESTATE -agentQMgr QM1 -agentQMgrHost hub -agentQMgrPort 1414 -agentQMgrChannel MFT.CHANNEL -f
fteDefine -t agent ESTATE
fteCleanAgent -p QMCOORD -all ESTATE
export FERRY_ROOT=$PWD/data
mkdir -p data
fteStartAgent -p QMCOORD ESTATE
until fteListAgents 'EST*' | grep -q 'ESTATE.*READY'; do sleep 1; done
ftePingAgent ESTATE -w 30 | grep BFGCL0213I
fteCreateTransfer -w -sa ALPHA -da ESTATE -df first.csv orders.csv
[ -s data/first.csv ]
fteStopAgent -p QMCOORD -i ESTATE
fteDeleteAgent -p QMCOORD -f ESTATE
echo "the container has run"
