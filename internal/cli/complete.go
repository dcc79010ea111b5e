package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ferry/internal/cli/output"
	"ferry/internal/cli/session"
	"ferry/internal/client"
	"ferry/internal/client/view"
	"ferry/internal/content/codepage"
	"ferry/internal/node/config"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// completeTime limits the questions of a completion to the network, because the user waits at a prompt.
const completeTime = time.Second

// flagWords are the words that flags take, in every command that has the flag.
var flagWords = map[string][]string{
	"mode": {"binary", "text"}, "checksum": {"xxh3", "md5", "sha256", "none"}, "if-exists": {"error", "overwrite", "skip", "update", "rename", "append"},
	"durability": {"full", "process"}, "lane": {"auto", "direct", "queue"}, "delivery": {"fast", "stored"}, "compress": {"none", "fast", "high", "auto"},
	"eol": {"lf", "crlf", "nl"}, "long-lines": {"wrap", "truncate", "fail"}, "recfm": {"F", "FB", "V", "VB", "U", "FA", "FBA", "VA", "VBA"},
	"from-recfm": {"F", "FB", "V", "VB", "U", "FA", "FBA", "VA", "VBA"}, "priority": {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"},
	"log-level": {"debug", "info", "warn", "error"}, "log-format": {"text", "json"}, "direct": {"tls", "plain", "off"}, "coordination": {"here", "none"},
	"missed": {"once", "skip"},
}

// addCompletions adds completions to the flags and arguments of all commands.
func addCompletions(root *cobra.Command) {
	for _, c := range root.Commands() {
		addCompletions(c)
	}

	pages := func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		var names []string
		for _, p := range codepage.List() {
			names = append(names, view.CodePageOf(p).Name)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
	for _, name := range []string{"from-encoding", "to-encoding", "encoding"} {
		if root.Flags().Lookup(name) != nil {
			root.RegisterFlagCompletionFunc(name, pages)
		}
	}

	for name, words := range flagWords {
		if root.Flags().Lookup(name) != nil {
			root.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
		}
	}

	if root.Flags().Lookup("state") != nil {
		states := strings.Split(output.Words(transfer.States()), ", ")
		root.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(states, cobra.ShellCompDirectiveNoFileComp))
	}

	if f := root.Flags().Lookup("agent"); f != nil && f.Value.Type() == "string" {
		root.RegisterFlagCompletionFunc("agent", completeAgents)
	}

	switch root.CommandPath() {
	case "ferry send", "ferry ls":
		root.ValidArgsFunction = completeLocations
	case "ferry agent show", "ferry agent ping", "ferry agent rm", "ferry agent set", "ferry call run":
		root.ValidArgsFunction = only(completeAgents)
	case "ferry transfer show", "ferry transfer watch", "ferry transfer retry", "ferry transfer ack", "ferry transfer cancel", "ferry transfer resume", "ferry audit show":
		root.ValidArgsFunction = only(completeIDs)
	case "ferry codepages":
		root.ValidArgsFunction = pages
	}
}

// only completes the first argument.
func only(f cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return f(cmd, args, word)
	}
}

// asking calls fn with a client of the network that a command would use, where there is one and it answers at once.
func asking(cmd *cobra.Command, fn func(context.Context, *client.Client)) {
	ctx, cancel := context.WithTimeout(context.Background(), completeTime)
	defer cancel()
	file, err := config.Load(cmd.Root(), config.Paths())
	if err == nil {
		err = config.Bind(cmd, file)
	}

	url, _ := cmd.Flags().GetString("network")
	if err != nil || url == "" {
		return
	}

	log, err := session.ErrorLogger(cmd)
	if err != nil {
		return
	}

	conn, err := session.ConnectUser(ctx, cmd, url, "ferry completion", completeTime, log)
	if err != nil {
		return
	}
	defer conn.Close()

	fn(ctx, session.NewClient(conn, url, completeTime))
}

func agentNames(cmd *cobra.Command) (names []string) {
	asking(cmd, func(ctx context.Context, net *client.Client) {
		net.Agents(ctx, func(a *wire.AgentStatus) error {
			names = append(names, string(a.Agent))
			return nil
		})
	})
	return names
}

func completeAgents(cmd *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
	names := slices.DeleteFunc(agentNames(cmd), func(n string) bool { return !strings.HasPrefix(n, strings.ToUpper(word)) })
	return names, cobra.ShellCompDirectiveNoFileComp
}

func completeIDs(cmd *cobra.Command, _ []string, word string) (ids []string, _ cobra.ShellCompDirective) {
	asking(cmd, func(ctx context.Context, net *client.Client) {
		client.EachTransfer(ctx, net, nil, 50, func(p *transfer.Progress) error {
			about := strings.TrimSpace(string(p.State) + " " + string(p.Source) + " to " + string(p.Destination) + " " + p.Job)
			if id := p.ID.String(); strings.HasPrefix(id, word) {
				ids = append(ids, id+"\t"+output.Printable(about))
			}
			return nil
		})
	})
	return ids, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

// completeLocations completes [AGENT:]PATH: names of agents, paths at an agent, or files of this host.
func completeLocations(cmd *cobra.Command, _ []string, word string) (found []string, _ cobra.ShellCompDirective) {
	agent, path, err := transfer.SplitAgent(word + "x") // a path that may be empty yet
	if err == nil && agent != "" {
		at := strings.TrimSuffix(path, "x")
		asking(cmd, func(ctx context.Context, net *client.Client) {
			names, _ := net.Names(ctx, agent, transfer.Path(at))
			for _, it := range names {
				name := strings.TrimSuffix(word, at) + string(it.Name)
				if it.Type == transfer.ItemDir {
					name += "/"
				}
				if output.Printable(name) == name {
					found = append(found, name)
				}
			}
		})
		return found, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
	}

	if !strings.ContainsAny(word, "/.") {
		for _, n := range agentNames(cmd) {
			if word != "" && strings.HasPrefix(n, strings.ToUpper(word)) {
				found = append(found, n+":")
			}
		}
	}

	if len(found) > 0 {
		return found, cobra.ShellCompDirectiveNoSpace
	}
	return nil, cobra.ShellCompDirectiveDefault
}
