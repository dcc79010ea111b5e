package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"os/exec"
	"slices"

	"ferry/internal/security/policy"
	"ferry/internal/transfer"
)

// consent changes the network's policy to allow a direct lane without TLS, if an agent is to have one.
func (n *Network) consent(ctx context.Context) error {
	plain := slices.ContainsFunc(n.cfg.Agents, func(a AgentConfig) bool { return slices.Contains(a.Flags, "plain") })
	if n.cfg.Commands || !plain || slices.Contains(n.cfg.Manager, "--insecure") {
		return nil
	}
	var rules policy.Policy
	if err := json.Unmarshal(policy.Default, &rules); err != nil {
		return err
	}
	rules.DirectPlain = true
	data, err := json.Marshal(rules)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, n.env.Ferry, "policy", "apply", "--network", n.URL, "-")
	cmd.Env, cmd.Stdin = n.environment(), bytes.NewReader(data)
	if out, err := cmd.CombinedOutput(); err != nil {
		return transfer.Errorf(transfer.KindInternal, "the network does not consent to a plain direct lane: %w: %s", err, out)
	}
	return nil
}
