/**
 * Failed episodes with the labels of people, and the attributions of methods and annotators. The transaction's search_path names
 * the schema.
 */

import { groupBy } from '../../../ingest/events/group-by.ts';
import type { Session } from '../../db/pool.ts';
import { anyOf, facts, firstOf, type InferResult, type NotNull, rowsOf, type SqlBool, sql } from '../../db/query.ts';
import { type CaseEntry, readEntries } from './entries.ts';
import { HAS_FAILED } from './failed.ts';

/** Who is blamed, and for which entry: its number in the record, or its place where nothing is counted. */
export type Blame = { readonly agent: string | null; readonly entry: number | null };

export type LabelledCase = {
  readonly episode_id: string;
  /** Its task, or the episode itself where it has none: what is resampled and folded together. */
  readonly task: string;
  readonly question: string | null;
  readonly reference: unknown;
  readonly origin: string;
  readonly difficulty: string;
  readonly entries: readonly CaseEntry[];
  readonly truth: { readonly agent: string; readonly entry: number };
  /** The label names another agent than the author of the entry. */
  readonly mismatch: boolean;
};

export type CaseSet = {
  readonly cases: readonly LabelledCase[];
  /** Failed episodes without a label that names agent and entry. */
  readonly unlabelled: number;
  /** Episodes whose labels contradict each other; they are left out. */
  readonly ambiguous: number;
};

/** The number of an entry: what the source counts, else its place. */
export const numberOf = (entries: readonly CaseEntry[], at: number): number => entries[at]?.seq ?? at;

/** Episodes that people labelled with an agent and an entry. `gold` is one annotator to be taken as right; null takes every label not given by a model. */
export async function labelledCases(tx: Session, gold: string | null): Promise<CaseSet> {
  const isGold = gold === null ? sql<SqlBool>`coalesce(f.author, '') <> 'model'` : sql<SqlBool>`f.annotator = ${gold}`;
  const labels = await rowsOf(tx, LABELS.where(isGold).orderBy('f.key').orderBy('f.version'));
  const byEpisode = groupBy(labels, (label) => label.episode_id);
  const ids = [...byEpisode.keys()].sort();
  const entries = await readEntries(tx, ids);
  const episodes = await rowsOf(
    tx,
    facts
      .selectFrom('episodes as e')
      .leftJoin('tasks as t', 't.task_id', 'e.task_id')
      .select(['e.episode_id', 't.query as question', 't.ground_truth as reference'])
      .select([
        sql<string>`coalesce(e.task_id, e.episode_id)`.as('task'),
        sql<string>`coalesce(t.origin, '(none)')`.as('origin'),
        sql<string>`coalesce(t.difficulty, '(none)')`.as('difficulty'),
      ])
      .where('e.episode_id', '=', anyOf(ids))
      .orderBy('e.episode_id'),
  );
  const failed = await firstOf(
    tx,
    facts
      .selectFrom('episodes')
      .select(sql<number>`count(*)::integer`.as('n'))
      .where(HAS_FAILED)
      .where((episode) => episode.not(episode('episode_id', '=', anyOf(ids)))),
  );
  let [ambiguous, unlabelled] = [0, failed?.n ?? 0];
  const cases = episodes.flatMap((episode): LabelledCase[] => {
    const own = entries.get(episode.episode_id) ?? [];
    const labelled = (byEpisode.get(episode.episode_id) ?? []).map((label) => ({ label, blame: blameOf(label, own) }));
    const whole = labelled.filter(({ blame }) => blame.agent !== null && blame.entry !== null);
    const distinct = new Set(whole.map(({ blame }) => JSON.stringify(blame)));
    if (distinct.size === 0) unlabelled++;
    if (distinct.size > 1) ambiguous++;
    if (distinct.size !== 1) return [];
    const [{ label, blame }] = whole as [(typeof whole)[number]];
    const mismatch = label.flags?.includes('agent_mismatch') ?? false;
    return [{ ...episode, entries: own, truth: blame as LabelledCase['truth'], mismatch }];
  });
  return { cases, ambiguous, unlabelled };
}

