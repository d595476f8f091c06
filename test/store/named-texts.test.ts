/** Long texts that lie once, as bodies, and are whole to whoever reads them. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { decodeDraft } from '../../ingest/events/decode.ts';
import type { Draft } from '../../ingest/events/events.ts';
import { postgresLog, removeBodies } from '../../ingest/log/postgres.ts';
import { toolFacts } from '../../store/evaluate/judging/episode-facts.ts';
import { judgeAgain } from '../../store/evaluate/judging/judge.ts';
import { reconcile } from '../../store/log/reconcile.ts';
import { projectAll } from '../../store/projecting/projector.ts';
import { checksum } from '../../store/projecting/rebuilding/checksum.ts';
import { rebuild } from '../../store/projecting/rebuilding/rebuild.ts';
import { freshDatabase, type TestDatabase } from '../support/database.ts';

const PROMPT = `You book flights. ${'Ask before you pay. '.repeat(60)}`;
const RESULT = `No seat. ${'x'.repeat(600)}`;
const EPISODE = 'episode-long';

describe('A long text', () => {
  let fresh: TestDatabase;
  beforeAll(async () => {
    fresh = await freshDatabase();
    const drafts = [
      ['agent.defined', { agent_id: 'a', system_instructions: PROMPT }],
      ['message.sent', { message_id: 'm1', role: 'system', content: PROMPT }],
      [
        'message.sent',
        {
          message_id: 'm2',
          role: 'user',
          content: [
            { type: 'text', content: PROMPT },
            { type: 'text', content: 'Now.' },
          ],
        },
      ],
      ['tool.called', { tool_call_id: 't', name: 'book', arguments: {} }],
      ['tool.returned', { tool_call_id: 't', status: 'ok', output: { text: RESULT, count: 1 } }],
    ].map(([name, data], i) => ({
      name,
      id: `${i}`,
      source: '/test',
      time: '2026-11-23T10:00:00Z',
      data: { episode_id: EPISODE, ...(data as object) },
    }));
    await postgresLog(fresh.db).append(drafts.map((draft) => decodeDraft(draft as unknown as Draft).event!));
    await projectAll(fresh.db);
  });
  afterAll(() => fresh.close());

  const one = async (sql: string) => (await fresh.db.query<Record<string, unknown>>(sql)).rows;

  it('lies once, though an agent, a message and their events have it', async () => {
    expect(
      await one(`select count(*)::integer as n from troupe.bodies where troupe.text_named(key, hash) = '${PROMPT}'`),
    ).toEqual([{ n: 1 }]);
    const [row] = await one(`
      select (select max(length(system_instructions)) from facts.agents) as agent, (select max(length(text)) from facts.messages) as message,
             (select max(length(output::text)) from facts.tool_calls) as output`);
    for (const length of Object.values(row!)) expect(length).toBeLessThan(80);
  });

  it('is whole in the views, in what the judge reads, and after a rebuild', async () => {
    const shown = async () => [
      await one('select system_instructions as text from traj.agents'),
      await one('select text from traj.messages order by message_id'),
      await one('select output from traj.tool_calls'),
      await fresh.db.transaction(
        async (tx) => [...(await toolFacts(tx, [EPISODE])).values()].flat().map(({ output }) => ({ output })),
        { settings: 'set local search_path = facts' },
      ),
    ];
    const output = { text: RESULT, count: 1 };
    const whole = [[{ text: PROMPT }], [{ text: PROMPT }, { text: `${PROMPT}\nNow.` }], [{ output }], [{ output }]];
    expect(await shown()).toEqual(whole);
    await rebuild(fresh.db, { judge: judgeAgain });
    expect(await shown()).toEqual(whole);
  });

  it('is shown to whoever may read nothing but the views', async () => {
    const text = await fresh.db.transaction(async (tx) => {
      await tx.query('create role reads_texts; grant usage on schema traj to reads_texts');
      await tx.query('grant select on traj.agents to reads_texts; set local role reads_texts');
      const { rows } = await tx.query<{ text: string }>('select system_instructions as text from traj.agents');
      await tx.query('reset role; drop owned by reads_texts; drop role reads_texts');
      return rows[0]!.text;
    });
    expect(text).toBe(PROMPT);
  });

  it('counts in the checksum of the tables that name it', async () => {
    const before = await checksum(fresh.db);
    await fresh.db.query(`update troupe.blobs set bytes = 'another' where bytes = convert_to('${PROMPT}', 'UTF8')`);
    const after = await checksum(fresh.db);
    for (const table of ['agents', 'messages']) expect(after.tables[table]).not.toEqual(before.tables[table]);
    expect(after.tables.tool_calls).toEqual(before.tables.tool_calls);
    await fresh.db.query(`update troupe.blobs set bytes = convert_to('${PROMPT}', 'UTF8') where bytes = 'another'`);
    expect(await checksum(fresh.db)).toEqual(before);
  });
});

describe('A text that several episodes hold', () => {
  let fresh: TestDatabase;
  const EPISODES = ['episode-one', 'episode-two'];
  beforeAll(async () => {
    fresh = await freshDatabase();
    const drafts = EPISODES.map((episode_id) => ({
      name: 'agent.defined',
      id: episode_id,
      source: '/test',
      time: '2026-11-23T10:00:00Z',
      data: { episode_id, agent_id: 'a', system_instructions: PROMPT },
    }));
    await postgresLog(fresh.db).append(drafts.map((draft) => decodeDraft(draft as unknown as Draft).event!));
    await projectAll(fresh.db);
  });
  afterAll(() => fresh.close());

  const rows = async (sql: string) => (await fresh.db.query<Record<string, unknown>>(sql)).rows;
  const shown = () => rows('select episode_id, system_instructions as text from traj.agents order by episode_id');

  it('lies once for all of them, and each shows it', async () => {
    expect(await rows('select octet_length(bytes) as size from troupe.blobs')).toEqual([{ size: PROMPT.length }]);
    expect(await shown()).toEqual(EPISODES.map((episode_id) => ({ episode_id, text: PROMPT })));
    expect(await rows('select 1 from traj.artifacts')).toEqual([]);
    expect((await reconcile(fresh.db)).ok).toBe(true);
  });

  it('goes with the last key that names it, and counts as no file', async () => {
    const remove = (episode: string) => fresh.db.transaction((tx) => removeBodies(tx, [`e/${episode}`]));
    const left = () => rows('select count(*)::integer as n from troupe.blobs');
    expect([await remove('episode-one'), await left()]).toEqual([0, [{ n: 1 }]]);
    expect([await remove('episode-two'), await left()]).toEqual([0, [{ n: 0 }]]);
  });
});
