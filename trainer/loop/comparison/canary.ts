/**
 * The gate on live traffic: a share of the episodes is answered by the candidate, the others by what is released, and their values are
 * compared for as long as it takes. One may look after every episode, so the intervals are betting processes. Which episode is answered by
 * which side follows from its name alone, so every process comes to the same answer, and a kill changes none.
 */
import { hashId } from '../../../ingest/events/json.ts';
import { anytimeInterval } from '../../../store/evaluate/statistics/betting.ts';
import { blocksOf } from '../../../store/evaluate/statistics/two-arms.ts';
import { compareArms, type Decision, type GateRules, type LimitName } from '../../../store/loop/comparison/gate.ts';
import { type GateSide, SIDES } from './play.ts';

/** Job kind of a gate on live traffic. */
export const CANARY = 'canary';

export type CanaryRules = GateRules & {
  /** Of an episode: its reward, or 1 for the outcome success and 0 for failure. */
  readonly metric: 'reward' | 'success';
  /** Least and greatest value of the metric, and of the rewards of roles. */
  readonly range: readonly [number, number];
  /** Share of the episodes that the candidate answers, between 0 and 1. */
  readonly share: number;
  /** Episodes of each side, groups counted once, and hours before a candidate may be released. */
  readonly at_least: number;
  readonly bake_hours: number;
  /** It ends after so many hours, or episodes of both sides. */
  readonly hours: number;
  readonly at_most: number;
  /** Share of episodes whose value is unknown that the candidate may have beyond the incumbent. */
  readonly unknown: number;
};

/** Hexadecimal digits of a hash that are one exact number. */
const DIGITS = 12;

/** The side that answers an episode. `key` is its group, else the episode itself, so that a group is answered by one side. */
export const sideOf = (job: string, key: string, share: number): GateSide =>
  Number.parseInt(hashId(CANARY, job, key).slice(0, DIGITS), 16) / 16 ** DIGITS < share ? 'candidate' : 'incumbent';

/** A live episode, or a group of them, that has ended. */
export type CanaryUnit = {
  readonly side: GateSide;
  /** Null where it is unknown, or another side answered as well. */
  readonly value: number | null;
  readonly family: string | null;
  /** Mean of the rewards of each role in it. */
  readonly roles: Readonly<Record<string, number>>;
  /** Null where not known. */
  readonly tokens: number | null;
  readonly latency: number | null;
  /** Left out where another side answered as well. */
  readonly usd?: number | null;
};

/**
 * The comparisons over these episodes.
 * @param units in the order in which they ended
 * @param guarded roles that must be seen
 * @returns `passed` where all comparisons pass; a candidate that is not better is ever called better with a chance of at most (1 − level) / 2,
 * over all looks together
 */
export function decideCanary(
  units: readonly CanaryUnit[],
  rules: CanaryRules,
  guarded: readonly string[],
): Decision & {
  readonly sides: Readonly<Record<GateSide, { readonly units: number; readonly unknown: number }>>;
  /** A comparison that cannot pass any more; null while all can. */
  readonly refused: string | null;
  /** A value that lies outside of the range; null where none does. */
  readonly outside: number | null;
} {
  const { level, range } = rules;
  const [least, greatest] = range;
  const pairsOf = (of: (unit: CanaryUnit) => number | null) =>
    blocksOf(
      SIDES,
      units.flatMap((unit) => {
        const value = of(unit);
        return value === null ? [] : [{ arm: unit.side, value }];
      }),
    );
  const { decision, refused } = compareArms<CanaryUnit, number>(rules, guarded, {
    all: 'all episodes',
    called: 'block',
    units,
    worth: ({ value }) => value,
    pairsOf,
    intervalOf: (differences, most = greatest - least) => anytimeInterval(differences, [-most, most], level),
    isEnough: true,
    usedOf: usedBeyondCalibration,
    beside: [
      {
        of: 'episodes with a value',
        pairs: pairsOf(({ value }) => Number(value !== null)),
        margin: rules.unknown,
        most: 1,
      },
    ],
  });
  return {
    ...decision,
    sides: { incumbent: counted(units, 'incumbent'), candidate: counted(units, 'candidate') },
    refused,
    outside: outsideOf(units, range),
  };
}

/** Units of the incumbent whose use says what is much; they are not compared. */
const CALIBRATING = 20;
/** What takes more than so many times the greatest of these, the limit included, counts as so much. */
const MUCH = 2;

/**
 * Tokens, time and money have no greatest value, and a bet needs one: it is set by the first units of the incumbent, before those that are
 * compared. So a candidate is held to the mean of its use up to there.
 */
function usedBeyondCalibration(units: readonly CanaryUnit[], of: LimitName, limit: number) {
  const known = units.map((unit) => ({ arm: unit.side, value: unit[of]! }));
  const calibrating = known.filter(({ arm }) => arm === 'incumbent').slice(0, CALIBRATING);
  const most = MUCH * Math.max(...calibrating.map(({ value }) => value));
  if (calibrating.length < CALIBRATING || most <= 0) return { pairs: [] };
  const rest = known.slice(known.indexOf(calibrating.at(-1)!) + 1);
  const cut = rest.map(({ arm, value }) => ({
    arm,
    value: Math.min(value, arm === 'incumbent' ? most : limit * most),
  }));
  return { pairs: blocksOf(SIDES, cut), most: limit * most };
}

/** The first value outside of the range; null where none is. */
function outsideOf(units: readonly CanaryUnit[], [least, greatest]: CanaryRules['range']): number | null {
  const isOutside = (value: number) => value < least || value > greatest;
  for (const { value, roles } of units) {
    if (value !== null && isOutside(value)) return value;
    for (const role in roles) if (isOutside(roles[role]!)) return roles[role]!;
  }
  return null;
}

function counted(units: readonly CanaryUnit[], side: GateSide) {
  const own = units.filter((unit) => unit.side === side);
  const unknown = own.filter(({ value }) => value === null).length;
  return { units: own.length - unknown, unknown };
}