/** Which failure it was, by a taxonomy of modes, is no answer to who and when. */
const LABELS = facts
  .selectFrom('feedback as f')
  .select([
    sql<string>`coalesce(f.episode_id, f.resolved_episode_id)`.as('episode_id'),
    'f.flags',
    'f.annotator',
    sql<string | null>`f.unmapped ->> 'method'`.as('method'),
    sql<string | null>`case when f.target_kind = 'agent' then f.target_id end`.as('agent'),
    'f.entry',
    sql<string | null>`case when f.target_kind = 'step' then f.target_id end`.as('step_id'),
  ])
  .where('f.kind', '=', 'failure')
  .where(sql`lower(coalesce(f.taxonomy ->> 'name', ''))`, '<>', 'mast')
  .where(sql`coalesce(f.episode_id, f.resolved_episode_id)`, 'is not', null);

function blameOf({ agent, entry, step_id }: InferResult<typeof LABELS>[number], entries: readonly CaseEntry[]): Blame {
  const at = entries.findIndex((one) => one.step_id !== null && one.step_id === step_id);
  if (at < 0) return { agent, entry };
  return { agent: agent ?? entries[at]!.agent, entry: entry ?? numberOf(entries, at) };
}

/** A name and its attributions by episode; an episode without one is not in the map. */
export type Attribution = { readonly name: string; readonly blames: ReadonlyMap<string, Blame> };

/**
 * Attributions by methods, each with its parameters where several were judged. The agent is that of rank 0; the entry is the surest of
 * all lines where the method gives scores, else that of rank 0.
 */
export async function judgedAttributions(tx: Session, method: string | null): Promise<Attribution[]> {
  const rows = await rowsOf(
    tx,
    facts
      .selectFrom('blames as b')
      .innerJoin('judged_methods as m', 'm.method_key', 'b.method_key')
      .select(['m.method', 'b.method_key', 'b.episode_id', 'b.agent_id', 'b.step_id', 'b.entry'])
      .select(sql<{ readonly entry_value?: number } | null>`b.detail`.as('detail'))
      .where('b.agent_id', 'is not', null)
      .$if(method !== null, (blames) => blames.where('m.method', '=', method!))
      .orderBy('b.method_key')
      .orderBy('b.episode_id')
      .orderBy('b.rank'),
  );
  type Line = (typeof rows)[number];
  const uncounted = new Set(
    rows.filter((row) => row.entry === null && row.step_id !== null).map((row) => row.episode_id),
  );
  const entries = await readEntries(tx, [...uncounted]);
  const entryOf = ({ entry, step_id, episode_id }: Line) => {
    const at = (entries.get(episode_id) ?? []).findIndex((one) => one.step_id !== null && one.step_id === step_id);
    return entry ?? (at < 0 ? null : at);
  };
  const byKey = groupBy(rows, (row) => row.method_key);
  const keysOf = groupBy(
    [...byKey.values()].map(([line]) => line!),
    (line) => line.method,
  );
  return [...byKey].map(([key, lines]) => {
    const { method: name } = lines[0]!;
    const blames = [...groupBy(lines, (line) => line.episode_id)].map(([id, ranked]): [string, Blame] => {
      const sure = (line: Line) => line.detail?.entry_value ?? Number.NEGATIVE_INFINITY;
      const surest = ranked.reduce((best, line) => (sure(line) > sure(best) ? line : best));
      return [id, { agent: ranked[0]!.agent_id, entry: entryOf(surest) }];
    });
    return { name: (keysOf.get(name)?.length ?? 1) > 1 ? key : name, blames: new Map(blames) };
  });
}

/** Feedback of kind failure by annotators: the last of each, for one of them or for all but those taken as right. */
export async function annotatedAttributions(tx: Session, annotator: string | null): Promise<Attribution[]> {
  const isAnnotation = annotator === null ? sql<SqlBool>`f.author = 'model'` : sql<SqlBool>`f.annotator = ${annotator}`;
  const rows = await rowsOf(
    tx,
    LABELS.where('f.annotator', 'is not', null)
      .where(isAnnotation)
      .orderBy('f.annotator')
      .orderBy('f.version')
      .$narrowType<{ annotator: NotNull }>(),
  );
  const entries = await readEntries(tx, [...new Set(rows.map((row) => row.episode_id))]);
  const named = groupBy(rows, (row) => (row.method === null ? row.annotator : `${row.annotator} (${row.method})`));
  return [...named].map(([name, labels]) => ({
    name,
    blames: new Map(
      labels
        .map((label): [string, Blame] => [label.episode_id, blameOf(label, entries.get(label.episode_id) ?? [])])
        .filter(([, { agent, entry }]) => agent !== null || entry !== null),
    ),
  }));
}
