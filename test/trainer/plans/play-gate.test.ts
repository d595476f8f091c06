import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { appendOwn } from '../../../ingest/log/own-event.ts';
import { postgresLog } from '../../../ingest/log/postgres.ts';
import { groupId } from '../../../store/loop/play/ids.ts';
import { boundCheckpoints, hostedWeights, weightsAtPlay } from '../../../store/loop/play/weights.ts';
import { ROLLBACK, recordAfterHosted, recordRelease, releasesOf } from '../../../store/loop/release/releases.ts';
import { projectBatch } from '../../../store/projecting/projector.ts';
import { WaitsFor } from '../../../store/queue/jobs/jobs.ts';
import { type GateReport, gateMarkdown } from '../../../trainer/loop/comparison/report.ts';
import { mapsOf } from '../../../trainer/loop/plan/gates-asked.ts';
import { environmentOf, playGate } from '../../../trainer/loop/plan/play-gate.ts';
import { readRunners } from '../../../trainer/loop/play/runners.ts';
import { freshDatabase, type TestDatabase } from '../../support/database.ts';

const GATE = 'night-1/1/gate';
const TASKS = 12;
const tasks = Array.from({ length: TASKS }, (_, i) => ({ task_id: `t${i}`, domain: i % 2 === 0 ? 'even' : 'odd' }));
const runners = readRunners({ team: { command: ['no-such-program'], reward: 'stdout' } });
const guards = { roles: null, families: null, tokens: null, latency: null };

type Played = {
  readonly reward: number | null;
  readonly tokens?: number;
  readonly latency_ms?: number;
  /** Left out: the call has no price. */
  readonly usd?: number;
  readonly checkpoint?: string;
  /** Reward of the role solver. */
  readonly role?: number;
};
type Sides = {
  readonly incumbent: (task: number) => Played | null;
  readonly candidate: (task: number) => Played | null;
};

