/** Several sampling processes behind one policy: which of them is asked, and who goes on where one fails. */
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { registeredPolicyServers, type SamplingClient } from '../../api/gateway/policy-servers.ts';
import { projectMetrics, prometheusText } from '../../api/health/metrics.ts';
import { readiness } from '../../api/health/readiness.ts';
import { TroupeError } from '../../errors.ts';
import { postgresLog } from '../../ingest/log/postgres.ts';
import { readSchema } from '../../migrations/migrate.ts';
import { registerProcess, reportModels } from '../../store/queue/jobs/processes.ts';
import type { OnPart, SampleAnswer, SampleAsk } from '../../trainer/sample/infer-wire.ts';
import { freshDatabase, type TestDatabase } from '../support/database.ts';

let at: TestDatabase;
beforeAll(async () => {
  at = await freshDatabase();
});
afterAll(() => at.close());
beforeEach(async () => {
  await at.db.query('delete from troupe.processes');
});

const who = { kind: 'policy', name: 'team' } as const;
const ask = { prompt: 'one' };
type Sampling = (ask: SampleAsk, options?: { signal?: AbortSignal; onPart?: OnPart }) => Promise<SampleAnswer>;

const answerOf = (checkpoint: string): SampleAnswer => ({
  choices: [],
  prompt_token_ids: [],
  model: 'team',
  checkpoint,
  usage: { prompt_tokens: 0, completion_tokens: 0 },
});
const gone = () => Promise.reject(new TroupeError('unreachable', 'The process went away.'));

/** Processes by name, each registered before the next, and how often each was asked. */
async function serving(processes: Readonly<Record<string, Sampling>>) {
  const asked: string[] = [];
  for (const name of Object.keys(processes))
    await registerProcess(at.db, { processId: name, role: 'infer', policy: 'team', address: name });
  const connect = (name: string): SamplingClient => ({
    sample: (...given) => {
      asked.push(name);
      return processes[name]!(...given);
    },
    prompt: gone,
    status: gone,
    close: () => {},
  });
  return { asked, servers: registeredPolicyServers(at.db, connect) };
}

const release = (checkpoint: string, secondsAgo = 0) =>
  at.db.query(
    `insert into facts.releases (release_id, policies, version, released_at)
     values ($1, json_build_object('team', $1::text), (select count(*) + 1 from facts.releases), now() - $2 * interval '1 second')`,
    [checkpoint, secondsAgo],
  );

it('asks the process with the fewest requests under way', async () => {
  const ends: (() => void)[] = [];
  const slow: Sampling = () => new Promise((resolve) => ends.push(() => resolve(answerOf('c'))));
  const { asked, servers } = await serving({ a: slow, b: slow });
  const answers = Array.from({ length: 6 }, async () => servers.sample(who, ask));
  await expect.poll(() => ends.length).toBe(6);
  expect(asked.filter((name) => name === 'a')).toHaveLength(3);
  for (const end of ends) end();
  expect(await Promise.all(answers)).toHaveLength(6);
});

it('asks another one where one stops, is busy or is gone, and leaves one that is gone alone for a while', async () => {
  const failing =
    (code: 'interrupted' | 'busy' | 'unreachable'): Sampling =>
    () =>
      Promise.reject(new TroupeError(code, code));
  for (const code of ['interrupted', 'busy', 'unreachable'] as const) {
    await at.db.query('delete from troupe.processes');
    const { asked, servers } = await serving({ old: async () => answerOf('c'), newest: failing(code) });
    expect((await servers.sample(who, ask)).checkpoint).toBe('c');
    expect(asked).toEqual(['newest', 'old']);
    await servers.sample(who, ask);
    expect(asked.slice(2)).toEqual(code === 'unreachable' ? ['old'] : ['newest', 'old']);
  }
});

it('is busy where all are, and names why one could not be reached', async () => {
  const { servers } = await serving({ a: () => Promise.reject(new TroupeError('busy', 'too much')) });
  await expect(servers.sample(who, ask)).rejects.toMatchObject({ code: 'busy' });
  await at.db.query('delete from troupe.processes');
  const { servers: none } = await serving({ a: gone });
  await expect(none.sample(who, ask)).rejects.toMatchObject({
    code: 'unreachable',
    detail: { hint: expect.stringContaining('The process went away.') },
  });
});

it('answers many at once by weights whose own name went when they were released', async () => {
  await registerProcess(at.db, { processId: 'a', role: 'infer', policy: 'team', address: 'a' });
  const models = new Map([
    ['checkpoint:c', 'c'],
    ['team', 'c'],
  ]);
  const asked: string[] = [];
  const servers = registeredPolicyServers(at.db, () => ({
    sample: async ({ model }) => {
      asked.push(model!);
      await new Promise(setImmediate);
      if (!models.has(model!)) throw new TroupeError('not_found', `No model ${model}.`);
      return answerOf(models.get(model!)!);
    },
    prompt: gone,
    status: async () => ({ models: [...models].map(([name, checkpoint]) => ({ name, checkpoint })) }) as never,
    close: () => {},
  }));
  const c = { kind: 'checkpoint', name: 'c' } as const;
  await servers.sample(c, ask);
  expect(asked).toEqual(['checkpoint:c']);
  models.delete('checkpoint:c');
  const answers = await Promise.all(Array.from({ length: 5 }, () => servers.sample(c, ask)));
  expect(answers.map(({ checkpoint }) => checkpoint)).toEqual(Array(5).fill('c'));
  expect(asked.slice(-5)).toEqual(Array(5).fill('team'));
});

