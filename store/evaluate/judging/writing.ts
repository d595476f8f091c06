/** Writes the results of methods, in place of their earlier results for the same episodes. Rows go by COPY. */
import { Readable } from 'node:stream';
import { groupBy } from '../../../ingest/events/group-by.ts';
import { type ColumnType, type CopyColumn, copyRows } from '../../../ingest/log/copy-rows.ts';
import type { Session } from '../../db/pool.ts';
import { anyOf, countOf, facts, sql } from '../../db/query.ts';
import type { MethodRun } from '../methods/method.ts';
import { type EpisodeFacts, groupOf } from './facts.ts';
import type { Judgement, JudgementTable } from './judgement.ts';

const REWARDS = { episode_id: 'text', step_id: 'text', value: 'float8', reason: 'text' } as const;
/** Columns of each table beside `detail` and the key of the method. */
const COLUMNS: Readonly<Record<JudgementTable, Readonly<Record<string, ColumnType>>>> = {
  verdicts: { episode_id: 'text', step_id: 'text', keep: 'boolean', reason: 'text' },
  scores: { key: 'text', value: 'float8', reason: 'text' },
  rewards: REWARDS,
  credits: REWARDS,
  blames: { rank: 'integer', agent_id: 'text', entry: 'integer', ...REWARDS },
};

/** Names a method with its version and parameters once, so that its rows need only the key. */
export async function nameMethod(tx: Session, run: MethodRun): Promise<void> {
  const params = run.reads === null ? run.params : { ...run.params, reads: run.reads };
  const row = {
    method_key: run.key,
    method: run.name,
    version: run.version,
    kind: run.method.kind,
    params: JSON.stringify(params),
  };
  await countOf(
    tx,
    facts
      .insertInto('judged_methods')
      .values(row)
      .onConflict((known) => known.doNothing()),
  );
}

/** The earlier results of the method for these episodes, their groups and the whole set are deleted, whatever the new ones are. */
export async function clear(
  tx: Session,
  tables: readonly JudgementTable[],
  methodKey: string,
  episodes: readonly EpisodeFacts[],
): Promise<void> {
  const ids = episodes.map((episode) => episode.episode_id);
  for (const table of tables) {
    if (table !== 'scores') {
      await countOf(
        tx,
        facts.deleteFrom(table).where('episode_id', '=', anyOf(ids)).where('method_key', '=', methodKey),
        { name: `judge_clear_${table}` },
      );
      continue;
    }
    const keys = [...ids.map((id) => `e/${id}`), ...new Set(episodes.map((one) => `g/${groupOf(one)}`))];
    const scores = facts.deleteFrom('scores').where('method_key', '=', methodKey);
    await countOf(tx, scores.where('key', '=', anyOf(keys)), { name: 'judge_clear_scores' });
    // The result for a whole set is that of the last set that was judged.
    await countOf(tx, scores.where('key', 'like', sql.lit('s/%')), { name: 'judge_clear_sets' });
  }
}

/** Returns how many rows went to each table. */
export async function put(
  tx: Session,
  methodKey: string,
  judgements: readonly Judgement[],
): Promise<Partial<Record<JudgementTable, number>>> {
  const counts: Partial<Record<JudgementTable, number>> = {};
  for (const [table, rows] of groupBy(judgements, (judgement) => judgement.table)) {
    const columns: readonly CopyColumn[] = [
      ...Object.entries(COLUMNS[table]).map(([name, type]) => ({ name, type, part: 0 })),
      { name: 'detail', type: 'text', part: 1 },
      { name: 'method_key', type: 'text', part: 2 },
    ];
    const sql = `copy ${table} (${columns.map(({ name }) => name).join(', ')}) from stdin (format binary)`;
    const bytes = copyRows(partsOf(rows, methodKey), columns);
    counts[table] = await tx.copyIn(sql, Readable.from(bytes, { objectMode: false }));
  }
  return counts;
}

/** A detail of null is the JSON null; one that is absent is no value. */
function* partsOf(rows: readonly Judgement[], method_key: string) {
  const method = { method_key };
  for (const row of rows) yield [row, { detail: JSON.stringify(row.detail) }, method];
}
