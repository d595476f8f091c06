import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { appendOwn } from '../../ingest/log/own-event.ts';
import { postgresLog } from '../../ingest/log/postgres.ts';
import { canaryPasses, upperBound } from '../../proofs/gate-simulation.ts';
import { weightsAtPlay } from '../../store/loop/play/weights.ts';
import { type TeamVersion, teamVersion } from '../../store/loop/team/version.ts';
import { projectBatch } from '../../store/projecting/projector.ts';
import { cancelJob, requestJob } from '../../store/queue/jobs/jobs.ts';
import { type CanaryRules, type CanaryUnit, decideCanary, sideOf } from '../../trainer/loop/comparison/canary.ts';
import { canaryCheckpoints, canaryOf, canaryTeam, openCanaries } from '../../trainer/loop/comparison/canary-traffic.ts';
import { canaryNow, endCanary, lookAtCanaries } from '../../trainer/loop/comparison/canarying.ts';
import { gateMarkdown } from '../../trainer/loop/comparison/report.ts';
import { freshDatabase, type TestDatabase } from '../support/database.ts';

const RULES: CanaryRules = {
  ...{ accept: 'better', margin: 0, level: 0.95, metric: 'reward', range: [0, 1] },
  guardrails: { roles: null, families: null, tokens: null, latency: null },
  ...{ share: 0.5, at_least: 10, bake_hours: 1, hours: 48, at_most: 100_000, unknown: 0.4 },
};
const guarding = (of: Partial<CanaryRules['guardrails']>): CanaryRules => ({
  ...RULES,
  guardrails: { ...RULES.guardrails, ...of },
});

/** So many units in turn, the candidate's and the incumbent's. */
const units = (n: number, of: (side: CanaryUnit['side'], i: number) => Partial<CanaryUnit>): CanaryUnit[] =>
  Array.from({ length: n }, (_, i) => {
    const side = i % 2 === 0 ? 'candidate' : 'incumbent';
    return { side, value: 0, family: null, roles: {}, tokens: null, latency: null, ...of(side, i) };
  });

describe('The side of an episode', () => {
  it('follows from the job and the name alone, and the candidate has its share', () => {
    let candidates = 0;
    for (let i = 0; i < 4000; i++) if (sideOf('run-1/1/gate', `episode-${i}`, 0.1) === 'candidate') candidates++;
    // Within four standard deviations of 400.
    expect(Math.abs(candidates - 400)).toBeLessThan(4 * Math.sqrt(4000 * 0.1 * 0.9));
    expect(sideOf('run-1/1/gate', 'e', 0.5)).toBe(sideOf('run-1/1/gate', 'e', 0.5));
    for (let i = 0; i < 50; i++)
      if (sideOf('r', `e${i}`, 0.1) === 'candidate') expect(sideOf('r', `e${i}`, 0.3)).toBe('candidate');
  });
});

