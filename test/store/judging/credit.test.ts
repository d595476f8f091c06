import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { resolveMethods } from '../../../store/evaluate/judging/judge.ts';
import { unreadRewards, unreadText } from '../../../store/evaluate/judging/unread-rewards.ts';
import { type Call, played, type Says, say } from './support/episodes.ts';
import { type Expected, type JudgedDatabase, judgedDatabase } from './support/judged.ts';

/** The same row for the steps `c0/0` to `c<n − 1>/0` of an episode. */
const steps = (episode: string, n: number, value: number | null, reason: string | null = null): Expected =>
  Object.fromEntries(Array.from({ length: n }, (_, i) => [`${episode} c${i}/0`, [value, reason]]));

/** Rewards 2, 1 and 0 have the mean 1 and the std 1; GRPO adds 1e-6 to it. */
const ONE = 1 / (1 + 1e-6);
/** Rewards 1 and 0: half over the std, the root of a half. */
const HALF = 0.5 / (Math.SQRT1_2 + 1e-6);

/** The same row for two steps. */
const both = (first: string, second: string, value: number | null, reason: string | null = null): Expected => ({
  [`${first}/0`]: [value, reason],
  [`${second}/0`]: [value, reason],
});

describe('credit that the judge computes from what is stored', () => {
  let base: JudgedDatabase;
  beforeEach(async () => {
    base = await judgedDatabase();
  });
  afterEach(() => base.close());

  it('takes in Dr. MAS the reward that an agent earned itself, the team’s where none is recorded, or their sum', async () => {
    const episode = (id: string, reward: number, own: number) =>
      played(id, {
        group: 'g',
        reward,
        agents: { tester: own },
        calls: [
          { agent: 'coder', choices: [{}] },
          { agent: 'tester', choices: [{}] },
          { agent: 'tester', choices: [{ says: { reward: own + 1 } }] },
        ],
      });
    await base.load(episode('a', 1, 4), episode('b', 0, 4));
    const credit = async (reward: string) => {
      const method = { method: 'drmas_advantage', params: { reward, scale_std: false } };
      await base.run([method]);
      const rows = await base.rows<{ value: number }>(
        `select value from traj.credits where method = 'drmas_advantage' and params ->> 'reward' = '${reward}' order by episode_id, step_id`,
      );
      return rows.map(({ value }) => value);
    };
    // Coder: team 1 and 0. Tester: own 4 and 5 in both episodes; with the team's added 5, 6 and 4, 5.
    expect(await credit('own')).toEqual([0.5, -0.5, 0.5, -0.5, -0.5, 0.5]);
    expect(await credit('team')).toEqual([0.5, 0.5, 0.5, -0.5, -0.5, -0.5]);
    expect(await credit('mixed')).toEqual([0.5, 0, 1, -0.5, -1, 0]);
    await expect(credit('theirs')).rejects.toThrow(/reward should be/);
  });

  it.each([
    ['drmas_advantage', { scale_std: false }],
    ['mars_turn_advantage', {}],
  ])('%s takes the rewards of steps by the name that it is given', async (method, params) => {
    const episode = (id: string, reward: number, own: number, name: string) => [
      ...played(id, { group: `g ${name}`, reward, calls: [{ agent: 'coder', turn: 0, choices: [{}] }] }),
      say(id, { kind: 'step', id: 'c0/0' }, name, own, { kind: 'reward' }),
    ];
    await base.load(
      ...['reward', 'local'].flatMap((name) => [
        episode(`a ${name}`, 0, 3, name),
        episode(`b ${name}`, 1, 1, name),
        episode(`c ${name}`, 1, 1, name),
      ]),
    );
    const credits = async (reward_name?: string) => {
      const asked = { method, params: { ...params, ...(reward_name === undefined ? {} : { reward_name }) } };
      await base.run([asked]);
      const rows = await base.rows<{ value: number | null }>(
        `select value from traj.credits where method = '${method}' and params ->> 'reward_name' = '${reward_name ?? 'reward'}' and episode_id like '% ${reward_name ?? 'reward'}' order by episode_id`,
      );
      return rows.map(({ value }) => value);
    };
    const own = await credits();
    // The first episode has the smallest reward of the team and the largest of its own.
    expect(own[0]).toBeGreaterThan(own[1]!);
    expect(await credits('local')).toEqual(own);
  });

  it('says which rewards of steps and agents no method reads, and which would by their name', async () => {
    await base.load([
      ...played('a', { group: 'g', reward: 1, agents: { coder: 1 }, calls: [{ agent: 'coder', choices: [{}] }] }),
      say('a', { kind: 'step', id: 'c0/0' }, 'local', 1, { kind: 'reward' }),
      say('a', { kind: 'step', id: 'c0/0' }, 'style', 1),
    ]);
    const unread = async (...methods: Parameters<typeof resolveMethods>[0]) =>
      unreadRewards(base.db, await resolveMethods(methods), ['a']);
    const local = { target: 'step', name: 'local', count: 1 };
    expect(await unread({ method: 'grpo_advantage' })).toEqual([
      { ...local, readers: [] },
      { target: 'agent', name: 'reward', count: 1, readers: [] },
    ]);
    expect(await unread({ method: 'drmas_advantage' })).toEqual([{ ...local, readers: ['drmas_advantage'] }]);
    const [found] = await unread({ method: 'drmas_advantage' });
    expect(unreadText(found!)).toBe(
      '1 reward of steps named local is read by no method that runs; drmas_advantage{"reward_name":"local"} would read it.',
    );
    const byName = { method: 'drmas_advantage', params: { reward_name: 'local' } };
    expect((await unread({ method: 'drmas_advantage' }, byName)).map(({ name }) => name)).toEqual([]);
    expect(await unreadRewards(base.db, [], ['another'])).toEqual([]);
  });

  it('gives the reward of an episode to the answers that it went on from, and to no other candidate', async () => {
    const call = { agent: 'solver', turn: 0, choices: [{}, { chosen: true }] };
    await base.load(
      played('a', { group: 'g', reward: 1, calls: [call] }),
      played('b', { group: 'g', reward: 0, calls: [call] }),
      // Nobody said which of these it went on from.
      played('c', { group: 'h', reward: 1, calls: [{ ...call, choices: [{}, {}] }] }),
      played('d', { group: 'h', reward: 0, calls: [{ ...call, choices: [{}] }] }),
    );
    const alike = ['grpo_advantage', 'rloo_advantage', 'trl_advantage'];
    const byAgent = ['drmas_advantage', 'multiagent_grpo_advantage', 'floored_advantage', 'at_grpo_advantage'];
    await base.run([...alike, ...byAgent]);
    for (const method of [...alike, ...byAgent]) {
      const rows = await base.rows<{ step_id: string; value: number | null; reason: string | null }>(
        `select episode_id || ' ' || step_id as step_id, value, reason from traj.credits where method = '${method}' order by 1`,
      );
      const of = (step: string) => rows.find(({ step_id }) => step_id === step)!;
      for (const step of ['a c0/0', 'b c0/0'])
        expect([method, of(step)]).toMatchObject([method, { value: null, reason: 'not_chosen' }]);
      expect([method, of('a c0/1').value! > 0, of('b c0/1').value! < 0]).toEqual([method, true, true]);
      expect([method, of('c c0/0').value, of('c c0/1').value]).not.toContain(null);
    }
  });

  it('compares episodes, agents and turns of a group, and says where versions of a policy were mixed', async () => {
    const by = (agent: string, turn?: number, version?: string): Call => ({ agent, turn, version, choices: [{}] });
    await base.load(
      played('a', { group: 'g1', reward: 2, calls: [by('solver', 0), by('critic', 0), by('solver', 1)] }),
      played('b', { group: 'g1', reward: 1, calls: [by('solver', 0)] }),
      played('c', { group: 'g1', reward: 0, calls: [by('solver', 0), by('critic', 0)] }),
      played('d', { group: 'g1', reward: null, calls: [by('solver', 0), by('solver')] }),
      played('lone', { group: 'alone', reward: 1, calls: [by('solver', 0)] }),
      played('y', { group: 'even', env: 'room', reward: 1, calls: [by('solver', 0, 'v1')] }),
      played('z', { group: 'even', env: 'room', reward: 1, calls: [by('solver', 0, 'v1')] }),
      played('m', { group: 'g2', env: 'room', reward: 1, calls: [by('solver', 0, 'v1')] }),
      played('n', { group: 'g2', env: 'room', reward: 0, calls: [by('solver', 0, 'v2')] }),
    );
    await base.run([
      'grpo_advantage',
      { method: 'trl_advantage', params: { scale: 'batch' } },
      'rloo_advantage',
      'drmas_advantage',
      'multiagent_grpo_advantage',
      'floored_advantage',
      'at_grpo_advantage',
    ]);
    const unknown = steps('d', 2, null, 'missing_reward');
    const even: Expected = { 'y c0/0': [0, 'zero_variance'], 'z c0/0': [0, 'zero_variance'] };
    const mixed = (value: number): Expected => ({
      'm c0/0': [value, 'mixed_policies'],
      'n c0/0': [-value, 'mixed_policies'],
    });

    await base.expectRows('credits', 'grpo_advantage', {
      ...steps('a', 3, ONE),
      'b c0/0': [0, null],
      ...steps('c', 2, -ONE),
      ...unknown,
      'lone c0/0': [ONE, 'group_of_one'],
      ...even,
      ...mixed(HALF),
    });
    // The known rewards of the batch are 2, 1, 0, 1, 1, 1, 1 and 0: squares 9, mean 7/8, so the variance is (9 − 49/8) / 7.
    const batch = Math.sqrt(23 / 56) + 1e-4;
    await base.expectRows('credits', 'trl_advantage', {
      ...steps('a', 3, 1 / batch),
      'b c0/0': [0, null],
      ...steps('c', 2, -1 / batch),
      ...steps('d', 2, 0, 'missing_reward'),
      'lone c0/0': [0, 'group_of_one'],
      ...even,
      ...mixed(0.5 / batch),
    });
    // Each against the mean of the others: 2 against ½, 1 against 1, 0 against 1½.
    await base.expectRows('credits', 'rloo_advantage', {
      ...steps('a', 3, 1.5),
      'b c0/0': [0, null],
      ...steps('c', 2, -1.5),
      ...unknown,
      'lone c0/0': [1, 'group_of_one'],
      ...even,
      ...mixed(1),
    });
    // Steps of the solver: 2, 2, 1, 0, with mean 5/4 and squared deviations 11/4. Of the critic: 2 and 0.
    const solver = Math.sqrt(11 / 12) + 1e-6;
    const critic = 1 / (Math.SQRT2 + 1e-6);
    await base.expectRows('credits', 'drmas_advantage', {
      'a c0/0': [0.75 / solver, null],
      'a c1/0': [critic, null],
      'a c2/0': [0.75 / solver, null],
      'b c0/0': [-0.25 / solver, null],
      'c c0/0': [-1.25 / solver, null],
      'c c1/0': [-critic, null],
      ...unknown,
      'lone c0/0': [ONE, 'group_of_one'],
      ...even,
      ...mixed(HALF),
    });
    // One value for each trajectory, whoever acted in it.
    await base.expectRows('credits', 'multiagent_grpo_advantage', {
      ...steps('a', 3, ONE),
      'b c0/0': [0, null],
      ...steps('c', 2, -ONE),
      ...unknown,
      'lone c0/0': [ONE, 'group_of_one'],
      ...even,
      ...mixed(HALF),
    });
    // As Dr. MAS with ddof 0: the solver's std is √(11/4 / 4), the critic's 1, that of 1 and 0 is ½; one alone is its own mean.
    const floored = Math.sqrt(11) / 4;
    await base.expectRows('credits', 'floored_advantage', {
      'a c0/0': [0.75 / floored, null],
      'a c1/0': [1, null],
      'a c2/0': [0.75 / floored, null],
      'b c0/0': [-0.25 / floored, null],
      'c c0/0': [-1.25 / floored, null],
      'c c1/0': [-1, null],
      ...unknown,
      'lone c0/0': [0, 'group_of_one'],
      ...even,
      ...mixed(1),
    });
    // By agent and turn. In the room 1, 1, 1 and 0 meet: mean ¾, std ½.
    const room = 0.25 / (0.5 + 1e-6);
    await base.expectRows('credits', 'at_grpo_advantage', {
      'a c0/0': [ONE, null],
      'a c1/0': [critic, null],
      'a c2/0': [2 * ONE, 'group_of_one'],
      'b c0/0': [0, null],
      'c c0/0': [-ONE, null],
      'c c1/0': [-critic, null],
      'd c0/0': [null, 'missing_reward'],
      'd c1/0': [null, 'no_turn'],
      'lone c0/0': [ONE, 'group_of_one'],
      'y c0/0': [room, 'mixed_policies'],
      'z c0/0': [room, 'mixed_policies'],
      'm c0/0': [room, 'mixed_policies'],
      'n c0/0': [-3 * room, 'mixed_policies'],
    });
  });

  it('says in the baseline of Dr. MAS of trajectories, not of agents, why there is no signal', async () => {
    const by = (agent: string): Call => ({ agent, choices: [{}] });
    await base.load(
      played('p', { group: 'g', reward: 1, calls: [by('solver'), by('critic'), by('critic')] }),
      played('q', { group: 'g', reward: 0, calls: [by('solver')] }),
      played('lone', { group: 'alone', reward: 1, calls: [by('solver'), by('solver')] }),
    );
    await base.run(['multiagent_grpo_advantage']);
    await base.expectRows('credits', 'multiagent_grpo_advantage', {
      ...steps('p', 3, HALF),
      'q c0/0': [-HALF, null],
      ...steps('lone', 2, ONE, 'group_of_one'),
    });
  });

  it('compares steps where the rewards of a method are read', async () => {
    const calls = (...rewards: (number | null)[]): Call[] =>
      rewards.map((reward) => ({ choices: [reward === null ? {} : { says: { reward } }] }));
    await base.load(
      played('a', { group: 'g', reward: 1, calls: calls(1, 0) }),
      played('b', { group: 'g', reward: 0, calls: calls(0, null) }),
    );
    await base.run(['petting_mixed_reward', { method: 'grpo_advantage', reads: 'petting_mixed_reward' }]);
    // The mixed rewards are 1 + 1, 1 + 0 and 0 + 0; the last step has none of its own.
    await base.expectRows('credits', 'grpo_advantage', {
      'a c0/0': [ONE, null],
      'a c1/0': [0, null],
      'b c0/0': [-ONE, null],
      'b c1/0': [null, 'missing_reward'],
    });
  });

  it('follows who launched whom: planner and workers, joint actions, designs and executions', async () => {
    const by = (version?: string): Call[] => [{ agent: 'x', version, choices: [{}] }];
    const run = (
      id: string,
      group: string,
      reward: number | null,
      { parent, version }: { parent?: string; version?: string } = {},
    ) => played(id, { group, reward, parent, calls: by(version) });
    const under = (parent: string) => ({ parent });
    await base.load(
      // Three planners; workers of the first and the second, and one that a worker launched.
      run('p', 'planning', 2),
      run('q', 'planning', 1),
      run('r', 'planning', 0),
      run('pw', 'planning', null, under('p')),
      run('pww', 'planning', 0.5, under('pw')),
      run('qw', 'planning', 1, under('q')),
      run('qv', 'planning', 0, under('q')),
      // A chain of three beside one that launched nothing; the roots played with two versions.
      run('n0', 'nested', 1, { version: 'v1' }),
      run('n1', 'nested', 1, under('n0')),
      run('n2', 'nested', 1, under('n1')),
      run('n9', 'nested', 0, { version: 'v2' }),
      // Designs without a reward of their own, with three executions each, then with two.
      ...[
        ['d1', [3, 2, 1]],
        ['d2', [1, 1, 1]],
        ['d3', [1, 0, -1]],
      ].flatMap(([id, rewards]) => [
        run(id as string, 'designs', null),
        ...(rewards as number[]).map((reward, x) => run(`${id}-${x}`, 'designs', reward, under(id as string))),
      ]),
      ...[
        ['k1', [2, 1]],
        ['k2', [1, 0]],
      ].flatMap(([id, rewards]) => [
        run(id as string, 'pairs', null),
        ...(rewards as number[]).map((reward, x) => run(`${id}-${x}`, 'pairs', reward, under(id as string))),
      ]),
      run('one', 'loop', 1, under('two')),
      run('two', 'loop', 1, under('one')),
      run('far', 'loop', 1, under('p')),
    );
    await base.run(['matpo_advantage', 'magrpo_returns', 'metaagentx_advantage']);
    const all = (value: number | null, reason: string | null, ...ids: string[]): Expected =>
      Object.assign({}, ...ids.map((id) => steps(id, 1, value, reason)));
    const lost = { ...all(null, 'cycle', 'one', 'two'), ...all(null, 'unknown_parent', 'far') };
    const designs = ['d1', 'd2', 'd3', 'k1', 'k2'];
    const executions = ['d1', 'd2', 'd3'].flatMap((d) => [`${d}-0`, `${d}-1`, `${d}-2`]);

    // GRPO over the roots of a group; what was launched copies its root.
    await base.expectRows('credits', 'matpo_advantage', {
      ...all(ONE, null, 'p', 'pw', 'pww'),
      ...all(0, null, 'q', 'qw', 'qv'),
      ...all(-ONE, null, 'r'),
      ...all(HALF, 'mixed_policies', 'n0', 'n1', 'n2'),
      ...all(-HALF, 'mixed_policies', 'n9'),
      ...all(null, 'missing_reward', ...designs, ...executions, 'k1-0', 'k1-1', 'k2-0', 'k2-1'),
      ...lost,
    });
    // q returns 1 + 0.9 · mean(1, 0) = 1.45 beside 0 of r; n1 returns 1.9 and so n0 1 + 0.9 · 1.9 = 2.71 beside 0 of n9.
    await base.expectRows('credits', 'magrpo_returns', {
      ...all(null, 'missing_reward_below', 'p'),
      ...all(null, 'missing_reward', 'pw', ...designs),
      ...all(0, 'group_of_one', 'pww', 'n1', 'n2'),
      ...all(0.725, null, 'q'),
      ...all(-0.725, null, 'r'),
      ...all(0.5, null, 'qw', 'k1-0', 'k2-0'),
      ...all(-0.5, null, 'qv', 'k1-1', 'k2-1'),
      ...all(1.355, 'mixed_policies', 'n0'),
      ...all(-1.355, 'mixed_policies', 'n9'),
      ...all(1, null, 'd1-0', 'd3-0'),
      ...all(0, null, 'd1-1', 'd3-1'),
      ...all(-1, null, 'd1-2', 'd3-2'),
      ...all(0, 'zero_variance', 'd2-0', 'd2-1', 'd2-2'),
      ...lost,
    });
    // Designs earn 2, 1 and 0 on average, then 1½ and ½. Of two executions each, 2, 1, 1 and 0 are one group with the std √⅔.
    const pair = 1 / (Math.sqrt(2 / 3) + 1e-6);
    await base.expectRows('credits', 'metaagentx_advantage', {
      ...all(null, 'uneven_executions', 'p', 'q', 'r', 'pw', 'pww', 'qw', 'qv'),
      ...all(ONE, 'group_of_one', 'n0', 'n1'),
      ...all(null, 'not_an_execution', 'n2'),
      ...all(null, 'no_executions', 'n9'),
      ...all(ONE, null, 'd1', 'd1-0', 'd3-0'),
      ...all(0, null, 'd2', 'd1-1', 'd3-1'),
      ...all(-ONE, null, 'd3', 'd1-2', 'd3-2'),
      ...all(0, 'zero_variance', 'd2-0', 'd2-1', 'd2-2'),
      ...all(HALF, null, 'k1'),
      ...all(-HALF, null, 'k2'),
      ...all(pair, null, 'k1-0'),
      ...all(0, null, 'k1-1', 'k2-0'),
      ...all(-pair, null, 'k2-1'),
      ...lost,
    });
  });

  it('compares in MAGRPO what a team did together in a turn with what it did when that turn was played again', async () => {
    // Calls 0 and 1 are the first turn, 2 and 3 the second.
    const call = (n: number, id: string, reward?: number): Call => ({
      id,
      turn: Math.floor(n / 2),
      choices: [reward === undefined ? {} : { says: { reward } }],
    });
    const copied = (n: number) => Array.from({ length: n }, (_, i): Call => ({ ...call(i, `a${i}`), copied: true }));
    const again = (id: string, ...calls: Call[]) => played(id, { group: 'again', tags: { replay_of: 'a' }, calls });
    await base.load(
      played('a', { group: 'g', calls: [call(0, 'a0'), call(1, 'a1', 0.5), call(2, 'a2'), call(3, 'a3', 1)] }),
      played('b', { group: 'g', calls: [call(0, 'b0'), call(1, 'b1', 0), call(2, 'b2'), call(3, 'b3', 0)] }),
      again('c', ...copied(2), call(2, 'c2'), call(3, 'c3', 0)),
      again('d', ...copied(3), call(3, 'd3', 0)),
    );
    await base.run(['magrpo_returns']);
    await base.expectRows('credits', 'magrpo_returns', {
      // The first turn of a returns 0.5 + 0.9 · mean(1, 0) = 0.95, that of b 0.
      ...both('a a0', 'a a1', 0.475),
      ...both('b b0', 'b b1', -0.475),
      ...both('a a2', 'a a3', 0.5),
      ...both('c c2', 'c c3', -0.5),
      ...both('b b2', 'b b3', 0, 'group_of_one'),
      'd d3/0': [null, 'within_turn'],
      ...both('c a0', 'c a1', null, 'copied'),
      ...both('d a0', 'd a1', null, 'copied'),
      'd a2/0': [null, 'copied'],
    });
  });

  it('takes in MAGRPO the reward of an episode for its last turn, where no step has a reward of its own', async () => {
    const call = (turn: number, id: string): Call => ({ id, turn, choices: [{}] });
    await base.load(
      played('a', { group: 'g', reward: 1, calls: [call(0, 'a0'), call(1, 'a1')] }),
      played('b', { group: 'g', reward: 0, calls: [call(0, 'b0'), call(1, 'b1')] }),
      played('c', {
        ...{ group: 'again', tags: { replay_of: 'a' }, reward: 0 },
        calls: [{ ...call(0, 'a0'), copied: true }, call(1, 'c1')],
      }),
    );
    await base.run(['magrpo_returns']);
    await base.expectRows('credits', 'magrpo_returns', {
      // That of a returns 0.9 · mean(1, 0).
      'a a0/0': [0.225, null],
      'b b0/0': [-0.225, null],
      'a a1/0': [0.5, null],
      'c c1/0': [-0.5, null],
      'b b1/0': [0, 'group_of_one'],
      'c a0/0': [null, 'copied'],
    });
  });

  it('values generations and verifications by the refinements below them', async () => {
    const by = (role: string, parent?: string, says?: Says): Call => ({
      agent: role,
      role,
      choices: [{ parent, says }],
    });
    const refined = (parent: string, correct: boolean) => by('refiner', parent, { correct });
    const calls = [
      by('generator'),
      by('verifier', 'c0/0'),
      refined('c1/0', true),
      refined('c1/0', true),
      refined('c1/0', false),
      by('verifier', 'c0/0'),
      refined('c5/0', false),
      by('generator'),
      by('verifier', 'c7/0'),
      refined('c8/0', true),
      by('verifier', 'c7/0'),
      by('refiner', 'c10/0'),
      by('generator'),
      by('verifier', 'c12/0'),
      by('bystander'),
    ];
    await base.load(played('tree', { calls }), played('flat', { calls: [by('generator')] }), played('bare', {}));
    await base.run(['malt_values']);
    const ungraded = [null, 'no_graded_refinement'] as const;
    await base.expectRows('credits', 'malt_values', {
      // The mean of its two verifications, 2/3 and 0.
      'tree c0/0': [1 / 3, null],
      'tree c1/0': [2 / 3, null],
      'tree c2/0': [1, null],
      'tree c3/0': [1, null],
      'tree c4/0': [0, null],
      'tree c5/0': [0, null],
      'tree c6/0': [0, null],
      'tree c7/0': [1, null],
      'tree c8/0': [1, null],
      'tree c9/0': [1, null],
      'tree c10/0': ungraded,
      'tree c11/0': [null, 'not_graded'],
      'tree c12/0': ungraded,
      'tree c13/0': ungraded,
      'tree c14/0': [null, 'other_role'],
      'flat c0/0': [null, 'no_tree'],
    });
    // Of the valued generations only the second is above a half.
    expect(
      await base.rows(
        `select step_id, detail -> 'preferred_to' as preferred_to from traj.credits
         where episode_id = 'tree' and step_id in ('c0/0', 'c7/0') order by 1`,
      ),
    ).toEqual([
      { step_id: 'c0/0', preferred_to: [] },
      { step_id: 'c7/0', preferred_to: ['c0/0'] },
    ]);
    expect(await base.rows(`select episode_id, reason from traj.scores`)).toEqual([
      { episode_id: 'bare', reason: 'no_steps' },
    ]);
  });

  it('sums joint rewards over every combination of candidates', async () => {
    const two = [
      { agent: 'a', choices: [{}, {}] },
      { agent: 'b', choices: [{}, {}] },
    ];
    await base.load(
      played('full', { says: { joint_rewards: [1, 0, 0.25, 0] }, calls: two }),
      played('silent', { calls: [two[0]!] }),
      played('short', { says: { joint_rewards: [1, 0] }, calls: two }),
      played('uneven', { says: { joint_rewards: [1, 0] }, calls: [two[0]!, { agent: 'b', choices: [{}] }] }),
      played('twice', { says: { joint_rewards: [1, 0] }, calls: [two[0]!, two[0]!] }),
    );
    await base.run(['magrpo_cross']);
    const none = (id: string, reason: string, ...of: string[]): Expected =>
      Object.fromEntries(of.map((step) => [`${id} ${step}`, [null, reason]]));
    await base.expectRows('credits', 'magrpo_cross', {
      // a sums 1 + 0 and ¼ + 0, b sums 1 + ¼ and 0 + 0; the mean of both is 5/8.
      'full c0/0': [0.375, null],
      'full c0/1': [-0.375, null],
      'full c1/0': [0.625, null],
      'full c1/1': [-0.625, null],
      ...none('silent', 'no_joint_rewards', 'c0/0', 'c0/1'),
      ...none('short', 'uneven_joint_rewards', 'c0/0', 'c0/1', 'c1/0', 'c1/1'),
      ...none('uneven', 'uneven_candidates', 'c0/0', 'c0/1', 'c1/0'),
      ...none('twice', 'several_calls', 'c0/0', 'c0/1', 'c1/0', 'c1/1'),
    });
  });

  it('measures a player’s turns against its mean in the same game of the group', async () => {
    const turn = (agent: string, reward: number | null, version?: string): Call => ({
      agent,
      version,
      choices: [reward === null ? {} : { says: { reward } }],
    });
    const game = (name: string) => ({ group: 'g', tags: { game: name } });
    await base.load(
      played('e1', { ...game('chess'), calls: [turn('a', 1), turn('b', 0.5), turn('a', 0)] }),
      played('e2', { ...game('chess'), calls: [turn('a', 2), turn('b', 1.5), turn('a', 1)] }),
      played('e3', { ...game('go'), calls: [turn('a', 5)] }),
      played('e4', { group: 'g', calls: [turn('a', 3), turn('a', 1)] }),
      played('e5', { ...game('chess'), calls: [turn('a', 9), turn('a', null), turn('b', 1)] }),
      played('e6', {
        ...game('chess'),
        calls: [{ agent: 'a', choices: [{ says: { reward: 7 } }, { chosen: true, says: { reward: 1 } }] }],
      }),
      played('f1', { group: 'h', calls: [turn('a', 1, 'v1')] }),
      played('f2', { group: 'h', calls: [turn('a', 0, 'v2')] }),
    );
    await base.run(['mars_turn_advantage']);
    await base.expectRows('credits', 'mars_turn_advantage', {
      // At chess a earns 1, 0, 2, 1 and 1, on average 1; b earns ½, 1½ and 1. A turn counts with those after it.
      'e1 c0/0': [-1, null],
      'e1 c1/0': [-0.5, null],
      'e1 c2/0': [-1, null],
      'e2 c0/0': [1, null],
      'e2 c1/0': [0.5, null],
      'e2 c2/0': [0, null],
      'e3 c0/0': [0, null],
      // Without a game: 3 and 1, on average 2.
      'e4 c0/0': [0, null],
      'e4 c1/0': [-1, null],
      'e5 c0/0': [null, 'missing_reward'],
      'e5 c1/0': [null, 'missing_reward'],
      'e5 c2/0': [0, null],
      'e6 c0/0': [null, 'not_chosen'],
      'e6 c0/1': [0, null],
      'f1 c0/0': [0.5, 'mixed_policies'],
      'f2 c0/0': [-0.5, 'mixed_policies'],
    });
  });

  it('chains a critic’s values from agent to agent, the episodes of a group and of one team in one buffer', async () => {
    const by = (agent: string, turn: number | undefined, value: number | null, reward?: number): Call => ({
      agent,
      turn,
      choices: [{ says: { ...(value === null ? {} : { value }), ...(reward === undefined ? {} : { reward }) } }],
    });
    const group = 'g1';
    await base.load(
      played('e1', {
        group,
        reward: 1,
        calls: [by('a', 0, -0.875), by('b', 0, -0.75), by('a', 1, 1.5), by('b', 1, 2)],
      }),
      played('e2', { group, reward: 0.5, calls: [by('a', 0, -0.75), by('b', 0, 1.5)] }),
      played('alone', { group, reward: 9, calls: [by('a', 0, 0.5, 1), by('a', 1, 2, 1)] }),
      played('elsewhere', { group: 'g2', reward: 1, calls: [by('a', 0, -0.5), by('b', 0, 3)] }),
      played('untimed', { group, reward: 1, calls: [by('a', undefined, 1), by('b', 0, 1)] }),
      played('uneven', { group, reward: 1, calls: [by('a', 0, 1), by('b', 0, 1), by('a', 1, 1)] }),
      played('unvalued', { group, reward: 1, calls: [by('a', 0, 1), by('b', 0, null)] }),
      played('unrewarded', { group, reward: null, calls: [by('a', 0, 1), by('b', 0, 1)] }),
      played('partly', { group, reward: 1, calls: [by('a', 0, 1, 1), by('b', 0, 1)] }),
    );
    await base.run([{ method: 'marft_gae', params: { gamma: 0.5, lambda: 1, normalise: true } }]);
    // With λ = 1 an advantage is the return less the value, halved at each hand-over. e1 returns ⅛, ¼, ½, 1 and e2 ¼, ½, so
    // that their advantages are 1, 1, −1, −1, 1, −1, with mean 0 and std 1. The one alone returns 1 + ½ · 1 and 1: again 1 and −1.
    // Elsewhere the returns are ½ and 1, the advantages 1 and −2, with mean −½ and std 1½.
    const unit = 1 / (1 + 1e-8);
    const other = 1.5 / (1.5 + 1e-8);
    await base.expectRows('credits', 'marft_gae', {
      'e1 c0/0': [unit, null],
      'e1 c1/0': [unit, null],
      'e1 c2/0': [-unit, null],
      'e1 c3/0': [-unit, null],
      'e2 c0/0': [unit, null],
      'e2 c1/0': [-unit, null],
      'alone c0/0': [unit, null],
      'alone c1/0': [-unit, null],
      'elsewhere c0/0': [other, null],
      'elsewhere c1/0': [-other, null],
      ...steps('untimed', 2, null, 'no_turn'),
      // Turns of other agents are one chain. Its returns are ¼, ½, 1, and an advantage of 0 is no part of mean and std, −⅝ and ⅛.
      'uneven c0/0': [-0.125 / (0.125 + 1e-8), null],
      'uneven c1/0': [0.125 / (0.125 + 1e-8), null],
      'uneven c2/0': [0.625 / (0.125 + 1e-8), null],
      ...steps('unvalued', 2, null, 'no_values'),
      ...steps('unrewarded', 2, null, 'missing_reward'),
      ...steps('partly', 2, null, 'missing_reward'),
    });
    await base.run([{ method: 'marft_returns', params: { gamma: 0.5, lambda: 1 } }]);
    await base.expectRows('credits', 'marft_returns', {
      'e1 c0/0': [0.125, null],
      'e1 c1/0': [0.25, null],
      'e1 c2/0': [0.5, null],
      'e1 c3/0': [1, null],
      'e2 c0/0': [0.25, null],
      'e2 c1/0': [0.5, null],
      'alone c0/0': [1.5, null],
      'alone c1/0': [1, null],
      'elsewhere c0/0': [0.5, null],
      'elsewhere c1/0': [1, null],
      ...steps('untimed', 2, null, 'no_turn'),
      'uneven c0/0': [0.25, null],
      'uneven c1/0': [0.5, null],
      'uneven c2/0': [1, null],
      ...steps('unvalued', 2, null, 'no_values'),
      ...steps('unrewarded', 2, null, 'missing_reward'),
      ...steps('partly', 2, null, 'missing_reward'),
    });
  });

  it('joins outcome, influence and restart, from recorded passes or from feedback, and clusters embeddings', async () => {
    const pass = (episode: string, step: string, numbers: number[], label: string, without?: string) =>
      say(episode, { kind: 'step', id: step, ...(without ? { other_id: without } : {}) }, 'token_logprobs', numbers, {
        by: 'ref',
        label,
      });
    const call = (says = {}) => ({ choices: [{ token_ids: [1, 2], says }] });
    const episode = (id: string, reward: number | null, shift: number) => [
      ...played(id, {
        group: 'g',
        reward,
        calls: [call({ embedding: [1, shift] }), call({ embedding: [1, -5] }), call()],
      }),
      pass(id, 'c1/0', [-1, -1 - shift], 'reference'),
      pass(id, 'c2/0', [-2, -1], 'reference'),
      pass(id, 'c1/0', [-1, -2], 'masked', 'c0/0'),
      pass(id, 'c2/0', [-3, -1 + shift], 'masked', 'c1/0'),
      pass(id, 'c2/0', [-1, -1 - shift], 'masked', 'c0/0'),
    ];
    await base.load(
      episode('a', 1, 0.25),
      episode('b', 0, -0.5),
      episode('c', null, 2),
      played('d', {
        group: 'g',
        reward: 1,
        calls: [
          call({ influence: 0.75, restart: -1, embedding: [1, 2, 3] }),
          call({ influence: 1 }),
          call({ restart: 1 }),
        ],
      }),
    );
    await base.run(['causal_influence', 'restart_reward', 'mamr_step_advantage', 'cosine_groups']);
    // What c1 loses without c0, and c2 without c1, is 1 less the shift: 0.75, 1.5 and −1, each twice; all steps have equal tokens.
    const influence = 2.5 / 6;
    const three = ['c0/0', 'c1/0', 'c2/0'];
    const none = (id: string, reason: string, of: readonly string[] = three): Expected =>
      Object.fromEntries(of.map((step) => [`${id} ${step}`, [null, reason]]));
    await base.expectRows('credits', 'causal_influence', {
      ...steps('a', 2, influence),
      ...steps('b', 2, influence),
      ...steps('c', 2, influence),
      ...none('a', 'no_masked_logprobs', ['c2/0']),
      ...none('b', 'no_masked_logprobs', ['c2/0']),
      ...none('c', 'no_masked_logprobs', ['c2/0']),
      ...none('d', 'no_masked_logprobs'),
    });
    // The last step has −3 with all before it. In a, which is right, it has −2.25 without c0 and −3.75 without c1;
    // in b, which is wrong, −1.5 and −4.5.
    await base.expectRows('credits', 'restart_reward', {
      'a c0/0': [1, null],
      'a c1/0': [-1, null],
      'a c2/0': [null, 'no_masked_logprobs'],
      'b c0/0': [-1, null],
      'b c1/0': [1, null],
      'b c2/0': [null, 'no_masked_logprobs'],
      ...none('c', 'unknown_outcome'),
      ...none('d', 'no_masked_logprobs'),
    });
    // Five steps have all three. Outcomes 1, 1, 0, 0, 1: mean 0.6, variance 0.3. Influences 5/12 four times and ¾: mean 29/60,
    // variance 1/45. Restarts 1, −1, −1, 1, −1: mean −0.2, variance 1.2.
    const credit = (outcome: number, from: number, restart: number) =>
      outcome / (Math.sqrt(0.3) + 1e-6) +
      (0.1 * from) / (Math.sqrt(1 / 45) + 1e-6) +
      (0.1 * restart) / (Math.sqrt(1.2) + 1e-6);
    await base.expectRows('credits', 'mamr_step_advantage', {
      'a c0/0': [credit(0.4, -1 / 15, 1.2), null],
      'a c1/0': [credit(0.4, -1 / 15, -0.8), null],
      'a c2/0': [null, 'no_influence'],
      'b c0/0': [credit(-0.6, -1 / 15, -0.8), null],
      'b c1/0': [credit(-0.6, -1 / 15, 1.2), null],
      'b c2/0': [null, 'no_influence'],
      ...none('c', 'missing_reward'),
      'd c0/0': [credit(0.4, 4 / 15, -0.8), null],
      'd c1/0': [null, 'no_restart'],
      'd c2/0': [null, 'no_influence'],
    });
    // The cosines of [1, ¼], [1, −½] and [1, 2] with each other are 0.76, 0.65 and 0, with [1, −5] at most 0.61.
    await base.expectRows('credits', 'cosine_groups', {
      'a c0/0': [0, null],
      'a c1/0': [1, null],
      'a c2/0': [null, 'no_embedding'],
      'b c0/0': [2, null],
      'b c1/0': [1, null],
      'b c2/0': [null, 'no_embedding'],
      'c c0/0': [3, null],
      'c c1/0': [1, null],
      'c c2/0': [null, 'no_embedding'],
      'd c0/0': [null, 'other_dimension'],
      'd c1/0': [null, 'no_embedding'],
      'd c2/0': [null, 'no_embedding'],
    });
  });

  it('asks in Dr. MAMR for no restart where it weighs nothing', async () => {
    const call = (says = {}) => ({ choices: [{ says }] });
    await base.load(
      played('a', { group: 'g', reward: 1, calls: [call({ influence: 1 }), call()] }),
      played('b', { group: 'g', reward: 0, calls: [call({ influence: 0 }), call()] }),
    );
    await base.run([{ method: 'mamr_step_advantage', params: { beta: 0 } }]);
    // Outcomes and influences are 1 and 0 both: mean ½, variance ½.
    const both = 1.1 * (0.5 / (Math.sqrt(0.5) + 1e-6));
    await base.expectRows('credits', 'mamr_step_advantage', {
      'a c0/0': [both, null],
      'a c1/0': [null, 'no_influence'],
      'b c0/0': [-both, null],
      'b c1/0': [null, 'no_influence'],
    });
  });
});
