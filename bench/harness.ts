/**
 * How a comparison is made so that it means something: the sides take turns in one run, each first as often as last, and
 * their outputs are compared before their times are. What cannot be compared is reported, never filled in.
 */
import { cpus } from 'node:os';
import { TroupeError } from '../errors.ts';
import { type Measured, rate, ratios, type Summary, summary } from './statistics.ts';

/** One who does the work; `round` does one round of it, the same work on every side. */
export type Side = { readonly name: string; readonly round: (round: number) => Promise<Measured> };

/** One line of a benchmark, as `--json` prints it. */
export type Result = {
  readonly case: string;
  readonly ours: (Summary & { readonly unit: string }) | null;
  readonly other: (Summary & { readonly what: string }) | null;
  /** Ours over the other's, of rates; above 1 ours is faster. */
  readonly ratio: Summary | null;
  /** Medians of a round. */
  readonly cpu_seconds: Both;
  readonly seconds: Both;
  readonly rounds: number;
  /** Of these, rounds in which other programs used the processors: their ratios say little. */
  readonly disturbed: number;
  /** How the outputs were compared, and with what result; null where there was no other side. */
  readonly outputs: string | null;
  /** Why there is no ratio: the other side is missing (and how to get it), or something went wrong. */
  readonly skipped?: string;
  readonly failed?: string;
  /** What else was measured, by name. */
  readonly more?: Readonly<Record<string, unknown>>;
};
export type Both = { readonly ours: number | null; readonly other: number | null };

/** Fewer say too little about the spread. */
export const FEWEST_ROUNDS = 5;

export type Rounds = {
  readonly rounds: number;
  readonly onRound?: (line: string) => void;
  /** Seconds that all processors of the machine have been busy since some moment. */
  readonly busySeconds?: () => number;
  readonly wallSeconds?: () => number;
};

export type Interleaved = {
  /** Each side's measurements, in the order of the sides. */
  readonly measured: readonly (readonly Measured[])[];
  /** How many of these rounds other programs disturbed, because no quieter ones came. */
  readonly disturbed: number;
};

/** Processors that others kept busy, on the average of a round, above which the round counts as disturbed. */
const QUIET = 0.2;
/** Seconds after which rounds are no longer taken again: a machine that is busy for so long stays busy. */
const PATIENCE = 120;

/**
 * Rounds of every side in turn: A B, B A, A B … so that neither always comes after the other. Nothing here is a warm-up:
 * do that before. A round in which other programs used the processors is taken again, up to twice as many rounds in all,
 * and the quietest are kept: which ones is decided by what others did, never by what was measured. Sides are given the
 * number of the try, so that each try can be of fresh data.
 * @throws TroupeError `usage` for fewer rounds than `FEWEST_ROUNDS`.
 */
export async function interleave(
  sides: readonly Side[],
  { rounds, onRound = () => {}, busySeconds = busyProcessors, wallSeconds = monotonic }: Rounds,
): Promise<Interleaved> {
  if (!(rounds >= FEWEST_ROUNDS)) {
    throw new TroupeError('usage', `A benchmark needs at least ${FEWEST_ROUNDS} rounds, got ${rounds}.`);
  }
  const tries: { readonly measured: readonly Measured[]; readonly others: number }[] = [];
  const quiet = () => tries.filter(({ others }) => others <= QUIET).length;
  const start = wallSeconds();
  const mayRepeat = () => tries.length < 2 * rounds && wallSeconds() - start < PATIENCE;
  while (tries.length < rounds || (quiet() < rounds && mayRepeat())) {
    const order = tries.length % 2 === 0 ? [...sides.keys()] : [...sides.keys()].reverse();
    const measured: Measured[] = new Array(sides.length);
    const [busy, began] = [busySeconds(), wallSeconds()];
    for (const index of order) measured[index] = await sides[index]!.round(tries.length);
    const own = measured.reduce(
      (sum, { cpuSeconds, checkingCpuSeconds = 0 }) => sum + cpuSeconds + checkingCpuSeconds,
      0,
    );
    const others = Math.max(0, busySeconds() - busy - own) / (wallSeconds() - began);
    tries.push({ measured, others });
    const rates = sides.map(({ name }, i) => `${name} ${shortNumber(rate(measured[i]!))}`);
    const noise = others > QUIET ? `; others kept ${others.toFixed(1)} processors busy` : '';
    onRound(`round ${tries.length}, ${quiet()} of ${rounds} undisturbed: ${rates.join(', ')}${noise}`);
  }
  const kept = tries
    .map((one, at) => ({ ...one, at }))
    .sort((a, b) => a.others - b.others || a.at - b.at)
    .slice(0, rounds)
    .sort((a, b) => a.at - b.at);
  return {
    measured: sides.map((_, i) => kept.map(({ measured }) => measured[i]!)),
    disturbed: kept.filter(({ others }) => others > QUIET).length,
  };
}

