/** How the log and the projector ask: by key, also where a plan was made while the tables held next to nothing. */
import { expect, it } from 'vitest';
import { decodeDraft } from '../../ingest/events/decode.ts';
import type { Event } from '../../ingest/events/events.ts';
import { cutOtlp } from '../../ingest/formats/traces/live-traces.ts';
import { KEYED } from '../../ingest/log/keyed.ts';
import { postgresLog } from '../../ingest/log/postgres.ts';
import { decodeOtlp } from '../../ingest/traces/otlp/decode.ts';
import type { Db, Session } from '../../store/db/pool.ts';
import { projectAll } from '../../store/projecting/projector.ts';
import { freshDatabase } from '../support/database.ts';
import { anEpisode, event } from './support/events.ts';

/** They have a row for each partition of a log, for each archive, or for what the last batches left to apply. */
const SMALL = /on (log_partitions|positions|archives|pending_changes)\b/;

/** The database, and the text of every named statement that was asked of it. */
function watched(db: Db): { readonly db: Db; readonly asked: ReadonlyMap<string, string> } {
  const asked = new Map<string, string>();
  const watch = (session: Session): Session => ({
    ...session,
    query: (sql, params, options) => {
      if (options?.name) asked.set(options.name, sql);
      return session.query(sql, params, options);
    },
  });
  const transaction: Db['transaction'] = (work, options) => db.transaction((tx) => work(watch(tx)), options);
  return { db: { ...db, ...watch(db), transaction }, asked };
}

/** Lines of the plan that read a relation without looking up something equal in its index. */
async function wholeReads(db: Db, sql: string): Promise<readonly string[]> {
  const lines = await db.transaction(
    async (tx) => {
      await tx.query('set local search_path = facts, pg_catalog');
      await tx.query(`prepare one as ${sql}`);
      const { rows } = await tx.query<{ types: string[] }>(
        `select parameter_types::text[] as types from pg_prepared_statements where name = 'one'`,
      );
      const values = rows[0]!.types.map((type) => `null::${type}`).join(', ');
      const plan = await tx.query<Record<string, string>>(
        `explain (costs off) execute one${values === '' ? '' : `(${values})`}`,
      );
      await tx.query('deallocate one');
      return plan.rows.map((row) => Object.values(row)[0]!);
    },
    { settings: KEYED },
  );
  return lines.filter(
    (line, i) =>
      (/Seq Scan|Index (Only )?Scan|Bitmap Heap Scan/.test(line) &&
        !SMALL.test(line) &&
        !lines.slice(i + 1, i + 4).some((next) => /(Index|Recheck) Cond: .*[^<>]= /.test(next))) ||
      /hashed SubPlan/.test(line),
  );
}

const SPAN = { traceId: '0af7651916cd43dd8448eb211c80319c', kind: 1, startTimeUnixNano: '1', endTimeUnixNano: '2' };
const spanNamed = (name: string, n: number): Event[] =>
  cutOtlp(
    decodeOtlp({
      resourceSpans: [{ scopeSpans: [{ spans: [{ ...SPAN, name, spanId: `00f067aa0ba902b${n}`, attributes: [] }] }] }],
    }),
  ).flatMap(({ drafts }) => drafts.map((draft) => decodeDraft(draft).event!));

it('No statement of an append or a batch reads a table whole, though its plan was made for a handful of rows', async () => {
  const fresh = await freshDatabase();
  try {
    const { db, asked } = watched(fresh.db);
    const log = postgresLog(db);
    const record = async (events: readonly Event[]) => {
      await log.append(events);
      await projectAll(db);
    };
    await record([...anEpisode('e1'), ...anEpisode('e2'), ...spanNamed('first', 1)]);
    await fresh.db.query('analyze');
    const more = Array.from({ length: 20 }, (_, i) => anEpisode(`f${i}`));
    const [early, late] = [more.flatMap((one) => one.slice(0, 6)), more.flatMap((one) => one.slice(6))];
    const word = { name: 'rating', kind: 'score' as const, value: 1 };
    await record([
      ...early,
      event('feedback.recorded', { ...word, feedback_id: 'w', target: { kind: 'foreign', id: 'r' } }),
    ]);
    await record([...late, ...spanNamed('second', 2)]);
    await log.append([3, 4, 5].flatMap((n) => spanNamed('more', n)));
    await projectAll(db, { perPartition: 2 });
    expect([...asked.keys()]).toContain('spans_told');
    expect(asked.size).toBeGreaterThan(30);
    const found: Record<string, readonly string[]> = {};
    for (const [name, sql] of asked) {
      const reads = await wholeReads(fresh.db, sql);
      if (reads.length > 0) found[name] = reads;
    }
    expect(found).toEqual({});
  } finally {
    await fresh.close();
  }
});
