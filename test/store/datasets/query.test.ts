import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { chosenOf, funnelQuery, LISTED_SETTINGS, rowsQuery } from '../../../store/datasets/query.ts';
import { parseRecipe } from '../../../store/datasets/recipe.ts';
import { literalSql, rowsOf } from '../../../store/db/query.ts';
import { freshDatabase, type TestDatabase } from '../../support/database.ts';

const EPISODES = 4000;
const METHOD = { method_key: 'k', method: 'm', version: 1, kind: 'credit', params: {} };

describe('the plan of a recipe', () => {
  let database: TestDatabase;
  beforeAll(async () => {
    database = await freshDatabase();
    await database.db.query(`
      insert into facts.episodes (episode_id) select 'e' || n from generate_series(1, ${EPISODES}) n;
      insert into facts.calls (episode_id, call_id, context) select 'e' || n, 'c', '00000000-0000-0000-0000-000000000001' from generate_series(1, ${EPISODES}) n;
      insert into troupe.bodies (key, hash, body) select 'e/e' || n, '00000000-0000-0000-0000-000000000001', '{"role":"user"}' from generate_series(1, ${EPISODES}) n;
      insert into facts.steps (episode_id, call_id, candidate, version)
        select 'e' || n, 'c', i, '|v' from generate_series(1, ${EPISODES}) n, generate_series(0, 9) i;
      insert into facts.credits (episode_id, step_id, method_key, value)
        select 'e' || n, 'c/' || i, 'k', 1 from generate_series(1, ${EPISODES}) n, generate_series(0, 9) i;
      insert into facts.verdicts (episode_id, step_id, method_key, keep)
        select 'e' || n, '', 'k', true from generate_series(1, ${EPISODES}) n;`);
  });
  afterAll(() => database.close());

  it.each([false, true])(
    'looks listed episodes up by key and reads no table whole (analyzed: %s)',
    async (analyzed) => {
      if (analyzed) await database.db.query('analyze');
      const ids = Array.from({ length: 192 }, (_, i) => `e${i * 20 + 1}`);
      const recipe = parseRecipe({
        name: 'x',
        where: { field: 'episode_id', op: 'in', value: ids },
        verdicts: [{ method: 'm' }],
        credit: 'm',
      });
      const used = { verdicts: [METHOD], reward: null, credit: METHOD };
      const chosen = chosenOf(ids, null);
      for (const query of [literalSql(funnelQuery(recipe, used, chosen)), rowsQuery(recipe, used, chosen, 'train')]) {
        const plan = await database.db.transaction(async (tx) => {
          await tx.query(LISTED_SETTINGS);
          return (await tx.query<{ 'QUERY PLAN': string }>(`explain ${query}`)).rows
            .map((row) => row['QUERY PLAN'])
            .join('\n');
        });
        expect(plan).not.toMatch(/Seq Scan on (steps|calls|credits|verdicts|bodies)/u);
        expect(plan).toMatch(/Index (Only )?Scan (using|on) steps_of_call/u);
      }
    },
  );

  it('makes the prompt of rows that are taken, once for each call, and no other', async () => {
    const ids = Array.from({ length: 20 }, (_, i) => `e${i + 1}`);
    await database.db.query(
      `update facts.credits set value = 2 where episode_id in ('e3', 'e4') and step_id in ('c/2', 'c/7')`,
    );
    const recipe = parseRecipe({ name: 'x', where: { field: 'advantage', op: '>', value: 1 }, credit: 'm' });
    const used = { verdicts: [], reward: null, credit: METHOD };
    for (const unit of ['step', 'group'] as const) {
      const query = rowsQuery({ ...recipe, unit }, used, chosenOf(ids, null), 'train');
      const { rows } = await database.db.query<{ 'QUERY PLAN': string }>(
        `explain (analyze, costs off, timing off, buffers off) ${query}`,
      );
      const made = rows.flatMap(
        (row) => /Function Scan on messages_of .*loops=(\d+)/u.exec(row['QUERY PLAN'])?.[1] ?? [],
      );
      expect(made.reduce((sum, loops) => sum + Number(loops), 0)).toBe(2);
    }
    await database.db.query(`update facts.credits set value = 1 where value = 2`);
  });

  it('lists few episodes, and repeats the condition where they are a large part of what there is', () => {
    const ids = (n: number) => Array.from({ length: n }, (_, i) => `e${i}`);
    expect(chosenOf(ids(900), 900).ids).toHaveLength(900);
    expect(chosenOf(ids(5000), null).ids).toHaveLength(5000);
    expect(chosenOf(ids(5000), 100_000).ids).toHaveLength(5000);
    expect(chosenOf(ids(5000), 10_000)).toEqual({ ids: null, all: false });
    expect(chosenOf(ids(5000), 5000)).toEqual({ ids: null, all: true });
    expect(chosenOf(ids(20_001), null)).toEqual({ ids: null, all: false });
  });

  it('gives the same rows where episodes are listed and where the condition is repeated', async () => {
    const recipe = parseRecipe({
      name: 'x',
      where: { field: 'episode_id', op: 'like', value: 'e12%' },
      verdicts: [{ method: 'm' }],
      credit: 'm',
    });
    const used = { verdicts: [METHOD], reward: METHOD, credit: METHOD };
    const ids = (
      await database.db.query<{ episode_id: string }>(
        `select episode_id from facts.episodes where episode_id like 'e12%'`,
      )
    ).rows;
    const rows = async (chosen: Parameters<typeof rowsQuery>[2]) =>
      (await database.db.query<unknown[]>(rowsQuery(recipe, used, chosen, 'train'), [], { array: true })).rows;
    const listed = await rows({ ids: ids.map((row) => row.episode_id), all: false });
    expect(listed).toHaveLength(1110);
    expect(await rows({ ids: null, all: false })).toEqual(listed);
    const funnel = async (chosen: Parameters<typeof funnelQuery>[2]) =>
      rowsOf(database.db, funnelQuery(recipe, used, chosen));
    expect(await funnel({ ids: null, all: false })).toEqual(
      await funnel({ ids: ids.map((row) => row.episode_id), all: false }),
    );
  });
});
