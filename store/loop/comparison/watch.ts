/**
 * The watch after a release: the live episodes that the new map answers are compared with those that the map before it answered, and a fall
 * beyond the limit rolls the whole map back. One may look at any time, so the evidence is a betting process, not an interval.
 */

import { type Static, Type } from 'typebox';
import { countText } from '../../../errors.ts';
import { groupBy } from '../../../ingest/events/group-by.ts';
import { bettor } from '../../evaluate/statistics/betting.ts';
import { meanInterval } from '../../evaluate/statistics/bootstrap.ts';
import { meanOf } from '../../evaluate/statistics/paired.ts';

const positive = (description: string) => Type.Optional(Type.Number({ exclusiveMinimum: 0, description }));

/** The part `watch` of a plan. */
export const WatchRules = Type.Object(
  {
    metric: Type.Enum(['reward', 'success'], {
      description: 'of an episode: its reward, or 1 for the outcome success and 0 for failure',
    }),
    fall: Type.Number({ minimum: 0, description: 'fall of the mean that is accepted, in the unit of the metric' }),
    range: Type.Optional(
      Type.Array(Type.Number(), {
        minItems: 2,
        maxItems: 2,
        description: 'least and greatest value of the metric; [0, 1] if left out',
      }),
    ),
    level: Type.Optional(
      Type.Number({
        exclusiveMinimum: 0.5,
        exclusiveMaximum: 1,
        description: 'chance with which a release that did not fall so far is never rolled back; 0.95',
      }),
    ),
    at_least: Type.Optional(
      Type.Integer({ minimum: 2, description: 'episodes, groups counted once, that each side needs; 30' }),
    ),
    before: Type.Optional(
      Type.Integer({
        minimum: 2,
        description: 'so many of the last episodes before the release are the reference; 500',
      }),
    ),
    hours: positive('how long a release is watched; 168, a week'),
  },
  { additionalProperties: false, description: 'live episodes after a release; a fall beyond the limit rolls it back' },
);
export type WatchRules = Static<typeof WatchRules>;

export type FullWatchRules = Required<Omit<WatchRules, 'range'>> & { readonly range: readonly [number, number] };

/** The rules with what was left out filled in. */
export const watchedBy = (rules: WatchRules): FullWatchRules => ({
  level: 0.95,
  at_least: 30,
  before: 500,
  hours: 168,
  ...rules,
  range: [rules.range?.[0] ?? 0, rules.range?.[1] ?? 1],
});

/** A live episode, or a group of them, that has ended. */
export type LiveUnit = {
  /** What its values are alike within: the task, else the group or episode itself. */
  readonly task: string;
  /** Mean over its episodes; null where none has one. */
  readonly value: number | null;
};

export type Evidence = {
  readonly before: { readonly units: number; readonly unknown: number; readonly mean: number | null };
  readonly after: { readonly units: number; readonly unknown: number; readonly mean: number | null };
  /** Lower end of the interval of the mean before the release, over tasks; null where there are too few. */
  readonly reference: number | null;
  /** Greatest capital of the bet that the mean after the release lies below the reference by more than the fall, and what it has to reach. */
  readonly capital: number | null;
  readonly needed: number;
  readonly fell: boolean;
  /** Why there is no result; null if there is one. */
  readonly lacks: string | null;
};

const SEED = 0;
/** The bound of a bet lies above 0. */
const LEAST_BOUND = 0.001;

/**
 * The evidence of live episodes so far.
 * @param before those that the map before the release answered
 * @param after those of the release, in the order in which they ended
 * @returns `fell` with a chance of at most 1 − level, over all looks together, where the mean fell by no more than `fall`: half of it for the
 * reference, half for the bet
 */