it('does not ask another one once the client has gone', async () => {
  const client = new AbortController();
  const { asked, servers } = await serving({
    a: gone,
    b: () => {
      client.abort();
      return Promise.reject(new TroupeError('interrupted', 'cancelled'));
    },
  });
  await expect(servers.sample(who, ask, { signal: client.signal })).rejects.toMatchObject({ code: 'interrupted' });
  expect(asked).toEqual(['b']);
});

it('goes on with a streamed answer where another process has the same weights, each text once', async () => {
  const begun = { prompt_token_ids: [], model: 'team', checkpoint: 'v1' };
  const { servers } = await serving({
    second: async (_, options) => {
      options!.onPart!({ choice: 0, at: 0, text: 'one two three' }, begun);
      return answerOf('v1');
    },
    first: async (_, options) => {
      options!.onPart!({ choice: 0, at: 0, text: 'one ' }, begun);
      return gone();
    },
  });
  const texts: string[] = [];
  const answer = await servers.sample(who, ask, { onPart: ({ text }) => texts.push(text) });
  expect([answer.checkpoint, texts]).toEqual(['v1', ['one ', 'two three']]);
});

it('never puts text of two versions into one answer', async () => {
  for (const streams of [true, false]) {
    await at.db.query('delete from troupe.processes');
    const { servers } = await serving({
      second: async (_, options) => {
        const begun = { prompt_token_ids: [], model: 'team', checkpoint: 'v2' };
        if (streams) options!.onPart!({ choice: 0, at: 0, text: 'another text' }, begun);
        if (options!.signal!.aborted) throw new TroupeError('interrupted', 'cancelled');
        return answerOf('v2');
      },
      first: async (_, options) => {
        options!.onPart!({ choice: 0, at: 0, text: 'one ' }, { prompt_token_ids: [], model: 'team', checkpoint: 'v1' });
        return gone();
      },
    });
    const texts: string[] = [];
    await expect(servers.sample(who, ask, { onPart: ({ text }) => texts.push(text) })).rejects.toMatchObject({
      code: 'unreachable',
      detail: { hint: expect.stringContaining('another one has other weights') },
    });
    expect(texts).toEqual(['one ']);
  }
});

it('asks those first that serve what is released; who does not is shown, and late after half a minute', async () => {
  const { asked, servers } = await serving({ new: async () => answerOf('v2'), old: async () => answerOf('v1') });
  await reportModels(at.db, 'new', [{ name: 'team', checkpoint: 'v2' }]);
  await reportModels(at.db, 'old', [{ name: 'team', checkpoint: 'v1' }]);
  await servers.sample(who, ask);
  expect(asked).toEqual(['old']);
  await release('v2');
  const own = registeredPolicyServers(at.db, (name) => ({
    sample: async () => answerOf(name),
    prompt: gone,
    status: gone,
    close: () => {},
  }));
  expect((await own.sample(who, ask)).checkpoint).toBe('new');

  const log = postgresLog(at.db);
  const state = () => readiness({ db: at.db, log, known: readSchema(), ingestOnly: false });
  const shown = [
    { process: 'old', policy: 'team', checkpoint: 'v1', released: 'v2', late: false },
    { process: 'new', policy: 'team', checkpoint: 'v2', released: 'v2', late: false },
  ];
  expect(await state()).toMatchObject({ status: 'ready', serving: shown });
  await at.db.query(`update facts.releases set released_at = now() - interval '40 seconds'`);
  await at.db.query(`update troupe.processes set started_at = now() - interval '31 seconds'`);
  expect(await state()).toMatchObject({
    status: 'degraded',
    reasons: ['old serves v1 for team, but v2 was released; its log says why.'],
    serving: expect.arrayContaining([shown[1], { ...shown[0], late: true }]),
  });
  await at.db.query(
    `insert into facts.checkpoints (checkpoint_id, policy, version) values ('v1', 'team', '1'), ('v2', 'team', '2'), ('v3', 'team', '3')`,
  );
  const { rows } = await at.db.query('select checkpoint_id, served_by from traj.checkpoints order by 1');
  expect(rows).toEqual([
    { checkpoint_id: 'v1', served_by: ['old'] },
    { checkpoint_id: 'v2', served_by: ['new'] },
    { checkpoint_id: 'v3', served_by: null },
  ]);
  const metrics = prometheusText(await projectMetrics(at.db, log));
  expect(metrics).toContain('troupe_serving_processes{policy="team",checkpoint="v2",released="true"} 1\n');
  expect(metrics).toContain('troupe_serving_processes{policy="team",checkpoint="v1",released="false"} 1\n');
  expect(metrics).toContain('troupe_serving_late{policy="team"} 1\n');
});
