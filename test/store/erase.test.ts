import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { lineageTree } from '../../api/operations/lineage/text.ts';
import type { Event } from '../../ingest/events/events.ts';
import { sha256 } from '../../ingest/events/json.ts';
import { fileArtifacts } from '../../ingest/log/artifacts.ts';
import { postgresBook, postgresLog } from '../../ingest/log/postgres.ts';
import { freeze } from '../../store/datasets/freeze.ts';
import { rowsOf } from '../../store/db/query.ts';
import { judge, judgeAgain } from '../../store/evaluate/judging/judge.ts';
import { lineageOf } from '../../store/explore/lineage.ts';
import { type Erasure, erase, planErasure } from '../../store/keep/erase.ts';
import { keysNaming } from '../../store/keep/erase-scope.ts';
import { erasuresOf } from '../../store/keep/marks.ts';
import { projectAll } from '../../store/projecting/projector.ts';
import { checksum } from '../../store/projecting/rebuilding/checksum.ts';
import { rebuild } from '../../store/projecting/rebuilding/rebuild.ts';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { anEpisode, aStory, at, event } from './support/events.ts';

const SECRET = 'Ann-Lives-In-Oslo';

/** An episode in which every place that can hold text holds hers, raw record included. */
function hers(id: string, body: string): Event[] {
  const e = <N extends Parameters<typeof event>[0]>(n: number, name: N, data: object) =>
    event(name, { episode_id: id, ...data } as never, { id: `${id}-h${n}`, time: at(20 + n) });
  return [
    ...anEpisode(id, { task: `task of ${id}` }),
    event(
      'task.defined',
      { task_id: `task of ${id}`, query: SECRET, tags: { who: SECRET } },
      { id: `${id}-t`, time: at(19) },
    ),
    e(0, 'episode.started', {
      subject: 'ann',
      task_id: `task of ${id}`,
      tags: { [SECRET]: SECRET },
      session_id: SECRET,
      raw: { artifact_id: sha256(body) },
    }),
    e(1, 'message.sent', {
      message_id: 'm9',
      from: 'user',
      content: [{ type: 'text', content: SECRET }],
      unmapped: { x: SECRET },
    }),
    e(2, 'generation.requested', {
      call_id: 'c9',
      agent_id: 'solver',
      input: [{ role: 'user', content: SECRET, name: SECRET }],
      tools: [SECRET],
      params: { stop: SECRET },
    }),
    e(3, 'generation.completed', {
      call_id: 'c9',
      response_id: `r-${id}`,
      choices: [{ index: 0, content: SECRET, token_ids: [7, 7, 7], top: SECRET }],
      prompt_token_ids: [1],
      usage: { output_tokens: 3 },
      error: { why: SECRET },
    }),
    e(4, 'tool.called', {
      tool_call_id: 't9',
      call_id: 'c9',
      name: 'mail',
      arguments: { to: SECRET, phone: 4712345678 },
      arguments_raw: SECRET,
    }),
    e(5, 'tool.returned', { tool_call_id: 't9', status: 'ok', output: { said: [SECRET] } }),
    e(6, 'decision.made', { kind: 'stop', decision: { because: SECRET }, by: 'solver' }),
    e(7, 'environment.observed', { kind: 'state', state: { name: SECRET }, content: SECRET }),
    e(8, 'artifact.attached', {
      artifact_id: sha256(body),
      role: 'raw-record',
      sha256: sha256(body),
      name: SECRET,
      uri: SECRET,
    }),
    e(9, 'feedback.recorded', {
      feedback_id: 'f9',
      target: { kind: 'step', id: 'c9/0', episode_id: id },
      kind: 'label',
      name: 'tone',
      label: SECRET,
      value: SECRET,
      explanation: SECRET,
      annotator: SECRET,
    }),
    event(
      'feedback.recorded',
      {
        feedback_id: `late-${id}`,
        target: { kind: 'foreign', id: `r-${id}` },
        kind: 'score',
        name: 'helpful',
        value: 0.5,
        explanation: SECRET,
      },
      { id: `late-${id}` },
    ),
    event(
      'record.amended',
      {
        key: `e/${id}`,
        target: { source: '/test', id: `${id}-h1` },
        op: 'merge',
        patch: { content: `${SECRET} again` },
        reason: SECRET,
      },
      { id: `${id}-a1`, time: at(40) },
    ),
    event(
      'record.amended',
      {
        key: `e/${id}`,
        target: { source: '/test', id: `${id}-11` },
        op: 'set',
        set: [{ path: '/value', value: 0.25 }],
      },
      { id: `${id}-a2`, time: at(41) },
    ),
  ];
}