describe('A canary decides over live episodes', () => {
  const better = (side: CanaryUnit['side']) => ({ value: side === 'candidate' ? 1 : 0 });

  it('a candidate that is better passes, one that is worse cannot pass any more, and no episodes are no data', () => {
    expect(decideCanary(units(60, better), RULES, [])).toMatchObject({
      outcome: 'better',
      passed: true,
      refused: null,
    });
    const worse = decideCanary(
      units(60, (side) => ({ value: side === 'candidate' ? 0 : 1 })),
      RULES,
      [],
    );
    expect(worse).toMatchObject({ outcome: 'worse', passed: false, refused: 'all episodes' });
    expect(decideCanary([], RULES, [])).toMatchObject({ outcome: 'no_data', passed: false, refused: null });
    expect(decideCanary(units(6, better), RULES, [])).toMatchObject({ outcome: 'inconclusive', refused: null });
  });

  it('not worse within the margin passes only where the rules accept that', () => {
    const equal = units(4000, (_, i) => ({ value: Math.floor(i / 2) % 2 }));
    expect(decideCanary(equal, { ...RULES, margin: 0.1, unknown: 0.5 }, []).passed).toBe(false);
    expect(decideCanary(equal, { ...RULES, margin: 0.1, accept: 'not_worse' }, [])).toMatchObject({
      outcome: 'not_worse',
      passed: true,
    });
  });

  it('a hurt role or family is refused behind a good mean, and a role that should be seen has to be seen', () => {
    const hurt = units(200, (side) => ({ ...better(side), roles: { solver: side === 'candidate' ? 0 : 1 } }));
    expect(decideCanary(hurt, RULES, []).passed).toBe(true);
    expect(decideCanary(hurt, guarding({ roles: 0.05 }), [])).toMatchObject({
      outcome: 'better',
      passed: false,
      refused: 'role solver',
    });
    expect(decideCanary(units(200, better), guarding({ roles: 0.05 }), ['judge'])).toMatchObject({
      passed: false,
      guardrails: [{ of: 'role judge', outcome: 'no_data' }, {}],
    });
    const families = units(400, (side, i) =>
      i % 8 < 2 ? { family: 'rare', value: side === 'candidate' ? 0 : 1 } : { ...better(side), family: 'usual' },
    );
    expect(decideCanary(families, guarding({ families: 0.05 }), [])).toMatchObject({
      outcome: 'better',
      refused: 'family rare',
    });
  });

  it('an episode without a value counts against its side', () => {
    const failing = units(400, (side, i) => ({ value: side === 'incumbent' ? 0 : i % 8 === 0 ? null : 1 }));
    const found = decideCanary(failing, { ...RULES, unknown: 0.05 }, []);
    expect(found).toMatchObject({ outcome: 'better', passed: false, refused: 'episodes with a value' });
    expect(found.sides).toEqual({ incumbent: { units: 200, unknown: 0 }, candidate: { units: 150, unknown: 50 } });
  });

  it('tokens, latency and money pass within their limit, and without values do not', () => {
    const taking = (times: number) =>
      units(400, (side, i) => ({ ...better(side), tokens: (100 + (i % 7)) * (side === 'candidate' ? times : 1) }));
    expect(decideCanary(taking(1.1), guarding({ tokens: 1.5 }), [])).toMatchObject({ passed: true });
    expect(decideCanary(taking(2), guarding({ tokens: 1.5 }), [])).toMatchObject({ passed: false, refused: 'tokens' });
    const costing = (times: number, unknown?: number) =>
      units(400, (side, i) => ({ ...better(side), usd: i === unknown ? null : side === 'candidate' ? times : 1 }));
    expect(decideCanary(costing(1.1), guarding({ usd: 1.5 }), [])).toMatchObject({ passed: true });
    expect(decideCanary(costing(2), guarding({ usd: 1.5 }), [])).toMatchObject({ refused: 'usd' });
    expect(decideCanary(costing(1.1, 300), guarding({ usd: 1.5 }), [])).toMatchObject({
      passed: false,
      guardrails: [{ of: 'usd', outcome: 'no_data' }, {}],
    });
    // Far beyond what the incumbent takes counts as much, not as unknown.
    expect(decideCanary(taking(500), guarding({ tokens: 1.5 }), []).refused).toBe('tokens');
    expect(decideCanary(units(400, better), guarding({ latency: 1.5 }), [])).toMatchObject({
      passed: false,
      guardrails: [{ of: 'latency', outcome: 'no_data' }, {}],
    });
  });

  it('says which value lies outside of the range', () => {
    expect(
      decideCanary(
        units(20, () => ({ value: 3 })),
        RULES,
        [],
      ).outside,
    ).toBe(3);
    expect(decideCanary(units(20, better), RULES, []).outside).toBeNull();
  });

  it('of 200 simulated ones, looked at after every episode, at most 5 % release an equal candidate', () => {
    const passed = canaryPasses({ ...RULES, unknown: 0.1 }, { episodes: 3000, gain: 0, runs: 200 });
    expect(passed / 200).toBeLessThanOrEqual(0.05);
    // Rates are given by their exact upper bound: 1 − 0.05^(1/n) where nothing happened.
    expect(upperBound(0, 1000)).toBeCloseTo(1 - 0.05 ** (1 / 1000), 9);
    // qbeta(0.95, 51, 950), of R
    expect(upperBound(50, 1000)).toBeCloseTo(0.06285, 3);
  }, 60_000);
});

