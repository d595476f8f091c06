import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { postgresLog } from '../../ingest/log/postgres.ts';
import { openPool } from '../../store/db/pool.ts';
import { judge, judgeAgain, lapsedMethods, unjudged } from '../../store/evaluate/judging/judge.ts';
import { findMethod } from '../../store/evaluate/methods/find.ts';
import { projectAll } from '../../store/projecting/projector.ts';
import { checksum } from '../../store/projecting/rebuilding/checksum.ts';
import { rebuild } from '../../store/projecting/rebuilding/rebuild.ts';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { anEpisode, anExecution, at, event } from './support/events.ts';

const METHODS = [
  { method: 'cosigned_rewards' },
  { method: 'floored_advantage', reads: 'cosigned_rewards' },
  { method: 'grpo_advantage' },
  { method: 'well_formed_filter' },
  { method: 'agreement_score' },
  { method: 'correctness_filter' },
];

describe('a rebuild', () => {
  let fresh: TestDatabase;
  beforeEach(async () => {
    fresh = await freshDatabase({ max: 8 });
  });
  afterEach(() => fresh.close());
  let clock = 0;
  const now = () => new Date(Date.UTC(2026, 9, 1) + clock++);

  it('P15: recomputes judgements, also after a cell was amended and judged again, and after every table was emptied', async () => {
    const log = postgresLog(fresh.db);
    await log.append([...anExecution('e1'), ...anExecution('e2', { reward: 0 })]);
    await projectAll(fresh.db);
    const episodes = await unjudged(fresh.db, METHODS, { now: now() });
    expect(episodes).toEqual(['e1', 'e2']);
    await judge(fresh.db, log, { methods: METHODS, episodes, now });
    await judge(fresh.db, log, { methods: [{ method: 'drmas_advantage' }], episodes: ['e1'], now });
    const first = await fresh.db.query(`select * from facts.rewards order by 1, 2, 3`);
    await log.append([
      event(
        'record.amended',
        {
          key: 'e/e1',
          target: { source: '/test', id: 'e1-matrix' },
          op: 'set',
          set: [{ path: '/matrix/pass/0/0', value: 0 }],
        },
        { id: 'cell', time: at(50) },
      ),
    ]);
    await projectAll(fresh.db);
    expect(await unjudged(fresh.db, METHODS, { now: now() })).toEqual(['e1']);
    await judge(fresh.db, log, { methods: METHODS, episodes: ['e1'], now });
    await judge(fresh.db, log, { methods: [{ method: 'drmas_advantage' }], episodes: ['e1'], now });
    await projectAll(fresh.db);
    expect((await fresh.db.query(`select * from facts.rewards order by 1, 2, 3`)).rows).not.toEqual(first.rows);
    const before = await checksum(fresh.db);
    for (const table of ['rewards', 'credits', 'verdicts', 'scores', 'judgings'])
      expect(before.tables[table]?.rows, table).toBeGreaterThan(0);

    await rebuild(fresh.db, { judge: judgeAgain, portion: 2 });
    expect(await checksum(fresh.db)).toEqual(before);
    expect(await unjudged(fresh.db, METHODS, { now: now() })).toEqual([]);

    const { rows } = await fresh.db.query<{ tables: string }>(
      `select string_agg('facts.' || relname, ', ') as tables from pg_class where relnamespace = 'facts'::regnamespace and relkind = 'r'`,
    );
    await fresh.db.query(`truncate ${rows[0]?.tables}`);
    await rebuild(fresh.db, { judge: judgeAgain });
    expect(await checksum(fresh.db)).toEqual(before);
    await log.append(anEpisode('e3', { task: 'task-1' }));
    await projectAll(fresh.db);
    expect(await unjudged(fresh.db, METHODS, { now: now() })).toContain('e3');
  });

  it('is interrupted between two portions: the tables stay as they were, and what it had made is gone', async () => {
    const log = postgresLog(fresh.db);
    for (let n = 0; n < 6; n++) await log.append(anExecution(`e${n}`));
    await projectAll(fresh.db);
    await judge(fresh.db, log, { methods: METHODS, episodes: ['e0', 'e1'], now });
    await projectAll(fresh.db);
    const before = await checksum(fresh.db);
    const stop = new AbortController();
    const ended = rebuild(fresh.db, {
      judge: judgeAgain,
      portion: 2,
      signal: stop.signal,
      onProgress: ({ applied }) => applied >= 4 && stop.abort(),
    });
    await expect(ended).rejects.toMatchObject({
      code: 'interrupted',
      message: expect.stringContaining('Nothing was changed'),
    });
    expect(await checksum(fresh.db)).toEqual(before);
    const { rows } = await fresh.db.query<{ left: boolean }>(
      `select to_regnamespace('facts_next') is not null as left`,
    );
    expect(rows).toEqual([{ left: false }]);
    await rebuild(fresh.db, { judge: judgeAgain });
    expect(await checksum(fresh.db)).toEqual(before);
  });

  it('does not recompute what another version of a method said, and names the method until its new version was run', async () => {
    const log = postgresLog(fresh.db);
    await log.append([...anExecution('e1'), ...anExecution('e2', { reward: 0 })]);
    await projectAll(fresh.db);
    await judge(fresh.db, log, { methods: METHODS, episodes: ['e1', 'e2'], now });
    expect(await lapsedMethods(fresh.db)).toEqual([]);
    const ofOtherReleases = [
      { name: 'drmas_advantage', version: 1, params: {}, reads: null },
      { name: 'given_up_advantage', version: 3, params: {}, reads: null },
    ];
    await log.append([
      event(
        'judge.completed',
        { judge_id: 'judged-by-an-older-release', methods: ofOtherReleases, episodes: ['e1', 'e2'] },
        { id: 'judged-by-an-older-release', time: at(40) },
      ),
    ]);
    await projectAll(fresh.db);
    await rebuild(fresh.db, { judge: judgeAgain });
    const named = { name: 'given_up_advantage', version: 3, known: null };
    const known = findMethod('drmas_advantage').version;
    expect(known).toBeGreaterThan(1);
    expect(await lapsedMethods(fresh.db)).toEqual([{ name: 'drmas_advantage', version: 1, known }, named]);
    await judge(fresh.db, log, { methods: [{ method: 'drmas_advantage' }], episodes: ['e1', 'e2'], now });
    await projectAll(fresh.db);
    expect(await lapsedMethods(fresh.db)).toEqual([named]);
  });

  it('loses no judgement that is made while it runs', async () => {
    const log = postgresLog(fresh.db);
    await log.append(Array.from({ length: 12 }, (_, i) => anExecution(`e${i}`, { task: `t${i % 3}` })).flat());
    await projectAll(fresh.db);
    const judging = (async () => {
      for (let i = 0; i < 12; i++) await judge(fresh.db, log, { methods: METHODS, episodes: [`e${i}`], now });
    })();
    await rebuild(fresh.db, { judge: judgeAgain, portion: 2 });
    await judging;
    await projectAll(fresh.db);
    const after = await checksum(fresh.db);
    expect(after.tables.judgings?.rows).toBe(12);
    await rebuild(fresh.db, { judge: judgeAgain });
    expect(await checksum(fresh.db)).toEqual(after);
  });

  it('notifies the judge of the episodes that changed in the new tables only, and of no other', async () => {
    const log = postgresLog(fresh.db);
    await log.append([...anExecution('e1'), ...anExecution('e2'), ...anExecution('e3', { task: 'task-3' })]);
    await projectAll(fresh.db);
    const episodes = await unjudged(fresh.db, METHODS, { now: now() });
    await judge(fresh.db, log, { methods: METHODS, episodes, now });
    await projectAll(fresh.db);
    expect(await unjudged(fresh.db, METHODS, { now: now() })).toEqual([]);
    await fresh.db.query('update facts.episodes set revision = revision + 50');
    await fresh.db.query('update troupe.judged_revisions set revision = revision + 50');
    await log.append([event('task.defined', { task_id: 'task-3', query: 'otherwise' }, { id: 'again', time: at(90) })]);
    await rebuild(fresh.db, { judge: judgeAgain });
    expect(await unjudged(fresh.db, METHODS, { now: now() })).toEqual(['e3']);
  });

  it('is refused while another one runs, from its first moment to its last, and leaves one set of tables', async () => {
    await postgresLog(fresh.db).append(Array.from({ length: 20 }, (_, i) => anEpisode(`e${i}`)).flat());
    const other = openPool(fresh.url, { max: 3 });
    const refused: unknown[] = [];
    await rebuild(fresh.db, {
      judge: async () => void refused.push(await rebuild(other, { judge: judgeAgain }).catch((error) => error.code)),
      portion: 2,
    });
    await other.close();
    expect(refused).toEqual(['conflict', 'conflict']);
    const { rows } = await fresh.db.query(`select nspname from pg_namespace where nspname like 'facts%'`);
    expect(rows).toEqual([{ nspname: 'facts' }]);
  });

  it('waits for a reader that holds the old tables, and does not deadlock with it', async () => {
    await postgresLog(fresh.db).append(anEpisode('e1'));
    await projectAll(fresh.db);
    let rebuilding: Promise<unknown> | undefined;
    const seen = await fresh.db.transaction(
      async (tx) => {
        const first = await tx.query('select count(*)::integer as n from traj.episodes');
        rebuilding = rebuild(fresh.db, { judge: judgeAgain });
        await new Promise((resolve) => setTimeout(resolve, 1500));
        const second = await tx.query('select count(*)::integer as n from traj.steps');
        return [first.rows[0], second.rows[0]];
      },
      { isolation: 'repeatable read', readOnly: true },
    );
    expect(seen).toEqual([{ n: 1 }, { n: 3 }]);
    await rebuilding;
  });

  it('is refused where a view of somebody else reads the tables directly, and names it', async () => {
    await fresh.db.query('create schema theirs; create view theirs.mine as select episode_id from facts.episodes');
    await expect(rebuild(fresh.db, { judge: judgeAgain })).rejects.toMatchObject({
      code: 'conflict',
      message: expect.stringContaining('theirs.mine'),
    });
    await fresh.db.query('drop view theirs.mine; create view theirs.good as select episode_id from traj.episodes');
    await postgresLog(fresh.db).append(anEpisode('e1'));
    await rebuild(fresh.db, { judge: judgeAgain });
    expect((await fresh.db.query('select * from theirs.good')).rows).toEqual([{ episode_id: 'e1' }]);
  });

  it('leaves out what this release cannot recompute, instead of never rebuilding again', async () => {
    const log = postgresLog(fresh.db);
    await log.append([
      ...anEpisode('e1'),
      event('judge.completed', {
        judge_id: 'old',
        methods: [
          { name: 'grpo_advantage', version: 999, params: {} },
          { name: 'no_such_method', version: 1, params: {} },
          { name: 'agreement_score', version: 1, params: {} },
        ],
        episodes: ['e1'],
      }),
    ]);
    await rebuild(fresh.db, { judge: judgeAgain });
    expect((await fresh.db.query('select distinct method from traj.credits')).rows).toEqual([]);
    expect((await fresh.db.query('select distinct method from traj.scores')).rows).toEqual([
      { method: 'agreement_score' },
    ]);
  });
});
