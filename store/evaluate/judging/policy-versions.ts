/** Which groups were sampled from more than one version of a policy: their rewards are compared, but not those of one policy. */
import type { StepFacts } from './facts.ts';

/**
 * The groups in which one agent's calls came from different weights; a call without a version is no sign of it. `groups` is the group
 * of each step.
 */
export function mixedPolicies(
  steps: readonly StepFacts[],
  groups: (step: number) => string,
): { has(group: string): boolean } {
  const mixed = new Set<string>();
  // Mostly all weights are the same, or unknown.
  let only: string | null = null;
  let several = false;
  for (const { policy_version: version } of steps) {
    if (version === null || version === only) continue;
    if (only !== null) {
      several = true;
      break;
    }
    only = version;
  }
  if (!several) return mixed;
  const seen = new Map<string, Map<string, string>>();
  for (const [i, { agent, policy_version }] of steps.entries()) {
    if (policy_version === null) continue;
    const group = groups(i);
    let agents = seen.get(group);
    if (agents === undefined) {
      agents = new Map();
      seen.set(group, agents);
    }
    const first = agents.get(agent ?? '');
    if (first === undefined) agents.set(agent ?? '', policy_version);
    else if (first !== policy_version) mixed.add(group);
  }
  return mixed;
}
