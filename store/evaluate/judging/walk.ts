/** Over what methods run, and the walk along it: each unit is judged by itself. */
import { groupBy } from '../../../ingest/events/group-by.ts';
import type { ExecutionReport } from '../methods/execution-report.ts';
import { type EpisodeFacts, groupOf, type StepFacts } from './facts.ts';
import type { Judgement, OnStep } from './judgement.ts';
import type { MethodFacts } from './method-facts.ts';
import { type GroupMember, onEpisode } from './over-episodes.ts';
import { familiesOf, type ReplayTree } from './replay-trees.ts';

/** What a method over each of these is given. */
export type Units = {
  /** An episode with its steps, of which there is one at least. */
  readonly episode: GroupMember;
  /** The episodes of a group with their steps, which may be none. */
  readonly group: { readonly group: string; readonly members: readonly GroupMember[] };
  /** An episode with its execution report. */
  readonly report: { readonly episode: EpisodeFacts; readonly report: ExecutionReport };
  /** A tree of steps, as one episode recorded it or as replays of each other grew it. */
  readonly replay: ReplayTree;
};

export type Over = keyof Units;

/** Rows without a value, of a step and of an episode. */
export type Blanks = { readonly step: OnStep; readonly episode: (episode: EpisodeFacts, reason: string) => Judgement };

type WalkFacts = Pick<MethodFacts, 'episodes' | 'steps' | 'ownRewards'> & Partial<Pick<MethodFacts, 'reports'>>;

type UnitPlace<Unit> = {
  /** Null where nothing can be judged. */
  readonly unit: Unit | null;
  /** Rows that it has whatever is judged. */
  readonly beside: readonly Judgement[];
  readonly without: (reason: string) => readonly Judgement[];
};

/**
 * Judges each unit. A text is the reason why none of its steps has a value: those of an episode without steps, and of one without a report,
 * have it in a row about the episode.
 */
export const walk = <O extends Over>(
  over: O,
  facts: WalkFacts,
  blanks: Blanks,
  judge: (unit: Units[O]) => readonly Judgement[] | string,
): Judgement[] =>
  PLACES[over](facts, blanks).flatMap(({ unit, beside, without }) => {
    const result = unit === null ? [] : judge(unit);
    return [...beside, ...(typeof result === 'string' ? without(result) : result)];
  });

const PLACES: { readonly [O in Over]: (facts: WalkFacts, blanks: Blanks) => readonly UnitPlace<Units[O]>[] } = {
  episode: (facts, blanks) => {
    const own = stepsByEpisode(facts);
    return facts.episodes.map((episode) => {
      const steps = own.get(episode.episode_id);
      if (steps === undefined) return { unit: null, beside: [noStepsIn(facts, blanks, episode)], without: () => [] };
      return { unit: { episode, steps }, beside: [], without: unvalued(blanks, steps) };
    });
  },
  group: (facts, { step }) => {
    const own = stepsByEpisode(facts);
    return [...groupBy(facts.episodes, groupOf)].map(([group, episodes]) => {
      const members = episodes.map((episode) => ({ episode, steps: own.get(episode.episode_id) ?? [] }));
      return {
        unit: { group, members },
        beside: [],
        without: (reason) => members.flatMap((member) => onEpisode(step, member, null, reason)),
      };
    });
  },
  report: ({ episodes, reports }, blanks) =>
    episodes.map((episode) => {
      const report = reports!.get(episode.episode_id);
      const without = (reason: string) => [blanks.episode(episode, reason)];
      if (report === undefined) return { unit: null, beside: without('no_execution_matrix'), without };
      return { unit: { episode, report }, beside: [], without };
    }),
  replay: (facts, blanks) => {
    const own = stepsByEpisode(facts);
    const stepsOf = ({ episode_id }: EpisodeFacts) => own.get(episode_id) ?? [];
    return familiesOf(facts).map(({ members, changed, grown }) => {
      const empty = members.filter(({ episode_id }) => !own.has(episode_id));
      const alone = grown === null || grown.steps === own.get(grown.episode.episode_id);
      const copies = alone ? [] : members.flatMap(stepsOf).filter(({ copied }) => copied);
      return {
        unit: grown,
        beside: [
          ...empty.map((episode) => noStepsIn(facts, blanks, episode)),
          ...unvalued(blanks, changed.flatMap(stepsOf))('intervened'),
          ...unvalued(blanks, copies)('copied'),
        ],
        without: unvalued(blanks, grown?.steps ?? []),
      };
    });
  },
};

const stepsByEpisode = ({ steps }: WalkFacts) => groupBy(steps, ({ episode_id }) => episode_id);

const noStepsIn = ({ ownRewards }: WalkFacts, blanks: Blanks, episode: EpisodeFacts): Judgement =>
  blanks.episode(episode, ownRewards ? 'missing_reward' : 'no_steps');

const unvalued =
  ({ step }: Blanks, steps: readonly StepFacts[]) =>
  (reason: string): Judgement[] =>
    steps.map((one) => step(one, null, reason));
