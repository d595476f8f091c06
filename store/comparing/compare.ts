/**
 * Two checkpoints, models or teams on the same tasks: what each solved, the difference with its interval over tasks, and what it cost.
 * Only tasks that both tried are compared, so a side that was given easier tasks gains nothing by it.
 */
import { KEYED } from '../../ingest/log/keyed.ts';
import type { Db, Session } from '../db/pool.ts';
import { facts, query, rowsOf, sql } from '../db/query.ts';
import { executionReports } from '../judging/facts.ts';
import { readReport } from '../methods/execution-report.ts';
import { groupBy } from '../methods/statistics.ts';
import { type PairedDifference, pairedDifference } from '../statistics/paired.ts';
import { type Attempts, meanPassAtK, type PassAtK } from '../statistics/pass-at-k.ts';
import { findSide, type Side, spokenBy } from './side.ts';

/** Attempts of one side at one task. An attempt is an episode, or a candidate of its execution matrix. */
type Tried = Attempts & { readonly task_id: string };

export type Cost = {
  readonly episodes: number;
  readonly solved: number;
  /** Neither solved nor failed; in no rate. */
  readonly unknown: number;
  /** Per solved episode, over episodes with a known result; null where none was solved or one lacks its count. */
  readonly tokens_per_solved: number | null;
  readonly usd_per_solved: number | null;
};

export type Compared = PairedDifference & {
  /** `episodes`: a reward or an outcome says solved. `candidates`: programs that pass every ground-truth test. */
  readonly measure: 'episodes' | 'candidates';
  readonly only_in_first: number;
  readonly only_in_second: number;
};

export type Comparison = {
  readonly first: Side & Cost;
  readonly second: Side & Cost;
  /** Episodes in which both spoke; they are left out. */
  readonly mixed: number;
  readonly level: number;
  readonly measures: readonly Compared[];
  /** The same over the episodes in which a role was played by the side; a team plays all its roles. */
  readonly roles: readonly (Compared & { readonly role: string })[];
  /** The same over the tasks of one domain; the family null has none. */
  readonly families: readonly (Compared & { readonly family: string | null })[];
  readonly pass_at_k: readonly {
    readonly measure: Compared['measure'];
    readonly first: PassAtK;
    readonly second: PassAtK;
  }[];
};

type Attempt = {
  readonly task_id: string;
  readonly family: string | null;
  readonly solved: boolean | null;
  readonly tokens: number | null;
  readonly usd: number | null;
  readonly candidates: Attempts | null;
  readonly roles: ReadonlySet<string>;
};

/**
 * Compares what the database knows of the two. The same data give the same numbers: the bootstrap's seed is fixed.
 * @param level share of intervals that hold the true difference, between 0 and 1
 * @throws TroupeError `not_found` for a side that nobody recorded, with the nearest name
 */
export async function compare(db: Db, first: string, second: string, level = 0.95): Promise<Comparison> {
  return db.transaction(
    async (tx) => {
      await tx.query(`set local search_path = facts, pg_catalog; ${KEYED}`);
      const sides = [await findSide(tx, first), await findSide(tx, second)] as const;
      const spoken = [await spokenBy(tx, sides[0]), await spokenBy(tx, sides[1])] as const;
      const mixed = [...spoken[0].keys()].filter((episode) => spoken[1].has(episode));
      for (const episode of mixed) for (const side of spoken) side.delete(episode);
      const [a, b] = [await attempts(tx, spoken[0]), await attempts(tx, spoken[1])];
      const over = (of: (attempt: Attempt) => boolean): Compared[] =>
        MEASURES.flatMap((measure) => compared(measure, a.filter(of), b.filter(of), level));
      const roles = [...new Set([...a, ...b].flatMap((one) => [...one.roles]))].sort();
      const families = [...new Set([...a, ...b].map(({ family }) => family))].sort();
      return {
        first: { ...sides[0], ...costOf(a) },
        second: { ...sides[1], ...costOf(b) },
        mixed: mixed.length,
        level,
        measures: over(() => true),
        roles: roles.flatMap((role) => over((one) => one.roles.has(role)).map((found) => ({ role, ...found }))),
        families:
          families.length < 2
            ? []
            : families.flatMap((family) => over((one) => one.family === family).map((found) => ({ family, ...found }))),
        pass_at_k: MEASURES.flatMap((measure) => passes(measure, a, b, level)),
      };
    },
    { readOnly: true },
  );
}

const MEASURES = ['episodes', 'candidates'] as const;
const SEED = 0;

