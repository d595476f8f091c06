/** Writes the results of methods, in place of their earlier results for the same episodes. Rows go by COPY. */
import { Readable } from 'node:stream';
import type { Session } from '../db/pool.ts';
import { anyOf, countOf, facts, sql } from '../db/query.ts';
import { groupBy } from '../methods/statistics.ts';
import { type EpisodeFacts, groupOf } from './facts.ts';
import type { Judgement, JudgementTable, MethodRun } from './judgement.ts';

const COLUMNS: Readonly<Record<JudgementTable, readonly string[]>> = {
  verdicts: ['episode_id', 'step_id', 'keep', 'reason', 'detail'],
  scores: ['key', 'value', 'reason', 'detail'],
  rewards: ['episode_id', 'step_id', 'value', 'reason', 'detail'],
  credits: ['episode_id', 'step_id', 'value', 'reason', 'detail'],
  blames: ['episode_id', 'rank', 'agent_id', 'step_id', 'entry', 'value', 'reason', 'detail'],
};

/** Names a method with its version and parameters once, so that its rows need only the key. */
export async function nameMethod(tx: Session, run: MethodRun, kind: string): Promise<void> {
  const params = run.reads === null ? run.params : { ...run.params, reads: run.reads };
  const row = { method_key: run.key, method: run.name, version: run.version, kind, params: JSON.stringify(params) };
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
    const columns = COLUMNS[table];
    const sql = `copy ${table} (${columns.join(', ')}, method_key) from stdin`;
    counts[table] = await tx.copyIn(sql, Readable.from(lines(columns, rows, field(methodKey)), { objectMode: false }));
  }
  return counts;
}

/** Rows that make about a megabyte of text. */
const ROWS_A_CHUNK = 8192;

function* lines(columns: readonly string[], rows: readonly Judgement[], key: string): Generator<Buffer> {
  for (let from = 0; from < rows.length; from += ROWS_A_CHUNK) {
    let text = '';
    for (const row of rows.slice(from, from + ROWS_A_CHUNK)) {
      const values = row as unknown as Readonly<Record<string, unknown>>;
      for (const column of columns)
        text += `${column === 'detail' ? jsonField(values.detail) : field(values[column])}\t`;
      text += `${key}\n`;
    }
    yield Buffer.from(text);
  }
}

const NULL = '\\N';

function field(value: unknown): string {
  if (value === null || value === undefined) return NULL;
  if (typeof value === 'string') return escaped(value);
  return Object.is(value, -0) ? '-0' : String(value);
}

const jsonField = (value: unknown): string => (value === undefined ? NULL : escaped(JSON.stringify(value)));

const ESCAPES: Readonly<Record<string, string>> = { '\\': '\\\\', '\t': '\\t', '\n': '\\n', '\r': '\\r' };
const escaped = (text: string): string =>
  /[\\\t\n\r]/.test(text) ? text.replace(/[\\\t\n\r]/g, (c) => ESCAPES[c]!) : text;