describe('an erasure', () => {
  const BODY = JSON.stringify({ raw: SECRET });
  let fresh: TestDatabase;
  let folder: string;
  let done: Erasure;
  let before: Record<string, unknown>[];
  const all = [...hers('ann-1', BODY), ...aStory()];
  const counts = async () =>
    (
      await fresh.db.query(
        `select episode_id, calls, steps, tool_calls, messages, feedback, agents, reward, outcome, closed, input_tokens, output_tokens, started_at, finished_at
         from traj.episodes order by 1`,
      )
    ).rows;

  beforeAll(async () => {
    fresh = await freshDatabase();
    folder = mkdtempSync(join(tmpdir(), 'troupe-erase-'));
    const { db } = fresh;
    const log = postgresLog(db);
    const artifacts = fileArtifacts(join(folder, 'artifacts'));
    await artifacts.put([BODY]);
    await log.append(all);
    await postgresBook(db).report({
      endpoint: 'http',
      received: 1,
      acknowledged: 0,
      duplicates: 0,
      rejected: [
        {
          place: `[0] ${SECRET}`,
          raw: Buffer.from(`{"episode_id":"ann-1","x":"${SECRET}"`),
          refusal: { code: 'bad_json', field: SECRET, expected: 'one JSON value', got: SECRET },
        },
      ],
    });
    await projectAll(db);
    const now = () => new Date('2026-11-21T12:00:00Z');
    await judge(db, log, {
      methods: [{ method: 'well_formed_filter' }, { method: 'group_relative_advantage' }].slice(0, 1),
      episodes: ['ann-1', 'e1', 'e2'],
      now,
    });
    const frozen = await freeze(
      db,
      { name: 'both', unit: 'step', layout: ['jsonl'] },
      { directory: join(folder, 'datasets'), codeVersion: '0', log, at: now().toISOString() },
    );
    await log.append([
      event('checkpoint.saved', { checkpoint_id: 'k1', dataset_ids: [frozen.manifest.dataset_id] }),
      event('checkpoint.saved', { checkpoint_id: 'k2', parent_id: 'k1' }),
      event('checkpoint.saved', { checkpoint_id: 'k0' }),
    ]);
    await projectAll(db);
    before = await counts();
    const interrupted = rebuild(db, { judge: () => Promise.reject(new Error('interrupted')) });
    await expect(interrupted).rejects.toThrow('interrupted');
    done = await erase(
      db,
      { subject: 'ann' },
      {
        log,
        now,
        judge: judgeAgain,
        removeBody: artifacts.remove,
        removeDataset: async ({ uri }) => {
          rmSync(uri!, { recursive: true });
          return true;
        },
      },
    );
    await projectAll(db);
  });
  afterAll(async () => {
    rmSync(folder, { recursive: true, force: true });
    await fresh.close();
  });

  /** Every cell of every table of the project, and every file. */
  async function everything(): Promise<string> {
    const { rows: tables } = await fresh.db.query<{ name: string }>(
      `select format('%I.%I', n.nspname, c.relname) as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
       where (n.nspname = 'troupe' or n.nspname like 'facts%') and c.relkind = 'r'`,
    );
    const texts: string[] = [];
    for (const { name } of tables) {
      const { rows } = await fresh.db.query<{ row: string }>(`select (t.*)::text as row from ${name} t`);
      texts.push(...rows.map(({ row }) => row));
    }
    const { rows: letters } = await fresh.db.query<{ raw: Buffer }>('select raw from troupe.dead_letters');
    texts.push(...letters.map(({ raw }) => raw.toString('utf8')));
    for (const file of readdirSync(folder, { recursive: true, withFileTypes: true }).filter((one) => one.isFile()))
      texts.push(readFileSync(join(file.parentPath, file.name), 'utf8'));
    return texts.join('\n');
  }

  it('P49: leaves no text of the subject in log, tables, dead letters, artifacts, datasets and a rebuild that was interrupted, and none of its hashes', async () => {
    const text = await everything();
    expect(text).not.toContain(SECRET);
    expect(text).not.toContain('4712345678');
    expect(text).not.toContain(sha256(BODY));
    for (const one of hers('ann-1', BODY)) expect(text).not.toContain(one.digest);
    expect(text).toContain('What is task-1?');
    const { rows } = await fresh.db.query(
      `select token_ids from traj.steps where episode_id = 'ann-1' and token_ids is not null`,
    );
    expect(rows).toEqual([]);
  });

  it('P49: keeps ids, kinds, counts, rewards and times of every episode', async () => {
    expect(await counts()).toEqual(before);
    expect(before.find((row) => row.episode_id === 'ann-1')).toMatchObject({ reward: 0.25, calls: 3 });
    const { rows } = await fresh.db.query<{ id: string }>(
      `select id from troupe.events where key = 'e/ann-1' and source = '/test' order by id`,
    );
    expect(rows.map(({ id }) => id)).toEqual(
      hers('ann-1', BODY)
        .filter(({ key }) => key === 'e/ann-1')
        .map(({ id }) => id)
        .sort(),
    );
  });

  it('P49: a rebuild afterwards gives the same tables', async () => {
    const now = await checksum(fresh.db);
    await rebuild(fresh.db, { judge: judgeAgain });
    expect(await checksum(fresh.db)).toEqual(now);
  });

  it('P50: lists and marks the datasets and checkpoints that used it, also by way of a parent', async () => {
    expect(done.datasets).toEqual([{ dataset_id: expect.any(String), removed: true }]);
    expect(done.checkpoints).toEqual(['k1', 'k2']);
    const { rows } = await fresh.db.query(
      'select kind, used_by, used_by_id, removed from traj.erasures order by used_by, used_by_id',
    );
    expect(rows).toEqual([
      { kind: 'subject', used_by: 'checkpoint', used_by_id: 'k1', removed: false },
      { kind: 'subject', used_by: 'checkpoint', used_by_id: 'k2', removed: false },
      { kind: 'subject', used_by: 'dataset', used_by_id: done.datasets[0]!.dataset_id, removed: true },
    ]);
    expect(JSON.stringify(rows)).not.toContain('ann');
    // Whoever shows one of them shows the same marks.
    const mark = [done.erasure_id];
    expect([...(await erasuresOf(fresh.db, 'checkpoint', ['k0', 'k1', 'k2']))].toSorted()).toEqual([
      ['k1', mark],
      ['k2', mark],
    ]);
    const [tree] = await lineageOf(fresh.db, 'k2');
    expect(tree).toMatchObject({ erasures: mark, comes_from: { children: [{ id: 'k1', erasures: mark }] } });
    expect(lineageTree(tree!).split('\n')[0]).toBe(`checkpoint k2; used what was erased (${done.erasure_id})`);
    expect((await lineageOf(fresh.db, 'k0'))[0]!.erasures).toBeNull();
  });

  it('refuses the same events, and new ones about them, as erased', async () => {
    const again = await postgresLog(fresh.db).append([
      ...hers('ann-1', BODY),
      event('message.sent', { episode_id: 'ann-1', message_id: 'new', content: SECRET }),
      event('message.sent', { episode_id: 'e1', message_id: 'new', content: 'fine' }),
    ]);
    expect(new Set(again.slice(0, -1))).toEqual(new Set(['erased']));
    expect(again.at(-1)).toBe('accepted');
    await projectAll(fresh.db);
    expect(await everything()).not.toContain(SECRET);
  });

  it('keeps nothing of a record that names an erased episode and is refused for its form', async () => {
    const malformed = (id: string, text: string) => ({
      place: `[1] ${id}`,
      raw: Buffer.from(`{"episode_id" : "${id}", "agent_id": 7, "messages": "${text}"`),
      refusal: { code: 'bad_json', field: '', expected: 'one JSON value', got: text } as const,
    });
    await postgresBook(fresh.db).report({
      endpoint: 'http',
      received: 2,
      acknowledged: 0,
      duplicates: 0,
      rejected: [malformed('ann-1', SECRET), malformed('e1', 'kept text')],
    });
    const { rows } = await fresh.db.query(
      "select code, convert_from(raw, 'UTF8') like '%kept text%' as kept from troupe.dead_letters where place like '[1]%' order by 1",
    );
    expect(rows).toEqual([
      { code: 'bad_json', kept: true },
      { code: 'erased', kept: false },
    ]);
    expect(await everything()).not.toContain(SECRET);
  });

  it('takes every letter of a record that was refused for several fields', async () => {
    const { db, close } = await freshDatabase();
    try {
      const raw = Buffer.from('{"subject": "bo", "seq": "x", "turn": "y"}');
      const letter = (field: string) => ({
        ...{ place: null, raw },
        refusal: { code: 'bad_type', field, expected: 'an integer', got: '"x"' } as const,
      });
      const counts = { received: 2, acknowledged: 0, duplicates: 0 };
      await postgresBook(db).report({ endpoint: 'http', ...counts, rejected: [letter('seq'), letter('turn')] });
      await erase(
        db,
        { subject: 'bo' },
        {
          log: postgresLog(db),
          now: () => new Date(),
          judge: judgeAgain,
          removeBody: async () => false,
          removeDataset: async () => false,
        },
      );
      const { rows } = await db.query(`select field, got, length(raw) as bytes from troupe.dead_letters`);
      expect(rows).toEqual(Array(2).fill({ field: '', got: 'erased', bytes: 0 }));
    } finally {
      await close();
    }
  });

  it('finds a subject by an index, and does not read the whole log', async () => {
    const { db, close } = await freshDatabase();
    try {
      await db.query(`
        insert into troupe.stored_events (position, partition, log, key, source, id, name, digest, data)
        select n, 0, 0, 'e/' || n, 's', n::text, 'message.sent', '', json_build_object('text', repeat('x', 900), case when n % 500 = 0 then 'subject' else 'other' end, 'u' || n)
        from generate_series(1, 5000) n`);
      await db.query('vacuum analyze troupe.stored_events');
      const { sql: text, parameters } = keysNaming('u1500').compile();
      const { rows: plan } = await db.query<{ 'QUERY PLAN': string }>(`explain ${text}`, parameters);
      expect(plan.map((line) => line['QUERY PLAN']).join('\n')).toContain('events_key_idx');
      expect(await rowsOf(db, keysNaming('u1500'))).toEqual([{ key: 'e/1500' }]);
    } finally {
      await close();
    }
  });

  it('of a subject whom a task names, in its tags or in the event that defined it, reaches every episode that plays it', async () => {
    const one = await freshDatabase();
    try {
      await postgresLog(one.db).append([
        event('task.defined', { task_id: 'tagged', query: 'q', tags: { subject: 'bea' } }),
        event('task.defined', { task_id: 'defined', query: 'q', subject: 'bea' } as never),
        event('episode.started', { episode_id: 'bea-herself', task_id: 'other', subject: 'bea-herself' } as never),
        ...['p1', 'p2'].flatMap((id) => anEpisode(id, { task: 'tagged' })),
        ...anEpisode('p3', { task: 'defined' }),
        ...anEpisode('p4', { task: 'another' }),
      ]);
      await projectAll(one.db);
      expect((await planErasure(one.db, { subject: 'bea' })).episodes.toSorted()).toEqual(['p1', 'p2', 'p3']);
      expect((await planErasure(one.db, { subject: 'bea-herself' })).episodes).toEqual(['bea-herself']);
    } finally {
      await one.close();
    }
  });

  it('of a subject takes the second time what has come since to play an erased task, and nothing of other tasks', async () => {
    const one = await freshDatabase();
    const log = postgresLog(one.db);
    const options = {
      log,
      now: () => new Date(),
      judge: judgeAgain,
      removeBody: async () => false,
      removeDataset: async () => false,
    };
    try {
      await log.append([
        event('task.defined', { task_id: 'tagged', query: SECRET, tags: { subject: 'bea' } }),
        event('task.defined', { task_id: 'defined', query: SECRET, subject: 'bea' } as never),
        event('task.defined', { task_id: 'common', query: 'q' }),
        ...anEpisode('p1', { task: 'tagged' }),
        ...anEpisode('p2', { task: 'common' }).map((one, i) =>
          i === 0 ? event('episode.started', { episode_id: 'p2', task_id: 'common', subject: 'bea' } as never) : one,
        ),
      ]);
      await projectAll(one.db);
      expect((await erase(one.db, { subject: 'bea' }, options)).episodes.toSorted()).toEqual(['p1', 'p2']);
      await projectAll(one.db);
      expect((await planErasure(one.db, { subject: 'bea' })).events).toBe(0);
      await log.append([
        ...anEpisode('p3', { task: 'tagged' }),
        ...anEpisode('p4', { task: 'defined' }),
        ...anEpisode('p5', { task: 'common' }),
      ]);
      await projectAll(one.db);
      await rebuild(one.db, { judge: judgeAgain });
      expect((await erase(one.db, { subject: 'bea' }, options)).episodes.toSorted()).toEqual(['p3', 'p4']);
      await projectAll(one.db);
      await expect(erase(one.db, { subject: 'bea' }, options)).rejects.toMatchObject({ code: 'not_found' });
    } finally {
      await one.close();
    }
  });

  it('says so where there is nothing to erase', async () => {
    expect(await planErasure(fresh.db, { subject: 'ann' })).toMatchObject({ events: 0, episodes: [] });
    const nothing = {
      log: postgresLog(fresh.db),
      now: () => new Date(),
      judge: judgeAgain,
      removeBody: async () => false,
      removeDataset: async () => false,
    };
    await expect(erase(fresh.db, { episode: 'nobody' }, nothing)).rejects.toMatchObject({ code: 'not_found' });
  });
});
