/**
 * Whether a simulated run did what the task's true actions do: the same final state, and every required output in its messages.
 *
 * Source: APIGen-MT, arXiv 2504.03601. Verified (text). States are compared as JSON, whatever the order of their keys.
 * Kept: both conditions. Dropped: the simulated human and the environment. Open: whether an output must appear word
 * for word: here it must be one of those given.
 */

import { Type } from 'typebox';
import { groupBy } from '../../../../ingest/events/group-by.ts';
import { MAX_DEPTH, notJson } from '../../../../ingest/events/json.ts';
import { verdictOn } from '../../judging/judgement.ts';
import { onwardOf } from '../../judging/over-episodes.ts';
import { method } from '../method.ts';
import { refuseInput } from '../refuse.ts';

export const apigenMtTrajectory = method({
  name: 'apigen_mt_trajectory',
  kind: 'filter',
  source: 'APIGen-MT: arXiv 2504.03601; verified (text)',
  version: 1,
  summary: 'Keeps a run that reaches the true final state and says every required output.',
  input: Type.Object({
    final_state: Type.Unknown(),
    gold_state: Type.Unknown(),
    gold_outputs: Type.Array(Type.String()),
    agent_outputs: Type.Array(Type.String()),
  }),
  run: ({ final_state, gold_state, gold_outputs, agent_outputs }): boolean => {
    requireJson('final_state', final_state);
    requireJson('gold_state', gold_state);
    return jsonEqual(final_state, gold_state) && gold_outputs.every((output) => agent_outputs.includes(output));
  },
  judged: {
    reads: ['observations', 'content'],
    /**
     * The final state is that of the last observation with a state; the true state and the required outputs are the `state` and the `outputs`
     * of the task's reference, no outputs being none. Outputs of the agents are their messages, what was observed as `output`, and the answer.
     */
    rows: (facts, ask) => {
      const steps = groupBy(facts.steps, (step) => step.episode_id);
      return facts.episodes.map((episode) => {
        const seen = facts.observations.get(episode.episode_id) ?? [];
        const final = seen.findLast(({ state }) => state !== null);
        if (final === undefined) return verdictOn(episode, null, 'no_final_state');
        const { state, outputs = [] } = (episode.reference ?? {}) as { state?: unknown; outputs?: unknown };
        if (state === undefined || state === null) return verdictOn(episode, null, 'no_true_state');
        if (!Array.isArray(outputs)) return verdictOn(episode, null, 'unreadable_outputs');
        const messages = onwardOf(steps.get(episode.episode_id) ?? []).map((step) => facts.contentOf(step).text);
        const shown = seen
          .filter(({ kind, content }) => kind === 'output' && content !== null)
          .map(({ content }) => asText(content));
        const keep = ask.run({
          final_state: final.state,
          gold_state: state,
          gold_outputs: outputs.map(asText),
          agent_outputs: [...messages, ...shown, episode.answer].filter((text) => text !== null),
        });
        return verdictOn(episode, keep, keep ? null : 'other_state_or_outputs');
      });
    },
  },
});

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

const asText = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value));
