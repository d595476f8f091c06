/** States and kinds with a closed list of values: the database refuses every other one, and takes all that an event may say. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Target, VOCABULARY } from '../../../ingest/events/events.ts';
import { METHODS } from '../../../store/evaluate/methods/find.ts';
import { freshDatabase, type TestDatabase } from '../../support/database.ts';

const JOB_OUTCOMES = VOCABULARY['job.finished'].properties.outcome.enum;

/** Columns with what may stand in them. */
const CHECKED: readonly (readonly [column: string, values: readonly string[]])[] = [
  ['facts.artifacts.role', VOCABULARY['artifact.attached'].properties.role.enum],
  ['facts.episodes.outcome', VOCABULARY['episode.finished'].properties.outcome.enum],
  ['facts.feedback.kind', VOCABULARY['feedback.recorded'].properties.kind.enum],
  ['facts.feedback.target_kind', Target.properties.kind.enum],
  ['facts.jobs.outcome', JOB_OUTCOMES],
  ['facts.tool_calls.status', VOCABULARY['tool.returned'].properties.status.enum],
  ['troupe.archives.state', ['writing', 'kept', 'restored', 'replaced']],
  ['troupe.erasures.kind', ['subject', 'episode']],
  ['troupe.job_queue.outcome', JOB_OUTCOMES],
  ['troupe.job_queue.state', ['waiting', 'running', 'finished']],
];

describe('a state or a kind', () => {
  let fresh: TestDatabase;
  beforeAll(async () => {
    fresh = await freshDatabase();
  });
  afterAll(() => fresh.close());

  /** Whether the constraint of the column that lists values holds for this one. */
  const takes = async (column: string, value: string): Promise<boolean> => {
    const [schema, table, name] = column.split('.') as [string, string, string];
    const { rows } = await fresh.db.query<{ check: string }>(
      `select pg_get_expr(conbin, conrelid) as check from pg_constraint
       where conrelid = $1::regclass and contype = 'c' and conkey = array[(select attnum from pg_attribute where attrelid = conrelid and attname = $2)]`,
      [`${schema}.${table}`, name],
    );
    expect(rows, column).toHaveLength(1);
    const { rows: answer } = await fresh.db.query<{ holds: boolean }>(
      `select ${rows[0]!.check} as holds from (select $1::text as ${name}) t`,
      [value],
    );
    return answer[0]!.holds;
  };

  it.each(CHECKED)('%s takes its own values and no other', async (column, values) => {
    for (const value of values) expect(await takes(column, value), value).toBe(true);
    for (const other of ['', 'Success', 'other']) expect(await takes(column, other), other).toBe(false);
  });

  it('of a method is that of the catalogue', async () => {
    for (const kind of new Set(METHODS.map((method) => method.kind))) {
      expect(await takes('facts.judged_methods.kind', kind), kind).toBe(true);
    }
    expect(await takes('facts.judged_methods.kind', 'other')).toBe(false);
  });

  it('that is none of them is refused by the tables', async () => {
    const insert = `insert into troupe.job_queue (job_id, kind, spec, state) values ('j', 'sft', '{}', 'lost')`;
    await expect(fresh.db.query(insert)).rejects.toMatchObject({ code: '23514' });
  });
});