export function evidenceOf(rules: FullWatchRules, before: readonly LiveUnit[], after: readonly LiveUnit[]): Evidence {
  const { range, fall, level, at_least } = rules;
  const [least, greatest] = range;
  const [known, live] = [valuesOf(before), valuesOf(after)];
  const needed = 2 / (1 - level);
  const sides = {
    before: { units: known.length, unknown: before.length - known.length, mean: meanOf(known) },
    after: { units: live.length, unknown: after.length - live.length, mean: meanOf(live) },
    needed,
  };
  const nothing = (lacks: string, reference: number | null = null): Evidence => ({
    ...sides,
    reference,
    capital: null,
    fell: false,
    lacks,
  });
  const outside = [...known, ...live].find((value) => value < least || value > greatest);
  if (outside !== undefined)
    return nothing(
      `A value of ${outside} lies outside of ${least} to ${greatest}: watch.range should hold all values.`,
    );
  if (known.length < at_least)
    return nothing(`Episodes with a value before the release: ${known.length}; needed: ${at_least}.`);
  const reference = meanInterval(taskMeans(before), level, SEED)?.low ?? null;
  if (reference === null) return nothing('All episodes before the release are of one task, and two are needed.');
  const scaled = (value: number) => (greatest - value) / (greatest - least);
  const bound = Math.max(LEAST_BOUND, scaled(reference - fall));
  if (bound >= 1)
    return nothing(
      `No fall can be found: ${reference - fall}, the reference without the fall, is not above ${least}.`,
      reference,
    );
  const bet = bettor(bound);
  // By Ville's inequality it is the greatest capital that counts: whoever looks later finds what an earlier look would have found.
  const capital = live.reduce((most, value) => Math.max(most, bet.see(scaled(value))), 1);
  const enough = live.length >= at_least;
  return {
    ...sides,
    reference,
    capital,
    fell: enough && capital >= needed,
    lacks: enough ? null : `Episodes with a value after the release: ${live.length}; needed: ${at_least}.`,
  };
}

const valuesOf = (units: readonly LiveUnit[]): number[] => units.flatMap(({ value }) => value ?? []);

function taskMeans(units: readonly LiveUnit[]): number[] {
  const valued = units.filter(({ value }) => value !== null);
  return [...groupBy(valued, ({ task }) => task).values()].map((some) => meanOf(valuesOf(some))!);
}

export type WatchReport = {
  readonly format: 'troupe-watch/1';
  readonly release_id: string;
  /** `watching` until it ends. `held`: the time ended without a fall; `no_data`: without enough data. */
  readonly outcome: 'watching' | 'held' | 'fell' | 'superseded' | 'no_data';
  readonly reason: string;
  readonly rules: FullWatchRules;
  readonly evidence: Evidence | null;
  /** The release that went back, and to which; null where none did. */
  readonly rollback: { readonly release_id: string; readonly back_to: string } | null;
};

/** The evidence in a sentence. */
export function evidenceText({ metric, fall, level }: FullWatchRules, evidence: Evidence): string {
  const { before, after, reference, capital, needed } = evidence;
  const shown = (value: number | null) => (value === null ? 'unknown' : String(Number(value.toPrecision(4))));
  const means = `the mean ${metric} of ${after.units} live episodes is ${shown(after.mean)}, of ${before.units} before the release ${shown(before.mean)}`;
  if (reference === null) return means;
  return `${means} (at least ${shown(reference)} at level ${level}); the evidence for a fall by more than ${fall} is ${shown(capital)} of ${shown(needed)}`;
}

/** What a fall leads to, where it is found and nobody has acted on it yet; empty for any other report. */
export const pendingText = ({ outcome, rollback }: WatchReport): string =>
  outcome === 'fell' && rollback === null ? 'The map goes back once `troupe run work` looks.' : '';

/** The report as Markdown. */
export function watchMarkdown(report: WatchReport): string {
  const { release_id, outcome, reason, evidence, rollback } = report;
  const pending = pendingText(report);
  const unknown = evidence === null ? 0 : evidence.before.unknown + evidence.after.unknown;
  return [
    `## Watch of release ${release_id}: ${outcome.replace('_', ' ')}`,
    '',
    reason,
    ...(pending === '' ? [] : ['', pending]),
    ...(unknown > 0 ? ['', `Without a value: ${countText(unknown, 'episode')}.`] : []),
    ...(rollback === null ? [] : ['', `Rolled back to ${rollback.back_to} by release ${rollback.release_id}.`]),
  ].join('\n');
}