const monotonic = (): number => performance.now() / 1000;
const busyProcessors = (): number =>
  cpus().reduce((sum, { times: { user, nice, sys, irq } }) => sum + user + nice + sys + irq, 0) / 1000;

export type Verdict = { readonly equal: boolean; readonly how: string };

type About = {
  readonly case: string;
  readonly unit: string;
  readonly disturbed: number;
  readonly more?: Readonly<Record<string, unknown>>;
};

/** A comparison whose outputs were compared: a ratio when they are equal, a failure that says so when they are not. */
export function compared(
  about: About,
  ours: readonly Measured[],
  other: { readonly what: string; readonly measured: readonly Measured[] },
  { equal, how }: Verdict,
): Result {
  const { measured, what } = other;
  const base = {
    case: about.case,
    rounds: ours.length,
    disturbed: about.disturbed,
    outputs: how,
    ...(about.more ? { more: about.more } : {}),
  };
  if (!equal) {
    return {
      ...base,
      ours: null,
      other: null,
      ratio: null,
      cpu_seconds: NEITHER,
      seconds: NEITHER,
      failed: `the outputs differ from those of ${what}, so their times say nothing: ${how}`,
    };
  }
  return {
    ...base,
    ours: { ...summary(ours.map(rate)), unit: about.unit },
    other: { what, ...summary(measured.map(rate)) },
    ratio: ratios(ours, measured),
    cpu_seconds: { ours: cpu(ours), other: cpu(measured) },
    seconds: { ours: wall(ours), other: wall(measured) },
  };
}

/** Ours alone, because the other side is missing; `why` says in one line how to get it. */
export function oursOnly(about: About, ours: readonly Measured[], why: string): Result {
  return {
    case: about.case,
    ours: { ...summary(ours.map(rate)), unit: about.unit },
    other: null,
    ratio: null,
    cpu_seconds: { ours: cpu(ours), other: null },
    seconds: { ours: wall(ours), other: null },
    rounds: ours.length,
    disturbed: about.disturbed,
    outputs: null,
    skipped: why,
    ...(about.more ? { more: about.more } : {}),
  };
}

/** A case of which nothing was measured, with the reason. */
export function unmeasured(name: string, why: { readonly skipped: string } | { readonly failed: string }): Result {
  return {
    case: name,
    ours: null,
    other: null,
    ratio: null,
    cpu_seconds: NEITHER,
    seconds: NEITHER,
    rounds: 0,
    disturbed: 0,
    outputs: null,
    ...why,
  };
}

const NEITHER: Both = { ours: null, other: null };
const cpu = (measured: readonly Measured[]): number => summary(measured.map(({ cpuSeconds }) => cpuSeconds)).median;
const wall = (measured: readonly Measured[]): number => summary(measured.map(({ seconds }) => seconds)).median;

/** Three significant digits, thousands whole. */
export const shortNumber = (value: number): string =>
  Math.abs(value) >= 1000 ? Math.round(value).toLocaleString('en') : String(Number(value.toPrecision(3)));