/** The tasks of a side with their attempts, of which it is known whether they succeeded. */
function tried(measure: Compared['measure'], attempts: readonly Attempt[]): Map<string, Tried> {
  const known = attempts.flatMap(({ task_id, solved, candidates }): Tried[] => {
    if (measure === 'candidates') return candidates === null ? [] : [{ task_id, ...candidates }];
    return solved === null ? [] : [{ task_id, n: 1, solved: solved ? 1 : 0 }];
  });
  return new Map(
    [...groupBy(known, ({ task_id }) => task_id)].map(([task_id, of]) => [
      task_id,
      { task_id, n: of.reduce((sum, { n }) => sum + n, 0), solved: of.reduce((sum, { solved }) => sum + solved, 0) },
    ]),
  );
}

/** Empty where neither side has anything by this measure. */
function compared(
  measure: Compared['measure'],
  a: readonly Attempt[],
  b: readonly Attempt[],
  level: number,
): Compared[] {
  const [first, second] = [tried(measure, a), tried(measure, b)];
  if (first.size + second.size === 0) return [];
  const both = [...first.values()]
    .filter(({ task_id }) => second.has(task_id))
    .sort((x, y) => (x.task_id < y.task_id ? -1 : 1));
  const pairs = both.map((one) => {
    const other = second.get(one.task_id)!;
    return { first: one.solved / one.n, second: other.solved / other.n };
  });
  return [
    {
      measure,
      ...pairedDifference(pairs, level, SEED),
      only_in_first: first.size - both.length,
      only_in_second: second.size - both.length,
    },
  ];
}

/** For k = 1 and powers of 2 up to the attempts that most tasks of both sides have. */
function passes(
  measure: Compared['measure'],
  a: readonly Attempt[],
  b: readonly Attempt[],
  level: number,
): Comparison['pass_at_k'] {
  const [first, second] = [tried(measure, a), tried(measure, b)];
  const both = [...first.keys()].filter((task) => second.has(task)).sort();
  const least = both.map((task) => Math.min(first.get(task)!.n, second.get(task)!.n)).sort((x, y) => x - y);
  const most = least[least.length >> 1] ?? 0;
  const of = (side: Map<string, Tried>, k: number): PassAtK =>
    meanPassAtK(
      both.map((task) => side.get(task)!),
      k,
      level,
      SEED,
    );
  const ks: number[] = [];
  for (let k = 1; k <= most; k *= 2) ks.push(k);
  return ks.map((k) => ({ measure, first: of(first, k), second: of(second, k) }));
}

async function attempts(tx: Session, spoken: ReadonlyMap<string, ReadonlySet<string>>): Promise<Attempt[]> {
  const episodes = [...spoken.keys()];
  const outcomes = await rowsOf(
    tx,
    query
      .selectFrom('traj.outcomes as o')
      .leftJoin('facts.tasks as t', 't.task_id', 'o.task_id')
      .select(['o.episode_id', 'o.task_id', 't.domain as family', 'o.solved', 'o.tokens'])
      .where('o.episode_id', '=', sql<string>`any(${episodes}::text[])`)
      .where('o.task_id', 'is not', null),
  );
  const costs = await rowsOf(
    tx,
    facts
      .selectFrom('calls')
      .select([
        'episode_id',
        sql<
          number | null
        >`case when count(*) = count(usage ->> 'cost_usd') then sum((usage ->> 'cost_usd')::double precision) end`.as(
          'usd',
        ),
      ])
      .where('episode_id', '=', sql<string>`any(${episodes}::text[])`)
      .groupBy('episode_id'),
  );
  const usd = new Map(costs.map((row) => [row.episode_id, row.usd]));
  const reports = await executionReports(tx, episodes, new Map());
  return outcomes.map((row) => {
    const report = reports.get(row.episode_id!);
    const { right, wrong } = report === undefined ? { right: [], wrong: [] } : readReport(report);
    const n = right.length + wrong.length;
    return {
      task_id: row.task_id!,
      family: row.family,
      solved: row.solved,
      tokens: row.tokens,
      usd: usd.get(row.episode_id!) ?? null,
      candidates: n === 0 ? null : { n, solved: right.length },
      roles: spoken.get(row.episode_id!)!,
    };
  });
}

function costOf(attempts: readonly Attempt[]): Cost {
  const known = attempts.filter(({ solved }) => solved !== null);
  const solved = known.filter((one) => one.solved).length;
  const perSolved = (of: 'tokens' | 'usd'): number | null => {
    if (solved === 0 || known.some((one) => one[of] === null)) return null;
    return known.reduce((sum, one) => sum + one[of]!, 0) / solved;
  };
  return {
    episodes: attempts.length,
    solved,
    unknown: attempts.length - known.length,
    tokens_per_solved: perSolved('tokens'),
    usd_per_solved: perSolved('usd'),
  };
}