describe('A canary under way', () => {
  const JOB = 'night-1/1/gate';
  const began = '2026-01-01T00:00:00Z';
  let database: TestDatabase;
  let now = new Date('2026-01-01T06:00:00Z');
  const context = () => ({ db: database.db, log: postgresLog(database.db), now: () => now });
  const tell = async (drafts: Parameters<typeof appendOwn>[1]) => {
    await appendOwn(postgresLog(database.db), drafts);
    while ((await projectBatch(database.db)) > 0);
  };
  const ask = async (rules: CanaryRules = RULES, job_id = JOB, incumbent = 'a') => {
    const weights = { solver: { checkpoint_id: 'b', directory: '/models/b' } };
    const maps = { incumbent: { solver: incumbent }, candidate: { solver: 'b' } };
    await requestJob(context(), {
      job_id,
      kind: 'canary',
      spec: { kind: 'canary', rules, maps, weights, guarded: [] },
    });
    await database.db.query('update troupe.job_queue set requested_at = $2 where job_id = $1', [job_id, began]);
  };
  it('ends without a release once the minutes of the budget of its plan are over', async () => {
    await ask();
    const spec = `update troupe.job_queue set spec = jsonb_set(spec::jsonb, '{budget}', '{"seconds": 1800}') where job_id = $1`;
    await database.db.query(spec, [JOB]);
    const at = async (minutes: number) =>
      canaryNow(database.db, (await openCanaries(database.db))[0]!, new Date(Date.parse(began) + minutes * 60_000));
    expect(await at(29)).toMatchObject({ passed: false, canary: { state: 'running' } });
    expect(await at(30)).toMatchObject({
      ...{ passed: false, canary: { state: 'ended' } },
      reason: expect.stringMatching(/^The minutes of the budget of the plan were over\. It ended without a decision\./),
    });
  });
  /** A live episode with one call by that checkpoint; null: by the one of its side. */
  const episodeOf = (
    episode_id: string,
    {
      reward = 0 as number | null,
      by = null as string | null,
      at = '2026-01-01T01:00:00Z',
      group = null as string | null,
      tags = {},
    },
  ) => {
    const side = sideOf(JOB, group ?? episode_id, RULES.share);
    const say = (event: string, data: object) => ({
      ...{ name: event, source: '/t', id: `${episode_id}/${event}`, time: at },
      data: { episode_id, ...data },
    });
    const call = { call_id: `${episode_id}-c` };
    return [
      say('episode.started', { group_id: group, tags }),
      say('generation.requested', { ...call, input: [{ role: 'user', content: 'x' }] }),
      say('generation.completed', {
        ...{ ...call, checkpoint_id: by ?? (side === 'candidate' ? 'b' : 'a'), choices: [] },
        ...(by?.startsWith('upstream:') ? { unmapped: { policy: 'solver' } } : { policy: 'solver' }),
      }),
      ...(reward === null
        ? []
        : [
            {
              ...{ name: 'feedback.recorded', source: '/t', id: `${episode_id}/r`, time: at },
              data: {
                ...{ feedback_id: `${episode_id}/r`, target: { kind: 'episode', id: episode_id, episode_id } },
                ...{ kind: 'reward', name: 'reward', value: reward },
              },
            },
          ]),
      say('episode.finished', { outcome: 'success' }),
    ];
  };
  const episode = (id: string, told: Parameters<typeof episodeOf>[1]) => tell(episodeOf(id, told) as never);
  /** So many at once, which are named e0, e1 and so on. */
  const episodes = (count: number, told: (side: ReturnType<typeof sideOf>) => Parameters<typeof episodeOf>[1]) =>
    tell(
      Array.from({ length: count }, (_, i) =>
        episodeOf(`e${i}`, told(sideOf(JOB, `e${i}`, RULES.share))),
      ).flat() as never,
    );
  /** A name that begins so and is of that side. */
  const named = (side: string, begin = 'n') =>
    Array.from({ length: 40 }, (_, i) => `${begin}${i}`).find((id) => sideOf(JOB, id, RULES.share) === side)!;
  const report = async () => canaryNow(database.db, (await openCanaries(database.db))[0]!, now);
  /** Projecting beside, as the process of that role does: a look waits for the tables. */
  const look = async () => {
    const stop = new AbortController();
    const projecting = (async () => {
      while (!stop.signal.aborted) if ((await projectBatch(database.db)) === 0) await new Promise(setImmediate);
    })();
    try {
      return await lookAtCanaries(context());
    } finally {
      stop.abort();
      await projecting;
    }
  };

  beforeEach(async () => {
    database = await freshDatabase();
    now = new Date('2026-01-01T06:00:00Z');
  });
  afterEach(() => database.close());

  it('gives the gateway one side for each episode and group, and none to what began before or is played', async () => {
    const { db } = database;
    await ask();
    const checkpointOf = canaryCheckpoints(db);
    for (let i = 0; i < 20; i++) {
      const call = { policy: 'solver', episode: `e${i}`, group: i < 10 ? 'g' : null };
      const wanted = sideOf(JOB, i < 10 ? 'g' : `e${i}`, RULES.share) === 'candidate' ? 'b' : null;
      expect(await checkpointOf(call)).toBe(wanted);
      // Another process, after a kill, comes to the same.
      expect(await canaryCheckpoints(db)(call)).toBe(wanted);
    }
    expect(await checkpointOf({ policy: 'other', episode: 'e1', group: null })).toBeNull();
    await episode(named('candidate'), { at: '2025-12-31T00:00:00Z' });
    expect(await checkpointOf({ policy: 'solver', episode: named('candidate'), group: null })).toBeNull();
    const played = named('candidate', 'n/played/');
    await db.query(`insert into troupe.job_queue (job_id, kind, spec) values ($1, 'attempt/team', '{}')`, [played]);
    expect(await checkpointOf({ policy: 'solver', episode: played, group: null })).toBeNull();
    expect(await weightsAtPlay(db, 'solver')).toEqual([{ checkpoint_id: 'b', directory: '/models/b' }]);
    expect(await canaryOf(db, { policies: ['solver', 'x'], team: null })).toBe(JOB);
    expect(await canaryOf(db, { policies: ['x'], team: 'solver' })).toBeNull();
  });

  it('counts live episodes since the candidate answered first, each on the side of its name, groups as one', async () => {
    await ask();
    expect(await report()).toMatchObject({ canary: { state: 'running', began_at: null }, outcome: 'no_data' });
    await episode('early', { by: 'a', at: '2026-01-01T00:30:00Z' });
    const sides = { candidate: 0, incumbent: 0 };
    await episodes(20, (side) => {
      sides[side]++;
      return { reward: 0.5 };
    });
    for (const member of ['m1', 'm2']) await episode(member, { reward: 1, group: 'g' });
    sides[sideOf(JOB, 'g', 0.5)]++;
    // Of a rollout; the other side answered; and one without a reward.
    await episode(named('candidate', 'p'), { reward: 1, tags: { rollout: 'r' } });
    await episode(named('candidate', 'o'), { reward: 1, by: 'a' });
    await episode(named('incumbent', 'o'), { reward: null });
    const { canary, left_out, reason } = await report();
    expect(canary).toMatchObject({
      state: 'running',
      candidate: { units: sides.candidate, unknown: 1 },
      incumbent: { units: sides.incumbent, unknown: 1 },
    });
    expect(left_out).toEqual({ 'still open': 0, 'not answered by the weights of their side alone': 1 });
    expect(reason).toContain('It is under way.');
    await database.db.query(`update facts.episodes set closed = false where episode_id = 'm1'`);
    expect((await report()).left_out).toMatchObject({ 'still open': 2 });
  });

  it('compares with the model that the route of a policy falls back to', async () => {
    await ask(RULES, JOB, 'upstream:far/gpt');
    const sides = { candidate: 0, incumbent: 0 };
    await episodes(20, (side) => {
      sides[side]++;
      return { reward: 0.5, by: side === 'candidate' ? 'b' : 'upstream:far/gpt' };
    });
    await database.db.query(`update facts.calls set usage = '{"cost_usd": 0.25}'`);
    const { canary } = await report();
    for (const side of ['candidate', 'incumbent'] as const)
      expect(canary![side]).toEqual({ units: sides[side], unknown: 0 });
  });

  it('bakes before a release, ends once, and ends by itself when its time is over', async () => {
    await ask();
    await episodes(60, (side) => ({ reward: side === 'candidate' ? 1 : 0 }));
    now = new Date('2026-01-01T01:30:00Z');
    expect(await look()).toEqual([]);
    expect((await report()).reason).toContain('bakes for 1 hour.');
    now = new Date('2026-01-01T02:30:00Z');
    const both = (await Promise.all([look(), look()])).flat();
    expect(both).toMatchObject([
      { job_id: JOB, report: { passed: true, outcome: 'better', canary: { state: 'ended' } } },
    ]);
    expect(gateMarkdown(both[0]!.report, 'night-1, round 1')).toContain('candidate: ');
    expect(await look()).toEqual([]);
    expect(await canaryCheckpoints(database.db)({ policy: 'solver', episode: 'x', group: null })).toBeNull();
    await database.db.query('truncate troupe.job_queue');
    await ask({ ...RULES, at_least: 1000 });
    now = new Date('2026-01-04T00:00:00Z');
    expect(await look()).toMatchObject([
      { report: { passed: false, reason: expect.stringContaining('needed: 1000') } },
    ]);
  });

  it('is not ended by a person where it is decided, and the reason is given', async () => {
    await ask();
    await episode(named('candidate'), { reward: 7 });
    const decision = { passed: true, reason: 'Accepted by ann.', by: 'ann' };
    await expect(endCanary(context(), 'night-1', decision)).rejects.toThrow(/is decided: .*gate.range should hold/);
    expect(await endCanary(context(), 'night-2', decision)).toBeNull();
    expect(await look()).toMatchObject([{ job_id: JOB, report: { passed: false } }]);
    expect(await endCanary(context(), 'night-1', decision)).toBeNull();
  });

  it('P34: gives no side any more once a person cancelled it', async () => {
    await ask();
    const call = { policy: 'solver', episode: named('candidate'), group: null };
    expect(await canaryCheckpoints(database.db)(call)).toBe('b');
    await cancelJob(context(), JOB, { by: 'ann', reason: 'wrong range' });
    expect(await canaryCheckpoints(database.db)(call)).toBeNull();
    expect(await look()).toEqual([]);
  });

  it('ends without a release where another release came, or a value is impossible', async () => {
    await ask();
    await episode(named('candidate'), { reward: 7 });
    expect((await report()).reason).toContain('gate.range should hold all values');
    await tell([
      {
        ...{ name: 'policy.released', source: '/t', id: 'r9', time: '2026-01-01T03:00:00Z' },
        data: { release_id: 'r9', policies: { solver: 'c' }, by: 'person' },
      },
    ] as never);
    expect(await report()).toMatchObject({ passed: false, reason: expect.stringContaining('Release r9 changed') });
  });

  it('ends without a release where another version of the team came', async () => {
    const [incumbent, candidate, third] = ['short', 'long', 'longer'].map((prompt) =>
      teamVersion('writers', { prompt }),
    ) as [TeamVersion, TeamVersion, TeamVersion];
    const maps = { incumbent: {}, candidate: {} };
    const teams = { incumbent, candidate };
    await requestJob(context(), {
      ...{ job_id: JOB, kind: 'canary' },
      spec: { kind: 'canary', rules: RULES, maps, weights: {}, guarded: [], teams },
    });
    const released = (release_id: string, version: TeamVersion) =>
      tell([
        {
          ...{ name: 'policy.released', source: '/t', id: release_id, time: '2026-01-01T03:00:00Z' },
          data: { release_id, policies: {}, teams: { [version.name]: version.team_id }, by: 'person' },
        },
      ] as never);
    await released('r1', incumbent);
    await released('r2', teamVersion('others', { prompt: 'long' }));
    expect(await report()).toMatchObject({ canary: { state: 'running' } });
    await released('r3', third);
    expect(await report()).toMatchObject({ passed: false, reason: expect.stringContaining('Release r3 changed') });
  });

  it('compares two versions of a team over the episodes that name them, and gives a program the one of its side', async () => {
    const { db } = database;
    const [incumbent, candidate] = ['short', 'long'].map((prompt) => teamVersion('writers', { prompt })) as [
      TeamVersion,
      TeamVersion,
    ];
    const none = { incumbent: {}, candidate: {} };
    const spec = {
      kind: 'canary',
      rules: RULES,
      maps: none,
      weights: {},
      guarded: [],
      teams: { incumbent, candidate },
    };
    await requestJob(context(), { job_id: JOB, kind: 'canary', spec });
    await db.query('update troupe.job_queue set requested_at = $2 where job_id = $1', [JOB, began]);
    expect(await canaryTeam(db, { name: 'others', episode: 'e0', group: null })).toBeNull();
    expect(await canaryOf(db, { policies: ['solver'], team: 'writers' })).toBe(JOB);
    const units = { candidate: 0, incumbent: 0 };
    const at = '2026-01-01T01:00:00Z';
    const say = (episode_id: string, name: string, data: object) =>
      ({ name, source: '/t', id: `${episode_id}/${name}`, time: at, data: { episode_id, ...data } }) as never;
    const events: never[] = [];
    for (let i = 0; i < 60; i++) {
      const group = i % 10 === 0 ? 'g' : null;
      const version = (await canaryTeam(db, { name: 'writers', episode: `e${i}`, group }))!;
      const side = sideOf(JOB, group ?? `e${i}`, RULES.share);
      expect(version).toEqual(spec.teams[side]);
      if (group === null) units[side]++;
      events.push(
        say(`e${i}`, 'episode.started', { team_id: version.team_id, group_id: group }),
        say(`e${i}`, 'episode.finished', { outcome: side === 'candidate' ? 'success' : 'failure' }),
      );
    }
    units[sideOf(JOB, 'g', RULES.share)]++;
    // It was played in the other version, and so counts for its side without a value.
    const wrong = named('candidate', 'o');
    events.push(
      say(wrong, 'episode.started', { team_id: incumbent.team_id }),
      say(wrong, 'episode.finished', { outcome: 'success' }),
    );
    await tell(events);
    await db.query(`update troupe.job_queue set spec = jsonb_set(spec::jsonb, '{rules,metric}', '"success"')::json`);
    now = new Date('2026-01-01T02:30:00Z');
    const [ended] = await look();
    expect(ended).toMatchObject({
      job_id: JOB,
      report: {
        ...{ passed: true, outcome: 'better', left_out: { 'not played in the version of their side': 1 } },
        models: { 'team writers': { incumbent: incumbent.team_id, candidate: candidate.team_id } },
        canary: { incumbent: { units: units.incumbent }, candidate: { units: units.candidate, unknown: 1 } },
      },
    });
    expect(await canaryTeam(db, { name: 'writers', episode: 'e0', group: null })).toBeNull();
  });
});
