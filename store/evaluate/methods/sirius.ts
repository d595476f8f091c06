/**
 * SiriuS: each agent's library of good steps, from runs that succeeded and from failures that were repaired.
 *
 * Source: zou-group/sirius. Verified (code). A reward above `epsilon` is a success; a failed run counts only through its regenerated
 * steps, and only if those were graded correct. A run without a reward is neither. Regenerating is a model's work and not done here.
 * Kept: one library an agent; a repair counts only when it is right. Dropped: feedback, regeneration and rephrasing.
 * Open: nothing known.
 */

import { Type } from 'typebox';
import { groupBy } from '../../../ingest/events/group-by.ts';
import { collected, idOf, type MethodRun, runsWithSteps } from '../judging/collected.ts';
import type { Judgement } from '../judging/judgement.ts';
import { succeeded, tagged } from '../judging/replays.ts';
import { method } from './method.ts';
import { Key, Reward } from './shapes.ts';

const Steps = Type.Array(Type.Object({ agent: Type.String(), id: Key }));

type Library = {
  /** Step ids for each agent, in the order of the trajectories. */
  readonly library: Readonly<Record<string, readonly (string | number)[]>>;
  /** Trajectories that came in through their repair. */
  readonly augmented: readonly (string | number)[];
};

export const siriusLibrary = method({
  name: 'sirius_library',
  kind: 'filter',
  source: 'SiriuS: zou-group/sirius; verified (code)',
  version: 1,
  summary: 'Collects, for each agent, the steps of successful runs and of repaired failures.',
  teams: 'several agents',
  params: { epsilon: 0 },
  input: Type.Object({
    trajectories: Type.Array(
      Type.Object({
        id: Key,
        reward: Reward,
        steps: Steps,
        regenerated: Type.Optional(Type.Object({ correct: Type.Boolean(), steps: Steps })),
      }),
    ),
  }),
  run: ({ trajectories }, { epsilon }): Library => {
    const graded = trajectories.filter(({ reward }) => reward !== null);
    const repaired = graded.filter(({ reward, regenerated }) => reward! <= epsilon && regenerated?.correct === true);
    const steps = graded.flatMap((run) => {
      if (run.reward! > epsilon) return run.steps;
      return run.regenerated?.correct === true ? run.regenerated.steps : [];
    });
    const byAgent = [...groupBy(steps, ({ agent }) => agent)].map(([agent, own]) => [agent, own.map(({ id }) => id)]);
    return { library: Object.fromEntries(byAgent), augmented: repaired.map(({ id }) => id) };
  },
  judged: {
    scope: () => 'set',
    /**
     * A run that was made again after feedback is an episode whose tag `regenerated_from` names the failed one; its outcome decides whether it is
     * correct now. Of several that of the lowest id counts that is correct, else that of the lowest id. A step is a message that the
     * episode went on from. Over the set: both runs must be judged together, whatever groups they are of.
     */
    rows: (facts, ask) => {
      const rows = runsWithSteps(facts);
      const base = (row: MethodRun) => tagged(row.episode, 'regenerated_from');
      const stepsOf = (row: MethodRun) =>
        [...row.onward].flatMap((step) => (step.agent === null ? [] : [{ agent: step.agent, id: idOf(step) }]));
      const again = groupBy(
        rows.filter((row) => base(row) !== null && succeeded(row.episode) !== null),
        (row) => base(row)!,
      );
      const usedFor = (id: string) => {
        const own = again.get(id);
        return own?.find((row) => succeeded(row.episode)) ?? own?.[0];
      };
      const first = rows.filter((row) => base(row) === null);
      const trajectories = first.map((row) => {
        const repair = usedFor(row.episode.episode_id);
        return {
          id: row.episode.episode_id,
          reward: row.episode.reward,
          steps: stepsOf(row),
          ...(repair ? { regenerated: { correct: succeeded(repair.episode)!, steps: stepsOf(repair) } } : {}),
        };
      });
      const output = ask.run({ trajectories });
      const kept = new Set(Object.values(output.library).flat());
      const known = new Set(first.map((row) => row.episode.episode_id));
      const reasonOf = (row: MethodRun): string | null => {
        const from = base(row);
        if (from === null) return row.episode.reward === null ? 'missing_reward' : 'not_a_success';
        if (!known.has(from)) return 'no_base';
        const right = succeeded(row.episode);
        if (right === null) return 'outcome_unknown';
        return !right ? 'still_wrong' : usedFor(from) === row ? 'base_not_failed' : 'another_regeneration';
      };
      return rows.flatMap((row) => {
        const contributes = row.steps.some((step) => kept.has(idOf(step)));
        const judgements = collected(row, 'agent', kept, contributes ? null : reasonOf(row));
        const repaired = output.augmented.includes(row.episode.episode_id);
        return repaired ? [{ ...judgements[0]!, reason: 'repaired' } as Judgement, ...judgements.slice(1)] : judgements;
      });
    },
  },
});
