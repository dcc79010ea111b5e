package commands

// needless returns the commands that Ferry needs nothing of, each with the reason.
func needless() (all []Command) {
	for _, c := range []struct{ name, why string }{
		{"fteSetupCoordination", "the coordination service needs no configuration: `ferry up` has it, or `ferry coordination run`"},
		{"fteSetupCommands", "commands need no queue manager of their own: FERRY_NETWORK names any of the network"},
		{"fteChangeDefaultConfigurationOptions", "there are no sets of configuration options: FERRY_NETWORK or FERRY_CONFIG chooses a network"},
		{"fteDeleteAgent", "an agent exists while it runs: stop it with fteStopAgent, and remove its state directory if its unfinished transfers are not wanted"},
		{"fteCleanAgent", "a transfer that crashes its agent is parked and blocks no other: fteCancelTransfer, fteDeleteMonitor and fteDeleteScheduledTransfer end single objects, and this command removes nothing"},
		{"fteModifyAgent", "an agent has no service of Windows to be modified: a service runs `ferry agent run NAME`"},
		{"fteObfuscate", "Ferry keeps no passwords in files: identities take their place"},
		{"fteCreateLogger", "the coordination service keeps the audit log without a logger: `ferry audit` shows and exports it"},
		{"fteStartLogger", "the coordination service keeps the audit log without a logger: `ferry audit` shows and exports it"},
		{"fteStopLogger", "the coordination service keeps the audit log without a logger: `ferry audit` shows and exports it"},
		{"fteShowLoggerDetails", "the coordination service keeps the audit log without a logger: `ferry audit` shows and exports it"},
		{"fteRAS", "nothing is collected for a support of Ferry: the log of an agent and `ferry audit show ID` tell about a problem"},
		{"fteSetAgentTraceLevel", "an agent has no trace that is switched: start it with --log-level debug"},
		{"fteSetAgentLogLevel", "the level of an agent's log is --log-level when it starts, and monitors and transfers are in the audit log at any level"},
		{"fteMigrateAgent", "there is nothing to migrate between versions of Ferry: `ferry import` takes a configuration of MQ MFT"},
		{"fteDefine", "queues of an agent need no definition: its queue manager makes them when the agent starts"},
		{"fteDelete", "queues of an agent need no definition, and `ferry agent rm NAME` has the network forget an agent"},
		{"fteCreateEnvironment", "no environment is needed: FERRY_NETWORK or the settings file names the network"},
		{"fteBundleConfiguration", "an agent is one program and a settings file, which are copied as they are"},
		{"fteDeleteLogger", "the coordination service keeps the audit log without a logger: `ferry audit` shows and exports it"},
		{"fteModifyLogger", "the coordination service keeps the audit log without a logger: `ferry audit` shows and exports it"},
		{"fteSetLoggerTraceLevel", "the coordination service keeps the audit log without a logger: `ferry audit` shows and exports it"},
		{"fteSetProductId", "Ferry has one product, and no usage that is measured by it"},
		{"fteBatch", "commands of Ferry begin at once, and need no process that runs several of them"},
	} {
		all = append(all, Command{Name: c.name, Needless: c.why, most: -1})
	}
	return all
}

// missing returns the commands that Ferry does not have, each with the reason.
func missing() (all []Command) {
	for _, name := range []string{"fteCreateBridgeAgent", "fteCreateCDAgent"} {
		all = append(all, Command{Name: name, Missing: "Ferry has no bridges: an agent reads and writes files of its own host", most: -1})
	}
	return all
}
