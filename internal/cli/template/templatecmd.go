package template

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ferry/internal/automation/schedule"
	"ferry/internal/automation/template"
	"ferry/internal/cli/follow"
	"ferry/internal/cli/output"
	"ferry/internal/cli/request"
	clischedule "ferry/internal/cli/schedule"
	"ferry/internal/cli/session"
	"ferry/internal/cli/usage"
	"ferry/internal/client"
	"ferry/internal/client/view"
	"ferry/internal/mft/translate"
	mftxml "ferry/internal/mft/xml"
	"ferry/internal/transfer"
)

// New makes the command `ferry template`.
func New() *cobra.Command {
	c := &cobra.Command{Use: "template", Short: "Keep requests with parameters under names, and send from them", Args: usage.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	c.AddCommand(newTemplateCreate(), newTemplateLs(), newTemplateShow(), newTemplateRm(), newTemplateExport(), newTemplateImport(), newTemplateSend())
	return c
}

func newTemplateCreate() *cobra.Command {
	q, f := &session.Query{}, &request.Flags{}
	var params []string
	var redefine bool
	c := &cobra.Command{Use: "create NAME [flags] SOURCE... DEST", Short: "Have the source agent keep a template",
		Long: `Makes a template of a ferry send: flags, sources and a destination with parameters in
them, written ${NAME}. ferry template send needs a value for each parameter, unless
--param gives it a default. Sources, destinations, --job and
--meta may have parameters. A shell leaves ${NAME} alone between '…'.`,
		Example: `  ferry template create daily --param day=today 'ALPHA:out/${day}/*.csv' 'BETA:in/${customer}/'
  ferry template send daily --set customer=acme`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 3 {
				return transfer.Errorf(transfer.KindUsage, "`ferry template create` takes NAME SOURCE... DEST; it got %s", output.Plural(int64(len(args)), "argument"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			req, local, err := f.Request(args[1:], cmd.InOrStdin())
			switch {
			case err != nil:
				return err
			case request.IsStream(req):
				return transfer.Errorf(transfer.KindUsage, "standard input is no source of a template")
			case local:
				return transfer.Errorf(transfer.KindUsage, "a template is kept by its source agent, and no agent is named").WithHint("name one on both sides, as ALPHA:pay.csv BETA:in/")
			}
			t, err := template.New(args[0], req, params)
			if err != nil {
				return err
			}
			return keepTemplate(q, cmd, t, redefine)
		}}
	q.Add(c)
	f.Add(c.Flags())
	c.Flags().StringArrayVar(&params, "param", nil, "K=DEFAULT, a parameter that need not be given, or K, one that must be; may be repeated")
	c.Flags().BoolVar(&redefine, "redefine", false, "put it in the place of the template of that name")
	return c
}

// keepTemplate sends a template to its source agent.
func keepTemplate(q *session.Query, cmd *cobra.Command, t *template.Template, redefine bool) error {
	l, err := PutTemplate(q, cmd, t, redefine)
	if err == nil {
		printTemplate(q, cmd, view.TemplateOf(view.TypeCreated, t.Request.Source, l))
	}
	return err
}

// PutTemplate is keepTemplate without output.
func PutTemplate(q *session.Query, cmd *cobra.Command, t *template.Template, redefine bool) (*template.Line, error) {
	if err := client.CheckTemplate(t); err != nil {
		return nil, err
	}
	net, ctx, done, err := q.Open(cmd)
	if err != nil {
		return nil, err
	}
	defer done()
	return client.Definitions{Client: net, Limit: session.KeepWait}.PutTemplate(ctx, t, redefine)
}

// printTemplate prints the result of a command about a template.
func printTemplate(q *session.Query, cmd *cobra.Command, l view.TemplateLine) {
	if q.JSON {
		output.JSON(cmd, l)
		return
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s %s\n", l.Name, l.MessageType)
}

func newTemplateLs() *cobra.Command {
	q := &session.KeptQuery{}
	c := &cobra.Command{Use: "ls", SuggestFor: []string{"list"}, Short: "List templates of agents that you may send from", Args: usage.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			headings := []string{"NAME", "AGENT", "TO", "PARAMETERS", "OWNER", "PROBLEM"}
			return session.ListKept(q, cmd, headings, template.AskList, template.Page{}, func(at client.AtAgent, l *template.Listed, row output.Row) (next any) {
				for _, t := range l.Templates {
					line := view.TemplateOf(view.TypeTemplate, at.Agent, &t)
					line.AgentAway = at.Away
					row(line, t.Name, string(at.Agent), string(t.Destination), output.Or(paramsText(&t), "-"), output.Person(t.Principal), session.AwayText(at))
					if l.More {
						next = template.Page{After: t.Name}
					}
				}
				return next
			}, session.PageOf(func(t template.Template) *template.Listed {
				return &template.Listed{Templates: []template.Line{t.Line()}}
			}))
		}}
	q.Add(c)
	output.AddForms(c)
	return c
}

func paramsText(l *template.Line) string {
	var all []string
	for _, p := range l.Params {
		all = append(all, paramText(&p))
	}
	if l.More > 0 {
		all = append(all, fmt.Sprintf("and %d more", l.More))
	}
	return strings.Join(all, " ")
}

func paramText(p *template.Param) string {
	if p.Default == nil {
		return p.Name
	}
	return p.Name + "=" + output.Printable(*p.Default)
}

func newTemplateShow() *cobra.Command {
	q := &session.KeptQuery{}
	c := &cobra.Command{Use: "show NAME", Short: "Show a template", Args: usage.OneArg("the template's name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := args[0]
			one := session.KeptOne[template.Template]{Noun: template.Noun, Key: name, Decode: session.Decode[template.Template]}
			return session.WithShown(q, cmd, template.AskGet, one, name, template.Named{Name: name}, func(_ *session.Kept, at client.AtAgent, t *template.Template) error {
				if q.JSON {
					v := view.TemplateShownOf(at.Agent, t)
					v.AgentAway = at.Away
					output.JSON(cmd, v)
					return nil
				}
				rows := [][]string{{"template", t.Name}, {"agent", string(at.Agent)}, {"owner", output.Person(t.Principal)}, {"made", output.Stamp(t.Made)}}
				if at.Away != nil {
					rows = append(rows, []string{"problem", at.Away.String()})
				}
				for n := range t.Params {
					text := paramText(&t.Params[n])
					if t.Params[n].Default == nil {
						text += ", which must be given"
					}
					rows = append(rows, []string{"parameter", text})
				}
				if t.Schedule != nil {
					rows = append(rows, []string{"schedule", laterText(t.Schedule)})
				}
				output.Table(cmd.OutOrStdout(), append(rows, output.RequestRows(&t.Request)...))
				return nil
			})
		}}
	q.Add(c)
	return c
}

// withTemplate finds the template of a name and calls fn with it.
func withTemplate(q *session.KeptQuery, cmd *cobra.Command, name string, fn func(*session.Kept, client.AtAgent, *template.Template) error) error {
	return session.WithKept(q, cmd, template.AskGet, "template", name, template.Named{Name: name}, fn)
}

func newTemplateRm() *cobra.Command {
	q := &session.KeptQuery{}
	c := &cobra.Command{Use: "rm NAME", SuggestFor: []string{"remove", "delete"}, Short: "Remove a template", Args: usage.OneArg("the template's name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withTemplate(q, cmd, args[0], func(k *session.Kept, at client.AtAgent, _ *template.Template) error {
				l, err := client.Tell[template.Line](k.Ctx, at, q.Timeout, template.CommandRemove, template.Named{Name: args[0]})
				if err == nil {
					printTemplate(&q.Query, cmd, view.TemplateOf(view.TypeRemoved, at.Agent, l))
				}
				return err
			})
		}}
	q.Add(c)
	return c
}

func newTemplateExport() *cobra.Command {
	q := &session.KeptQuery{}
	c := &cobra.Command{Use: "export NAME", Short: "Print a template in JSON, as ferry template import takes it", Args: usage.OneArg("the template's name"),
		Example: "  ferry template export daily > daily.json\n  ferry template import daily.json --network nats://OTHER:4222",
		RunE: func(cmd *cobra.Command, args []string) error {
			return withTemplate(q, cmd, args[0], func(_ *session.Kept, _ client.AtAgent, t *template.Template) error {
				text, err := t.Export()
				if err == nil {
					fmt.Fprintln(cmd.OutOrStdout(), string(text))
				}
				return err
			})
		}}
	q.Add(c)
	return c
}

func newTemplateImport() *cobra.Command {
	q := &session.Query{}
	var redefine bool
	c := &cobra.Command{Use: "import FILE|-", Short: "Have the agent that a template names as its source keep it", Args: usage.OneArg("the file with the template, or -"),
		RunE: func(cmd *cobra.Command, args []string) error {
			data, err := session.ReadText(cmd, "template", args[0], template.MaxSize)
			if err != nil {
				return err
			}
			t, err := template.Parse(data)
			if err != nil {
				return err
			}
			return keepTemplate(q, cmd, t, redefine)
		}}
	q.Add(c)
	c.Flags().BoolVar(&redefine, "redefine", false, "put it in the place of the template of that name")
	return c
}

func newTemplateSend() *cobra.Command {
	q, f, p := &session.KeptQuery{}, &request.Flags{}, &clischedule.Flags{}
	var set []string
	var now bool
	c := &cobra.Command{Use: "send NAME", Short: "Send from a template, and wait as ferry send does; the result code is the transfer's",
		Long: `Fills in a template and sends the files, as ferry send does: waits for the end, and has
the result code of the transfer. Where the template has a schedule, or with --at, its source
agent keeps a schedule, as of ferry send --at, and the command prints its name; --now
sends at once.`,
		Example: "  ferry template send daily --set customer=acme --set day=2026-11-30\n  ferry template send daily --set customer=acme --at 02:30 --every 1d",
		Args:    usage.OneArg("the template's name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			values, err := template.ParseSet(set)
			if err != nil {
				return err
			}
			return withTemplate(q, cmd, args[0], func(k *session.Kept, _ client.AtAgent, t *template.Template) error {
				req, err := k.Net.FillTemplate(t, values)
				if err != nil {
					return err
				}
				f.JSON = q.JSON
				later, err := ofTemplate(p, cmd.Flags(), t, now)
				if err != nil {
					return err
				}
				if later {
					return clischedule.KeepSchedule(k.Ctx, f, cmd, k.Net, p, req)
				}
				return follow.Submit(k.Ctx, cmd, k.Net, req, f, follow.NewView(cmd, f.JSON, f.Quiet))
			})
		}}
	q.Add(c)
	fl := c.Flags()
	fl.StringArrayVar(&set, "set", nil, "K=V, the value of a parameter; may be repeated")
	p.Add(fl)
	fl.BoolVar(&now, "now", false, "send at once, and ignore the schedule of the template")
	fl.BoolVar(&f.DryRun, "dry-run", false, "list the files, and send nothing")
	fl.BoolVar(&f.Detach, "detach", false, "print the ID and do not wait")
	fl.BoolVarP(&f.Quiet, "quiet", "q", false, "no progress and no notices")
	return c
}

// ofTemplate reports whether a send from a template is scheduled: by flags, or else by the template.
func ofTemplate(p *clischedule.Flags, fl *pflag.FlagSet, t *template.Template, now bool) (bool, error) {
	switch {
	case now && fl.Changed("at"):
		return false, transfer.Errorf(transfer.KindUsage, "--now sends at once, and --at later").WithHint("leave one of them out")
	case t.Schedule == nil || now || p.Words != (schedule.PlanText{}):
		return p.Given(fl)
	}
	p.Words = schedule.PlanText(*t.Schedule)
	return true, nil
}

// LaterOf returns the schedule of a document for a template; nil: there is none. Its times are in the zone of this host
// where it names none.
func LaterOf(s *mftxml.Schedule) (*template.Later, error) {
	if s == nil {
		return nil, nil
	}
	if err := NameZone(s); err != nil {
		return nil, err
	}
	return translate.Later(s)
}

// laterText describes the begin and the repetitions of a scheduled send from a template.
func laterText(l *template.Later) string {
	text := "at " + l.At
	for _, w := range [][2]string{{", every ", l.Every}, {", until ", l.Until}, {", in ", l.Zone}} {
		if w[1] != "" {
			text += w[0] + w[1]
		}
	}
	if l.Count > 0 {
		text += fmt.Sprintf(", %d times", l.Count)
	}
	return output.Printable(text)
}

// NameZone gives a schedule the zone of this host, where its times are in the submitter's zone and it names none.
func NameZone(s *mftxml.Schedule) (err error) {
	if s != nil && s.TimeBase == "admin" && s.Zone == "" {
		s.Zone, err = schedule.ZoneOfHost()
	}
	return err
}
