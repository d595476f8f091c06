/** What is collected step by step from whole runs: libraries of agents, training sets of roles. */
import { runMethod } from '../methods/run.ts';
import { groupBy } from '../methods/statistics.ts';
import type { Assemble, Assembled, Assemblers } from './assembler.ts';
import { type EpisodeFacts, type StepFacts, stepKey } from './facts.ts';
import { type Judgement, verdictOn } from './judgement.ts';
import { onwardOf } from './over-episodes.ts';
import { succeeded, tagged } from './replays.ts';

const idOf = ({ episode_id, step_id }: StepFacts): string => stepKey(episode_id, step_id);

type Row = {
  readonly episode: EpisodeFacts;
  readonly steps: readonly StepFacts[];
  readonly onward: ReadonlySet<StepFacts>;
};

const rowsOf = ({ episodes, steps }: Assembled): Row[] => {
  const own = groupBy(steps, (step) => step.episode_id);
  return episodes.map((episode) => {
    const mine = own.get(episode.episode_id) ?? [];
    return { episode, steps: mine, onward: new Set(onwardOf(mine)) };
  });
};

/** A verdict on every step, and one on the episode: kept if any of its steps is, with the steps under the name they were collected by. */
function collected(
  { episode, steps, onward }: Row,
  collector: 'agent' | 'role',
  kept: ReadonlySet<string>,
  reason: string | null,
): Judgement[] {
  const taken = steps.filter((step) => kept.has(idOf(step)));
  const detail = Object.fromEntries(
    [...groupBy(taken, (step) => step[collector]!)].map(([name, own]) => [name, own.map(({ step_id }) => step_id)]),
  );
  const unknown = reason !== null && UNKNOWN.has(reason);
  const keep = taken.length > 0 || (unknown || steps.length === 0 ? null : false);
  const why = steps.length === 0 ? (reason ?? 'no_steps') : (reason ?? 'no_collected_step');
  return [
    verdictOn(episode, keep, taken.length > 0 ? null : why, detail),
    ...steps.map((step) => {
      if (kept.has(idOf(step))) return verdictOn(step, true, null);
      if (unknown) return verdictOn(step, null, reason);
      if (!onward.has(step)) return verdictOn(step, false, 'not_chosen');
      return step[collector] === null ? verdictOn(step, null, `no_${collector}`) : verdictOn(step, false, reason);
    }),
  ];
}

/** Reasons that say that nothing is known, and not that something is wrong. */
const UNKNOWN = new Set(['missing_reward', 'outcome_unknown', 'no_base']);

/**
 * A run that was made again after feedback is an episode whose tag `regenerated_from` names the failed one; its outcome says whether it is
 * correct now. Of several that of the lowest id counts that is correct, else that of the lowest id. A step is a message that the
 * episode went on from. Over the set: both runs must be judged together, whatever groups they are of.
 */
const byRegeneration: Assemble = (method, params, facts) => {
  const rows = rowsOf(facts);
  const base = (row: Row) => tagged(row.episode, 'regenerated_from');
  const stepsOf = (row: Row) =>
    [...row.onward].filter((step) => step.agent !== null).map((step) => ({ agent: step.agent, id: idOf(step) }));
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
  const output = runMethod(method, { trajectories, ...params }) as {
    library: Record<string, string[]>;
    augmented: string[];
  };
  const kept = new Set(Object.values(output.library).flat());
  const known = new Set(first.map((row) => row.episode.episode_id));
  const reasonOf = (row: Row): string | null => {
    const from = base(row);
    if (from === null) return row.episode.reward === null ? 'missing_reward' : 'not_a_success';
    if (!known.has(from)) return 'no_base';
    const right = succeeded(row.episode);
    if (right === null) return 'outcome_unknown';
    return !right ? 'still_wrong' : usedFor(from) === row ? 'base_not_failed' : 'another_regeneration';
  };
  return rows.flatMap((row) => {
    const contributes = row.steps.some((step) => kept.has(idOf(step)));
    const said = collected(row, 'agent', kept, contributes ? null : reasonOf(row));
    const repaired = output.augmented.includes(row.episode.episode_id);
    return repaired ? [{ ...said[0]!, reason: 'repaired' } as Judgement, ...said.slice(1)] : said;
  });
};

/** The outcome of the episode says whether it was successful. */
const byRole: Assemble = (method, params, facts) =>
  rowsOf(facts).flatMap((row) => {
    const success = succeeded(row.episode);
    const steps = [...row.onward]
      .filter((step) => step.role !== null)
      .map((step) => ({ role: step.role, id: idOf(step) }));
    const trajectories = success === null ? [] : [{ success, steps }];
    const output = runMethod(method, { trajectories, ...params }) as Record<string, string[]>;
    const reason = success === null ? 'outcome_unknown' : success ? null : 'not_a_success';
    return collected(row, 'role', new Set(Object.values(output).flat()), reason);
  });

export const LIBRARY_ASSEMBLERS: Assemblers = {
  'runs and regenerations': { filter: { over: byRegeneration, scope: 'set' } },
  'outcomes and roles': { filter: { over: byRole } },
};
