import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { postgresLog } from '../../ingest/log/postgres.ts';
import type { ScoreRow } from '../../store/evaluate/attribution/score.ts';
import { projectAll } from '../../store/projecting/projector.ts';
import { type Endpoint, type Reply, startEndpoint } from '../store/attribution/support/endpoint.ts';
import { label, lostRun } from '../store/attribution/support/lost-runs.ts';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { document, type Shell, warmShell } from './support/troupe.ts';

const WORKER = JSON.stringify({ agent: 'worker', entry: 2, reason: 'It guessed.' });

describe('troupe blame', () => {
  let database: TestDatabase;
  let at: Shell;
  let endpoint: Endpoint;
  let reply: (nth: number) => Reply;
  beforeAll(async () => {
    database = await freshDatabase();
    at = warmShell({ DATABASE_URL: database.url, JUDGE_KEY: 'sk-never-shown' });
    endpoint = await startEndpoint((_, nth) => reply(nth));
    const runs = ['a', 'b', 'c'].flatMap((id) => lostRun(id));
    await postgresLog(database.db).append([...runs, label('a', 'worker', 2), label('b', 'lead', 4)]);
    await projectAll(database.db);
  });
  afterAll(async () => {
    await at.remove();
    await endpoint.stop();
    await database.close();
  });
  const annotate = (...more: string[]) => [
    'blame',
    'annotate',
    '--model',
    'judge-1',
    '--endpoint',
    endpoint.url,
    '--concurrency',
    '1',
    '--json',
    ...more,
  ];

  it('annotate killed in the middle keeps what was answered; run again it asks only about the rest', async () => {
    reply = (nth) => (nth === 1 ? 'hang' : WORKER);
    const killed = at.start(annotate());
    await expect.poll(() => endpoint.asked.length, { timeout: 30_000 }).toBe(2);
    killed.child.kill('SIGKILL');
    await killed.ended;
    const again = await at.run(annotate('--key-env', 'JUDGE_KEY'));
    expect(again.code).toBe(0);
    expect(document(again)).toMatchObject({ episodes: 3, cached: 1, annotated: 2, stopped: null });
    expect(endpoint.asked).toHaveLength(4);
    expect(endpoint.asked.at(-1)!.headers.authorization).toBe('Bearer sk-never-shown');
    expect(again.out + again.err).not.toContain('sk-never-shown');
  });

  it('annotate interrupted ends with 130 and says how to go on; at its budget it ends with 0', async () => {
    const before = endpoint.asked.length;
    reply = () => 'hang';
    const running = at.start(annotate('--model', 'judge-2'));
    await expect.poll(() => endpoint.asked.length, { timeout: 30_000 }).toBe(before + 1);
    running.child.kill('SIGINT');
    const ended = await running.ended;
    expect([ended.code, document(ended).stopped]).toEqual([130, 'interrupted']);
    reply = () => WORKER;
    const limited = await at.run(annotate('--model', 'judge-2', '--max-calls', '1'));
    expect([limited.code, document(limited).stopped]).toEqual([0, 'max_calls']);
  });

  it('annotate refuses an address with a name and password in it, and a key that is not set', async () => {
    const named = await at.run(['blame', 'annotate', '--model', 'm', '--endpoint', 'http://me:secret@127.0.0.1:1/v1']);
    expect([named.code, named.err.includes('secret')]).toEqual([2, false]);
    const unset = await at.run(annotate('--key-env', 'NOT_THERE'));
    expect(unset.code).toBe(2);
    expect(document(unset).error.message).toContain('NOT_THERE');
  });

  it('evaluate scores what was evaluated and the answers of the model beside the baselines; list shows it', async () => {
    expect((await at.run(['judge', '--methods', 'failure_signs', '--quiet'])).code).toBe(0);
    const report = document(await at.run(['blame', 'evaluate', '--json']));
    expect(report).toMatchObject({ cases: 2, unlabelled: 1, ambiguous: 0, match: 'exact' });
    const byName = Object.fromEntries(report.groups[0].scores.map((one: ScoreRow) => [one.name, one]));
    expect(Object.keys(byName)).toEqual(
      expect.arrayContaining(['first', 'last', 'longest', 'most_frequent_agent', 'random', 'failure_signs']),
    );
    expect(byName['judge-1 (who-and-when)']).toMatchObject({ agent: 0.5, step: 0.5, silent: 0, baseline: false });
    const people = await at.run(['blame', 'evaluate']);
    expect(people.out).toContain('longest (baseline)');
    const listed = document(await at.run(['blame', 'list', '--episode', 'a', '--json'])).items;
    expect(listed.map((one: { says: string }) => one.says)).toEqual(
      expect.arrayContaining(['ann', 'failure_signs', 'judge-1']),
    );
    const unknown = await at.run(['blame', 'evaluate', '--method', 'no_such', '--json']);
    expect([unknown.code, document(unknown).error.code]).toEqual([1, 'not_found']);
  });
});

const data = process.env.TROUPE_DATA ?? '';

describe.skipIf(!data)('published failure logs (TROUPE_DATA names their folder)', () => {
  it('held out, the fitted signs find the step more often than every baseline; the agent no less often', async () => {
    const database = await freshDatabase();
    const at = warmShell({ DATABASE_URL: database.url });
    const imported = await at.run(['import', join(data, 'data/who-and-when'), '--quiet', '--json']);
    expect(document(imported).episodes).toBeGreaterThan(100);
    const report = document(await at.run(['blame', 'evaluate', '--cross-validate', '10', '--json']));
    expect(report.cases).toBe(document(imported).episodes);
    for (const method of ['failure_signs, 10-fold', 'failure_signs_with_reference, 10-fold']) {
      const held: ScoreRow = report.groups[0].scores.find(({ name }: ScoreRow) => name === method);
      expect(held.step_over_baseline!.interval[0]).toBeGreaterThan(0);
      expect(held.agent_over_baseline!.difference).toBeGreaterThan(-0.03);
    }
    await at.remove();
    await database.close();
  }, 120_000);
});
