/** DoVer (arXiv 2512.06749): a hypothesis about a failure, tried by an intervention. */

import { Type } from 'typebox';
import { groupBy } from '../../../ingest/events/group-by.ts';
import { type BlameTarget, blame, nobody } from '../judging/blame-rows.ts';
import { stepKey } from '../judging/facts.ts';
import { type Judgement, score } from '../judging/judgement.ts';
import { truthsOn } from '../judging/named-feedback.ts';
import { agentAt, ofKind, type Replay, runsOf, succeeded } from '../judging/replays.ts';
import { subgoalsOf } from '../judging/subgoals.ts';
import { method } from './method.ts';
import { requireRows } from './refuse.ts';
import { Bit } from './shapes.ts';
import { sum } from './statistics.ts';

/** Milestones that were met after and not before, less those that were lost, as a share of all; both have one entry a milestone. */
const milestonesGained = (before: readonly number[], after: readonly number[]): number =>
  (sum(after) - sum(before)) / before.length;

const Milestones = Type.Array(Bit, { minItems: 1 });

/**
 * How much further an intervention brought a run, in milestones.
 *
 * Source: DoVer, arXiv 2512.06749. Secondary. Between −1 and 1; entries are 0 or 1, at most a handful of milestones.
 * Kept: after less before, over the number of milestones. Dropped: how milestones are found, at most five. Open: read
 * in a secondary account only.
 */
export const doverProgress = method({
  name: 'dover_progress',
  kind: 'blame',
  source: 'DoVer: arXiv 2512.06749; secondary',
  version: 1,
  summary: 'Milestones gained by an intervention, as a share of all.',
  teams: 'several agents',
  input: Type.Object({ before: Milestones, after: Milestones }),
  run: ({ before, after }): number => {
    requireRows('after', after, before.length, 'the milestones of before');
    return milestonesGained(before, after);
  },
  judged: {
    reads: ['observations'],
    writes: ['scores'],
    scope: () => 'set',
    /** Milestones of the run and of its replay, both from what was observed. The number is about the replay. */
    rows: (facts, ask) => {
      const subgoals = subgoalsOf(facts.observations);
      return runsOf(facts).map((run) => {
        const key = `e/${run.episode.episode_id}`;
        if (run.of === null) return score(key, null, 'not_a_replay');
        const [before, after] = [subgoals.met(run.of), subgoals.met(run.episode.episode_id)];
        if (before === null || after === null) return score(key, null, 'no_subgoals');
        const output = ask.answer({ before, after });
        return typeof output === 'string' ? score(key, null, output) : score(key, output, null);
      });
    },
  },
});

const params = { min_progress: 0.2, min_runs: 2 };

/**
 * Whether replays with an intervention bear out the failure hypothesis behind it.
 *
 * Source: DoVer, arXiv 2512.06749. Secondary. Two successes validate it; otherwise only runs that carried the intervention out count: two with
 * enough progress validate it partially, two without refute it, and anything else says nothing.
 * Kept: three replays of which two decide, progress from 0.2. Dropped: cutting the log into trials, writing
 * interventions. Open: read in a secondary account only.
 */
export const doverVerdict = method({
  name: 'dover_verdict',
  kind: 'blame',
  source: 'DoVer: arXiv 2512.06749; secondary',
  version: 2,
  summary: 'Validated, partially validated, refuted or inconclusive, from the replays of an intervention.',
  teams: 'several agents',
  params,
  limits: { min_runs: Type.Integer({ minimum: 1 }) },
  input: Type.Object({
    runs: Type.Array(Type.Object({ success: Type.Boolean(), fulfilled: Type.Boolean(), progress: Type.Number() })),
  }),
  run: ({ runs }, { min_progress, min_runs }): 'validated' | 'partially_validated' | 'refuted' | 'inconclusive' => {
    if (runs.filter(({ success }) => success).length >= min_runs) return 'validated';
    const faithful = runs.filter(({ fulfilled }) => fulfilled);
    const further = faithful.filter(({ progress }) => progress >= min_progress).length;
    if (further >= min_runs) return 'partially_validated';
    return faithful.length - further >= min_runs ? 'refuted' : 'inconclusive';
  },
  judged: {
    reads: ['observations', 'feedback'],
    scope: () => 'set',
    /**
     * Replays of kind edit that test one hypothesis (the intervention's `hypothesis`, else the step it changed) are the runs of a verdict. Whether
     * a replay carried its edit out is feedback `intervention_fulfilled`, else the intervention's `fulfilled`. The reason is the verdict.
     */
    rows: (facts, ask) => {
      const subgoals = subgoalsOf(facts.observations);
      const fulfilled = truthsOn(facts.feedback, 'episode', 'intervention_fulfilled');
      const playedOut = (base: string, { episode, intervention }: Replay) => {
        const [before, after] = [subgoals.met(base), subgoals.met(episode.episode_id)];
        const progress = before && after && before.length === after.length ? milestonesGained(before, after) : null;
        const fulfilment = fulfilled.get(stepKey(episode.episode_id, '')) ?? intervention.fulfilled;
        return {
          success: succeeded(episode),
          fulfilled: typeof fulfilment === 'boolean' ? fulfilment : null,
          progress,
        };
      };
      return runsOf(facts).flatMap((run): Judgement[] => {
        if (run.of !== null) return [nobody(run.episode, 'is_a_replay')];
        const hypotheses = groupBy(ofKind(run, 'edit'), ({ intervention, place }) =>
          typeof intervention.hypothesis === 'string' ? intervention.hypothesis : (place?.step.step_id ?? ''),
        );
        if (hypotheses.size === 0) return [nobody(run.episode, 'no_replays')];
        const rows = [...hypotheses].map(([hypothesis, replays]) => {
          const tried = replays.map((replay) => playedOut(run.episode.episode_id, replay));
          const runs = tried.flatMap(({ success, fulfilled, progress }) =>
            success === null || fulfilled === null || progress === null ? [] : [{ success, fulfilled, progress }],
          );
          const won = tried.flatMap(({ success }) => (success ? [{ success, fulfilled: true, progress: 1 }] : []));
          const reason = tried.some(({ success }) => success === null)
            ? 'outcome_unknown'
            : won.length >= ask.params.min_runs
              ? // Enough successes decide, whatever was met on the way.
                ask.run({ runs: won })
              : tried.some((one) => one.fulfilled === null)
                ? 'fulfilment_unknown'
                : runs.length < tried.length
                  ? 'no_subgoals'
                  : ask.run({ runs });
          const about = replays.find(({ place }) => place !== null) ?? replays[0]!;
          return { reason, who: whoIn(about), detail: { hypothesis, runs: tried } };
        });
        const place = ({ reason }: { reason: string }) =>
          VERDICTS.includes(reason) ? VERDICTS.indexOf(reason) : VERDICTS.length;
        return rows
          .sort((a, b) => place(a) - place(b))
          .map(({ who, reason, detail }, rank) => blame(run.episode, who, detail, { rank, reason }));
      });
    },
  },
});

/** Surest first. */
const VERDICTS = ['validated', 'partially_validated', 'inconclusive', 'refuted'];

const whoIn = (replay: Replay): BlameTarget => ({
  agent_id: agentAt(replay),
  step_id: replay.place?.step.step_id ?? null,
});
