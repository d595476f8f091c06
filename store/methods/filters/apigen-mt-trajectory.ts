/**
 * Whether a simulated run did what the task's true actions do: the same final state, and every required output said.
 *
 * Source: APIGen-MT, arXiv 2504.03601. Verified (text). States are compared as JSON, whatever the order of their keys.
 * Kept: both conditions. Dropped: the simulated human and the environment. Open: whether an output must be said word
 * for word: here it must be one of those given.
 */

import { type Static, Type } from 'typebox';
import { MAX_DEPTH, notJson } from '../../../ingest/json.ts';
import type { Method } from '../method.ts';
import { refuseInput } from '../refuse.ts';

const Input = Type.Object({
  final_state: Type.Unknown(),
  gold_state: Type.Unknown(),
  gold_outputs: Type.Array(Type.String()),
  agent_outputs: Type.Array(Type.String()),
});

export const apigenMtTrajectory: Method<Static<typeof Input>, Record<never, never>, boolean> = {
  name: 'apigen_mt_trajectory',
  kind: 'filter',
  source: 'APIGen-MT: arXiv 2504.03601; verified (text)',
  version: 1,
  needs: 'final state and true state',
  summary: 'Keeps a run that reaches the true final state and says every required output.',
  params: {},
  input: Input,
  run: ({ final_state, gold_state, gold_outputs, agent_outputs }) => {
    requireJson('final_state', final_state);
    requireJson('gold_state', gold_state);
    return jsonEqual(final_state, gold_state) && gold_outputs.every((output) => agent_outputs.includes(output));
  },
};

function requireJson(field: string, state: unknown): void {
  const refusal = notJson(state, field, MAX_DEPTH);
  if (refusal !== null) refuseInput(refusal.field, refusal.expected, refusal.got);
}

function jsonEqual(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false;
  if (Array.isArray(a) !== Array.isArray(b)) return false;
  const [left, right] = [a as Record<string, unknown>, b as Record<string, unknown>];
  const keys = Object.keys(left);
  return (
    keys.length === Object.keys(right).length &&
    keys.every((key) => Object.hasOwn(right, key) && jsonEqual(left[key], right[key]))
  );
}