describe('A gate that plays', () => {
  let database: TestDatabase;
  beforeEach(async () => {
    database = await freshDatabase();
  });
  afterEach(() => database.close());

  const context = () => ({ db: database.db, log: postgresLog(database.db), now: () => new Date() });
  const weights = (checkpoint_id: string) => ({ checkpoint_id, directory: `/models/${checkpoint_id}` });
  const specOf = (more: object = {}) => ({
    ...{ kind: 'play', runner: 'team', tasks, samples: 1, seed: 0, serving_within_s: 1, policies: ['solver'] },
    rules: { accept: 'better', margin: 0, level: 0.95, guardrails: guards },
    maps: { incumbent: { solver: weights('a') }, candidate: { solver: weights('b') } },
    ...{ guarded: [], unplayed: 0.05, left_out: {} },
    ...more,
  });
  const queued = (job_id: string, kind: string, spec: object, result: object | null) =>
    database.db.query(
      `insert into troupe.job_queue (job_id, kind, spec, state, outcome, result) values ($1, $2, $3, $4, $5, $6)`,
      [
        ...[job_id, kind, JSON.stringify(spec), result === null ? 'waiting' : 'finished'],
        ...[result === null ? null : 'done', JSON.stringify(result)],
      ],
    );

  /** Puts what both sides played into the tables and the queue, as rollouts leave it. */
  async function played(sides: Sides, environment: string): Promise<void> {
    const time = '2026-01-01T00:00:00Z';
    for (const side of ['incumbent', 'candidate'] as const) {
      const id = `${GATE}/${side}`;
      const found = tasks.map((task, i) => ({ ...task, of: sides[side](i) }));
      const done = found.flatMap(({ task_id, of }) =>
        of === null ? [] : [{ task_id, of, episode_id: `${id}/${task_id}/0` }],
      );
      const partial = found
        .filter(({ of }) => of === null)
        .map(({ task_id }) => ({ group_id: `${id}/${task_id}`, task_id, done: 0, of: 1, why: [] }));
      const events = done.flatMap(({ task_id, of, episode_id }) => {
        const say = (name: string, data: object) => ({
          ...{ name, source: '/t', id: `${episode_id}/${name}/${JSON.stringify(data).length}`, time },
          data: { episode_id, ...data },
        });
        const call = {
          ...{ call_id: `${episode_id}-c`, agent_id: 'solver' },
          ...(of.checkpoint?.startsWith('upstream:') ? {} : { policy: 'solver' }),
          ...{ checkpoint_id: of.checkpoint ?? (side === 'incumbent' ? 'a' : 'b'), latency_ms: of.latency_ms ?? 10 },
          usage: {
            input_tokens: 0,
            output_tokens: of.tokens ?? 10,
            ...(of.usd === undefined ? {} : { cost_usd: of.usd }),
          },
          choices: [{ index: 0, content: 'x' }],
        };
        const rewards = [
          ...(of.reward === null
            ? []
            : [{ target: { kind: 'episode', id: episode_id, episode_id }, value: of.reward }]),
          ...(of.role === undefined ? [] : [{ target: { kind: 'agent', id: 'solver', episode_id }, value: of.role }]),
        ];
        return [
          say('episode.started', { task_id }),
          say('agent.defined', { agent_id: 'solver', role: 'solver' }),
          say('generation.completed', call),
          ...rewards.map(({ target, value }) => ({
            ...{ name: 'feedback.recorded', source: '/t', id: `${episode_id}/${target.kind}`, time },
            data: { feedback_id: `${episode_id}/${target.kind}`, target, kind: 'reward', name: 'reward', value },
          })),
          say('episode.finished', { outcome: 'success' }),
        ];
      });
      await appendOwn(context().log, events as never);
      const result = { rollout_id: id, episodes: done.map(({ episode_id }) => episode_id), partial };
      await queued(id, 'rollout', { tags: { environment } }, result);
    }
    while ((await projectBatch(database.db)) > 0);
  }

  async function report(sides: Sides, spec: object = {}): Promise<GateReport> {
    await played(sides, await environmentOf(runners[0]!));
    return (await run(spec)) as GateReport;
  }
  const run = (spec: object = {}) =>
    playGate(context(), { runners, codeVersion: '0' })(
      { job_id: GATE, kind: 'play', spec: specOf(spec), token: 1 },
      async () => {},
      new AbortController().signal,
    );
  const guarding = (of: Partial<Record<keyof typeof guards | 'usd', number>>) => ({
    rules: { accept: 'better', margin: 0, level: 0.95, guardrails: { ...guards, ...of } },
  });
  const half = (i: number): Played => ({ reward: i % 3 === 0 ? 1 : 0 });
  const all = (): Played => ({ reward: 1 });

  it('has one side after the other play, each with its weights, both with the same settings', async () => {
    const params = { max_turns: 2 };
    await expect(run({ params })).rejects.toEqual(new WaitsFor(`${GATE}/incumbent`));
    const asked = async () =>
      (await database.db.query(`select job_id, spec from troupe.job_queue order by requested_at`)).rows;
    const bySide = (side: string, checkpoint: string) => ({
      ...{ seed: 0, params, policies: { solver: checkpoint }, tags: { gate: GATE, side } },
      ...{ weights: { solver: weights(checkpoint) }, awaits: { policies: ['solver'], within_s: 1 } },
    });
    expect(await asked()).toMatchObject([{ spec: bySide('incumbent', 'a') }]);
    await database.db.query(
      `update troupe.job_queue set state = 'finished', outcome = 'done', result = '{"partial":[]}'`,
    );
    await expect(run({ params })).rejects.toEqual(new WaitsFor(`${GATE}/candidate`));
    expect((await asked())[1]).toMatchObject({ spec: bySide('candidate', 'b') });
  });

  it('compares with the model that the calls went to before the first release, and knows its answers by their record', async () => {
    const gpt = hostedWeights('gpt-4o');
    expect(gpt.checkpoint_id).toBe('upstream:gpt-4o');
    const maps = { incumbent: { solver: gpt }, candidate: { solver: weights('b') } };
    const by = (checkpoint: string) => (i: number) => ({ ...half(i), checkpoint });
    const compared = await report({ incumbent: by('upstream:gpt-4o'), candidate: all }, { maps });
    expect(compared).toMatchObject({ outcome: 'better', passed: true, main: { tasks: 12 } });
    expect(compared.models).toEqual({ solver: { incumbent: 'upstream:gpt-4o', candidate: 'b' } });
    // No process that samples can load it.
    await queued('other/rollout', 'rollout', { weights: maps.incumbent }, null);
    expect(await weightsAtPlay(database.db, 'solver')).toEqual([]);
  });

  it('compares with that model again once a rollback has given it the calls back', async () => {
    const trained = { solver: { ...weights('b'), step: 1 } } as never;
    const maps = () => mapsOf(context(), trained, { solver: '/models/base' }, { solver: 'far/gpt' });
    const projecting = async <T>(work: Promise<T>): Promise<T> => {
      let done = false;
      work.finally(() => (done = true)).catch(() => {});
      while (!done) if ((await projectBatch(database.db)) === 0) await new Promise(setImmediate);
      return work;
    };
    const saved = `insert into facts.checkpoints (checkpoint_id, uri, version) values ('own', '/models/own', '1')`;
    await database.db.query(saved);
    const of = { reason: null, source: '/t' };
    const { db, log } = context();
    const first = { ...of, release_id: 'r', policies: { solver: 'own' }, by: 'cli', time: '2026-01-02T00:00:00Z' };
    await recordAfterHosted({ db, log }, { solver: 'far/gpt' }, first);
    expect((await projecting(maps())).incumbent).toEqual({ solver: weights('own') });
    const { policies } = (await releasesOf(db)).at(-2)!;
    await recordRelease(log, { ...of, release_id: 's', policies, by: ROLLBACK, time: '2026-01-03T00:00:00Z' });
    expect((await projecting(maps())).incumbent).toEqual({ solver: hostedWeights('far/gpt') });
  });

  it('leaves out what another model answered', async () => {
    const maps = { incumbent: { solver: hostedWeights('gpt-4o') }, candidate: { solver: weights('b') } };
    const by = (i: number) => ({ ...half(i), checkpoint: 'upstream:gpt-4o-mini' });
    const { left_out, outcome } = await report({ incumbent: by, candidate: all }, { maps });
    expect(outcome).toBe('no_data');
    expect(left_out).toMatchObject({ 'not answered by the weights of their side': 12 });
  });

  it('shares its budget between its sides, and cut short by it decides nothing, whatever it has compared', async () => {
    const { db } = database;
    const requested = `insert into troupe.job_queue (job_id, kind, spec, state) values ($1, 'play', '{}', 'running')`;
    await db.query(requested, [GATE]);
    const spent = async (side: string, calls: number) => {
      const insert = `insert into facts.calls (episode_id, call_id, policy, input_tokens, output_tokens, completed_version) values ($1, $1, 'solver', 60, 40, '1')`;
      for (let i = 0; i < calls; i++) await db.query(insert, [`${groupId(`${GATE}/${side}`, 't0', i)}/0`]);
    };
    const asked = async () =>
      (
        await db.query(
          `select spec -> 'budget' as budget from troupe.job_queue where kind = 'rollout' order by requested_at`,
        )
      ).rows;
    const end = async (side: string, why: object[]) => {
      while ((await projectBatch(db)) > 0);
      await db.query(
        `update troupe.job_queue set state = 'finished', outcome = 'done', result = $2 where job_id = $1`,
        [
          `${GATE}/${side}`,
          JSON.stringify({
            rollout_id: `${GATE}/${side}`,
            episodes: [],
            partial: [{ task_id: 't0', done: 0, of: 1, why }],
          }),
        ],
      );
    };
    const budget = { tokens: 1000 };
    await expect(run({ budget })).rejects.toEqual(new WaitsFor(`${GATE}/incumbent`));
    expect(await asked()).toEqual([{ budget }]);
    await spent('incumbent', 4);
    await end('incumbent', []);
    await expect(run({ budget })).rejects.toEqual(new WaitsFor(`${GATE}/candidate`));
    expect(await asked()).toEqual([{ budget }, { budget: { tokens: 600 } }]);
    await end('candidate', [
      { code: 'budget', message: 'The budget of 600 tokens was used up: 700 recorded.', samples: 3 },
    ]);
    const cut = { outcome: 'no_data', passed: false, cut_short: expect.stringContaining('600 tokens was used up') };
    const found = (await run({ budget })) as GateReport;
    expect(found).toMatchObject(cut);
    expect(gateMarkdown(found, 'night-1')).toContain(
      'cut short, not passed\n\nThe budget of the plan cut the gate short',
    );
    // Where the first side has used it all, the second one is not asked for.
    await db.query(`delete from troupe.job_queue where job_id = $1`, [`${GATE}/candidate`]);
    await spent('candidate', 6);
    expect(await run({ budget })).toMatchObject({ passed: false, cut_short: expect.stringContaining('1000 recorded') });
    expect(await asked()).toHaveLength(1);
  });

  it('is not decided by what it compared before its budget ended, good as that looks', async () => {
    await played({ incumbent: half, candidate: all }, await environmentOf(runners[0]!));
    await database.db.query(
      `update troupe.job_queue set result = jsonb_set(result::jsonb, '{partial}', $2::jsonb) where job_id = $1`,
      [
        `${GATE}/candidate`,
        JSON.stringify([
          { task_id: 'other', done: 0, of: 1, why: [{ code: 'budget', message: 'Used up.', samples: 1 }] },
        ]),
      ],
    );
    expect(await run()).toMatchObject({
      ...{ outcome: 'inconclusive', passed: false, cut_short: 'Used up.', main: { outcome: 'better', passed: true } },
      reason: 'The budget of the plan cut the gate short, so it decides nothing. Of what was left for it: Used up.',
    });
  });

  it('says better, worse and inconclusive as the rewards of the tasks do', async () => {
    const better = await report({ incumbent: half, candidate: all });
    expect(better).toMatchObject({ outcome: 'better', passed: true, main: { tasks: 12, candidate: 1 } });
    expect(better.main.incumbent).toBeCloseTo(1 / 3, 12);
  });

  it('refuses a worse candidate', async () => {
    expect(await report({ incumbent: all, candidate: half })).toMatchObject({ outcome: 'worse', passed: false });
  });

  it('refuses an equal one', async () => {
    expect(await report({ incumbent: half, candidate: half })).toMatchObject({
      outcome: 'inconclusive',
      passed: false,
    });
  });

  it('has no data where other weights answered, where a side has no reward, or where nothing is left to play', async () => {
    const foreign = await report({ incumbent: half, candidate: () => ({ reward: 1, checkpoint: 'c' }) });
    expect(foreign).toMatchObject({ outcome: 'no_data', passed: false, main: { tasks: 0 } });
    expect(foreign.left_out['not answered by the weights of their side']).toBe(12);
    expect(await run({ tasks: [] })).toMatchObject({ outcome: 'no_data', passed: false });
  });

  it('has no data where a reward is missing', async () => {
    const missing = await report({ incumbent: half, candidate: () => ({ reward: null }) });
    expect([missing.outcome, missing.left_out['without a reward']]).toEqual(['no_data', 12]);
  });

  it('refuses a better candidate that leaves hard tasks unplayed', async () => {
    const found = await report({ incumbent: half, candidate: (i) => (i % 2 === 0 ? { reward: 1 } : null) });
    expect(found).toMatchObject({ passed: false, left_out: { 'not played by the candidate': 6 } });
    expect(found.guardrails).toMatchObject([{ of: 'samples played', outcome: 'worse', passed: false }]);
    const rest = await run({ rules: { ...specOf().rules, accept: 'not_worse', margin: 1 } });
    expect(rest).toMatchObject({ main: { tasks: 6, passed: true }, passed: false });
  });

  it.each([
    ['roles', { roles: 0.1 }, (): Played => ({ reward: 1, role: 0 }), 'role solver', 'worse'],
    ['families', { families: 0.1 }, (i: number): Played => ({ reward: i % 2 === 0 ? 2 : 0.3 }), 'family odd', 'worse'],
    ['tokens', { tokens: 1.5 }, (): Played => ({ reward: 2, tokens: 16 }), 'tokens', 'worse'],
    ['latency', { latency: 1.5 }, (): Played => ({ reward: 2, latency_ms: 16 }), 'latency', 'worse'],
  ])(
    'refuses what is better on the whole and hurts by its guardrail on %s',
    async (_, guard, candidate, of, outcome) => {
      const incumbent = (i: number): Played => ({ reward: i % 2 === 0 ? 0 : 0.5, role: 1 });
      const found = await report({ incumbent, candidate }, guarding(guard));
      expect(found).toMatchObject({ outcome: 'better', passed: false });
      expect(found.guardrails.find((one) => one.of === of)).toMatchObject({ outcome, passed: false });
      expect(await run()).toMatchObject({ outcome: 'better', passed: true });
    },
  );

  it('passes a cost within its limit, and refuses one that a single call without a price leaves unknown', async () => {
    const priced = { incumbent: (i: number) => ({ ...half(i), usd: 2 }), candidate: () => ({ reward: 1, usd: 2.5 }) };
    expect(await report(priced, guarding({ usd: 1.5 }))).toMatchObject({
      passed: true,
      guardrails: [{ of: 'usd', tasks: 12, incumbent: 2, candidate: 2.5 }, { of: 'samples played' }],
    });
    expect(await run(guarding({ usd: 1.1 }))).toMatchObject({ passed: false, guardrails: [{ outcome: 'worse' }, {}] });
    await database.db.query(
      `update facts.calls set usage = '{"output_tokens": 10}' where episode_id = '${GATE}/candidate/t3/0'`,
    );
    const unknown = (await run(guarding({ usd: 1.5 }))) as GateReport;
    expect(unknown).toMatchObject({ passed: false, guardrails: [{ of: 'usd', tasks: 0, outcome: 'no_data' }, {}] });
    expect(unknown.reason).toContain('usd (no data: some call has no price)');
    expect(gateMarkdown(unknown, 'night-1')).toContain('usd has no data where one call without an error has no price.');
  });

  it('passes a role whose own rewards did not fall, and refuses one that has none', async () => {
    const found = await report(
      { incumbent: (i) => ({ ...half(i), role: 0.5 }), candidate: () => ({ reward: 1, role: 0.5 }) },
      guarding({ roles: 0.1 }),
    );
    expect(found).toMatchObject({
      passed: true,
      guardrails: [{ of: 'role solver', tasks: 12 }, { of: 'samples played' }],
    });
    expect(await run({ ...guarding({ roles: 0.1 }), guarded: ['judge'] })).toMatchObject({
      passed: false,
      guardrails: [{ of: 'role judge', outcome: 'no_data', passed: false }, {}, {}],
    });
  });

  it('fails where the runner changed between the two sides', async () => {
    await played({ incumbent: half, candidate: all }, 'another');
    await expect(run()).rejects.toThrow('changed while the gate played');
  });

  it.each([
    ['as they are named', (side: string, task: number) => `${groupId(`${GATE}/${side}`, `t${task}`, task)}/0`],
    ['as they were once named', (side: string, task: number) => `${GATE}/${side}/t${task}/0`],
  ] as const)('binds the episodes of each side, %s, to its weights, and no others', async (_, named) => {
    const { db } = database;
    const reads: string[] = [];
    const boundCheckpoint = boundCheckpoints({
      query: (text, ...more) => {
        reads.push(text);
        return db.query(text, ...more);
      },
    });
    for (const [side, checkpoint] of [
      ['incumbent', 'a'],
      ['candidate', 'b'],
    ] as const)
      await queued(`${GATE}/${side}`, 'rollout', { weights: { solver: weights(checkpoint) } }, null);
    const episode = (side: string) => named(side, 0);
    for (const side of ['incumbent', 'candidate'])
      await queued(episode(side), 'attempt/team', { rollout: `${GATE}/${side}`, task: 0, sample: 0, attempt: 0 }, null);
    expect(await boundCheckpoint('solver', episode('incumbent'))).toBe('a');
    // The first calls of an episode come at once, and read it once.
    expect(
      await Promise.all(['solver', 'other', 'solver'].map((policy) => boundCheckpoint(policy, episode('candidate')))),
    ).toEqual(['b', null, 'b']);
    expect(reads).toHaveLength(2);
    // An id of the same form that is no attempt, until it is one; and live episodes.
    const later = named('candidate', 1);
    expect(await boundCheckpoint('solver', later)).toBeNull();
    await queued(later, 'attempt/team', { rollout: `${GATE}/candidate`, task: 1, sample: 0, attempt: 0 }, null);
    expect(await boundCheckpoint('solver', later)).toBe('b');
    // Many episodes that begin at once, of several rollouts, are read by one statement.
    const many = ['incumbent', 'candidate', 'incumbent'].map((side, i) => ({
      side,
      id: named(side, i + 2),
    }));
    for (const { side, id } of many)
      await queued(id, 'attempt/team', { rollout: `${GATE}/${side}`, task: 2, sample: 0, attempt: 0 }, null);
    reads.length = 0;
    const none = named('candidate', 9);
    expect(await Promise.all([...many.map(({ id }) => id), none].map((id) => boundCheckpoint('solver', id)))).toEqual([
      ...['a', 'b', 'a'],
      null,
    ]);
    expect(reads).toHaveLength(1);
    for (const live of [null, 'e1']) expect(await boundCheckpoint('solver', live)).toBeNull();
    expect(await weightsAtPlay(db, 'solver')).toEqual([weights('a'), weights('b')]);
    await db.query(`update troupe.job_queue set state = 'finished' where job_id = $1`, [`${GATE}/incumbent`]);
    expect(await weightsAtPlay(db, 'solver')).toEqual([weights('b')]);
  });
});
