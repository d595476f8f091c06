import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Call, played, randomEpisodes, say, seeded } from './support/episodes.ts';
import {
  answer,
  type Expected,
  expectNumber,
  grouped,
  type JudgedDatabase,
  judgedDatabase,
  place,
  type SeenEpisode,
  type SeenStep,
} from './support/judged.ts';

type Answer = (number | null)[];

describe('credit that the judge computes from what is stored', () => {
  let base: JudgedDatabase;
  beforeEach(async () => {
    base = await judgedDatabase();
  });
  afterEach(() => base.close());

  /** Groups in which one agent spoke with two versions. */
  const mixedGroups = (episodes: readonly SeenEpisode[]) => {
    const versions = new Map<string, Set<string>>();
    for (const e of episodes)
      for (const { agent, version } of e.steps)
        if (version !== null) {
          const key = JSON.stringify([e.group, agent]);
          versions.set(key, (versions.get(key) ?? new Set()).add(version));
        }
    return new Set([...versions].filter(([, all]) => all.size > 1).map(([key]) => JSON.parse(key)[0] as string));
  };
  /** The word beside a credit among these rewards, if any. */
  const flag = (mine: number | null, among: readonly (number | null)[], mixed: boolean) => {
    const known = among.filter((one) => one !== null);
    if (mine === null) return 'missing_reward';
    if (known.length === 1) return 'group_of_one';
    if (known.every((one) => one === known[0])) return 'zero_variance';
    return mixed ? 'mixed_policies' : null;
  };

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

  it('compares episodes, agents and turns of a group, and says where versions of a policy were mixed', async () => {
    await base.load(
      randomEpisodes(11, { episodes: 40, extra: (r) => (r.chance(0.5) ? { env: `room ${r.below(3)}` } : {}) }),
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
    const episodes = await base.seen();
    const mixed = mixedGroups(episodes);
    expect(mixed).toEqual(new Set(['g2']));
    const group = episodes.map((e) => e.group);
    const reward = episodes.map((e) => e.reward);
    for (const method of ['grpo_advantage', 'trl_advantage', 'rloo_advantage']) {
      const values = answer<Answer>(method, {
        group,
        reward,
        ...(method === 'trl_advantage' ? { scale: 'batch' } : {}),
      });
      const wanted: Expected = {};
      for (const [i, e] of episodes.entries()) {
        const among = episodes.filter((other) => other.group === e.group).map((other) => other.reward);
        for (const step of e.steps) wanted[place(step)] = [values[i]!, flag(e.reward, among, mixed.has(e.group))];
      }
      await base.expectRows('credits', method, wanted);
    }
    const rows = episodes.flatMap((e) => e.steps.map((step) => ({ e, step })));
    for (const method of ['drmas_advantage', 'multiagent_grpo_advantage', 'floored_advantage']) {
      const values = answer<Answer>(method, {
        steps: rows.map(({ e, step }) => ({ query: e.group, traj: e.episode_id, agent: step.agent, reward: e.reward })),
      });
      const wanted: Expected = {};
      for (const [i, { e, step }] of rows.entries()) {
        const among = rows.filter((o) => o.e.group === e.group && o.step.agent === step.agent).map((o) => o.e.reward);
        wanted[place(step)] = [values[i]!, flag(e.reward, among, mixed.has(e.group))];
      }
      await base.expectRows('credits', method, wanted);
    }
    const roomOf = (e: SeenEpisode) => e.env ?? e.group;
    const mixedRooms = mixedGroups(episodes.map((e) => ({ ...e, group: roomOf(e) })));
    const timed = rows.filter(({ step }) => step.turn !== null);
    const values = answer<Answer>('at_grpo_advantage', {
      steps: timed.map(({ e, step }) => ({ env: roomOf(e), turn: step.turn, agent: step.agent, reward: e.reward })),
    });
    const wanted: Expected = Object.fromEntries(rows.map(({ step }) => [place(step), [null, 'no_turn']]));
    for (const [i, { e, step }] of timed.entries()) {
      const among = timed
        .filter((o) => roomOf(o.e) === roomOf(e) && o.step.agent === step.agent && o.step.turn === step.turn)
        .map((o) => o.e.reward);
      wanted[place(step)] = [values[i]!, flag(e.reward, among, mixedRooms.has(roomOf(e)))];
    }
    await base.expectRows('credits', 'at_grpo_advantage', wanted);
  });

  it('compares steps where the rewards of a method are read', async () => {
    await base.load(randomEpisodes(12, { says: { reward: (r) => r.below(50) / 7 } }));
    await base.run(['petting_mixed_reward', { method: 'grpo_advantage', reads: 'petting_mixed_reward' }]);
    const computed = await base.rows<{ episode_id: string; step_id: string; value: number | null }>(
      `select episode_id, step_id, value from traj.rewards where step_id is not null order by 1, 2`,
    );
    const groups = new Map((await base.seen()).map((e) => [e.episode_id, e.group]));
    const values = answer<Answer>('grpo_advantage', {
      group: computed.map((row) => groups.get(row.episode_id)),
      reward: computed.map((row) => row.value),
    });
    const found = await base.rows<{ value: number | null }>(
      'select value from traj.credits order by episode_id, step_id',
    );
    expect(found.length).toBe(computed.length);
    for (const [i, row] of found.entries()) expectNumber(row.value, values[i]!, `step ${i}`);
  });

  it('follows who launched whom: planner and workers, joint actions, designs and executions', async () => {
    await base.load(
      randomEpisodes(13, { episodes: 60, launches: true, rewards: [0, 1, 0.5, 2, 3, null] }),
      played('one', { group: 'loop', parent: 'two', reward: 1, calls: [{ choices: [{}] }] }),
      played('two', { group: 'loop', parent: 'one', reward: 1, calls: [{ choices: [{}] }] }),
      played('far', { group: 'loop', parent: 'e001', reward: 1, calls: [{ choices: [{}] }] }),
      ...['d1', 'd2', 'd3'].flatMap((id, d) => [
        played(id, { group: 'designs', calls: [{ choices: [{}] }] }),
        ...[0, 1, 2].map((x) =>
          played(`${id}${x}`, {
            group: 'designs',
            parent: id,
            reward: ((d + 1) * x) % 4,
            calls: [{ choices: [{}, {}] }],
          }),
        ),
      ]),
    );
    await base.run(['matpo_advantage', 'magrpo_returns', 'metaagentx_advantage']);
    const episodes = await base.seen();
    const mixed = mixedGroups(episodes);
    const [matpo, magrpo, designs]: [Expected, Expected, Expected] = [{}, {}, {}];
    const put = (into: Expected, e: SeenEpisode, value: number | null, reason: string | null) => {
      for (const step of e.steps) into[place(step)] = [value, reason];
    };
    for (const [group, members] of grouped(episodes, (e) => e.group)) {
      const lost = new Map(
        members.filter((e) => e.group === 'loop').map((e) => [e, e.episode_id === 'far' ? 'unknown_parent' : 'cycle']),
      );
      for (const [e, reason] of lost) for (const into of [matpo, magrpo, designs]) put(into, e, null, reason);
      const hanging = members.filter((e) => !lost.has(e));
      const below = (e: SeenEpisode) => hanging.filter((other) => other.parent === e.episode_id);
      const rootOf = (e: SeenEpisode): SeenEpisode =>
        e.parent === null ? e : rootOf(hanging.find((other) => other.episode_id === e.parent)!);
      const roots = hanging.filter((e) => e.parent === null);
      const isMixed = mixed.has(group);

      const { main } = answer<{ main: Answer }>('matpo_advantage', {
        main: roots.map((e) => ({ id: e.episode_id, query: group, reward: e.reward })),
        workers: [],
      });
      for (const e of hanging) {
        const root = rootOf(e);
        put(
          matpo,
          e,
          main[roots.indexOf(root)]!,
          flag(
            root.reward,
            roots.map((r) => r.reward),
            isMixed,
          ),
        );
      }

      const known = (e: SeenEpisode): boolean => e.reward !== null && (below(e).length === 0 || below(e).some(known));
      const order: SeenEpisode[][] = [];
      const nodeOf = (family: SeenEpisode[]): object | null => {
        const actions = family.filter(known);
        if (actions.length === 0) return null;
        order.push(actions);
        return { rewards: actions.map((e) => e.reward), children: actions.map((e) => nodeOf(below(e))) };
      };
      const unknown = hanging.filter((e) => !known(e));
      for (const e of unknown) put(magrpo, e, null, e.reward === null ? 'missing_reward' : 'missing_reward_below');
      for (const family of [roots, ...unknown.map(below)]) {
        order.length = 0;
        const tree = nodeOf(family);
        if (tree === null) continue;
        const nodes = answer<{ returns: number[]; advantages: number[] }[]>('magrpo_returns', { tree });
        for (const [i, { returns, advantages }] of nodes.entries())
          for (const [k, e] of order[i]!.entries()) put(magrpo, e, advantages[k]!, flag(1, returns, isMixed));
      }

      const launchers = roots.filter((e) => below(e).length > 0);
      const even = launchers.every((e) => below(e).length === below(launchers[0]!).length);
      const out =
        launchers.length > 0 && even
          ? answer<{ designer: Answer; executor: Answer }>('metaagentx_advantage', {
              exec_rewards: launchers.map((e) => below(e).map((one) => one.reward)),
            })
          : null;
      const executions = launchers.flatMap(below);
      for (const e of hanging) {
        if (launchers.length > 0 && !even) put(designs, e, null, 'uneven_executions');
        else if (launchers.includes(e)) {
          const value = out!.designer[launchers.indexOf(e)]!;
          put(designs, e, value, value === null ? 'missing_reward' : flag(1, out!.designer, isMixed));
        } else if (executions.includes(e)) {
          const value = out!.executor[executions.indexOf(e)]!;
          const rewards = executions.filter((other) => other.parent === e.parent).map((other) => other.reward);
          put(designs, e, value, value === null ? 'missing_reward' : flag(1, rewards, isMixed));
        } else put(designs, e, null, e.parent === null ? 'no_executions' : 'not_an_execution');
      }
    }
    await base.expectRows('credits', 'matpo_advantage', matpo);
    await base.expectRows('credits', 'magrpo_returns', magrpo);
    await base.expectRows('credits', 'metaagentx_advantage', designs);
    expect(designs['d10 c0/1']![0]).not.toBeNull();
  });

  it('values generations and verifications by the refinements below them', async () => {
    const random = seeded(14);
    const calls: Call[] = [];
    const grow = (role: string, parent: string | undefined, says = {}) =>
      `c${calls.push({ role, agent: role, choices: [{ parent, says }] }) - 1}/0`;
    for (let g = 0; g < 4; g++) {
      const generation = grow('generator', undefined);
      for (let v = random.below(4); v >= 0; v--) {
        const verification = grow('verifier', generation);
        for (let r = random.below(4); r > 0; r--)
          grow('refiner', verification, random.chance(0.85) ? { correct: random.chance(0.5) } : {});
      }
    }
    grow('bystander', undefined);
    await base.load(
      played('tree', { calls }),
      played('flat', { calls: [{ role: 'generator', choices: [{}] }] }),
      played('bare', {}),
    );
    await base.run(['malt_values']);
    const [tree] = (await base.seen()).filter((e) => e.episode_id === 'tree');
    const under = (step: SeenStep) => tree!.steps.filter((other) => other.parent === step.step_id);
    const graded = (step: SeenStep) => under(step).filter((refiner) => 'correct' in refiner.says);
    const checked = (step: SeenStep) => under(step).filter((verifier) => graded(verifier).length > 0);
    const generators = tree!.steps.filter((step) => step.role === 'generator' && checked(step).length > 0);
    type Malt = { V_generator: number[]; V_verifier: number[][]; pairs_generator: [number, number][] };
    const out = answer<Malt>('malt_values', {
      refinements: generators.map((g) => checked(g).map((v) => graded(v).map((r) => Number(r.says.correct)))),
    });
    const wanted: Expected = { 'flat c0/0': [null, 'no_tree'] };
    for (const step of tree!.steps) {
      const none = { refiner: 'not_graded', bystander: 'other_role' }[step.role!] ?? 'no_graded_refinement';
      wanted[place(step)] = [null, none];
      if (step.role === 'refiner' && 'correct' in step.says) wanted[place(step)] = [Number(step.says.correct), null];
    }
    for (const [g, generator] of generators.entries()) {
      wanted[place(generator)] = [out.V_generator[g]!, null];
      for (const [v, verifier] of checked(generator).entries())
        wanted[place(verifier)] = [out.V_verifier[g]![v]!, null];
    }
    await base.expectRows('credits', 'malt_values', wanted);
    const details = await base.rows<{ step_id: string; preferred_to: string[] }>(
      `select step_id, detail -> 'preferred_to' as preferred_to from traj.credits where step_id in (${generators.map((g) => `'${g.step_id}'`)}) and episode_id = 'tree'`,
    );
    const pairs = details.flatMap(({ step_id, preferred_to }) => preferred_to.map((worse) => [step_id, worse]));
    const named = out.pairs_generator.map(([a, b]) => [generators[a]!.step_id, generators[b]!.step_id]);
    expect(pairs.sort()).toEqual(named.sort());
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
      played('silent', { calls: two }),
      played('short', { says: { joint_rewards: [1, 0] }, calls: two }),
      played('uneven', { says: { joint_rewards: [1, 0] }, calls: [two[0]!, { agent: 'b', choices: [{}] }] }),
      played('twice', { says: { joint_rewards: [1, 0] }, calls: [...two, two[0]!] }),
    );
    await base.run(['magrpo_cross']);
    const [a, b] = answer<{ advantages: number[] }[]>('magrpo_cross', { k: 2, agents: 2, rewards: [1, 0, 0.25, 0] });
    const wanted: Expected = {};
    for (const [i, value] of [...a!.advantages, ...b!.advantages].entries())
      wanted[`full c${Math.floor(i / 2)}/${i % 2}`] = [value, null];
    for (const e of await base.seen())
      for (const step of e.steps)
        wanted[place(step)] ??= [
          null,
          {
            silent: 'no_joint_rewards',
            short: 'uneven_joint_rewards',
            uneven: 'uneven_candidates',
            twice: 'several_calls',
          }[e.episode_id]!,
        ];
    await base.expectRows('credits', 'magrpo_cross', wanted);
  });

  it('measures a player’s turns against its mean in the same game of the group', async () => {
    await base.load(
      randomEpisodes(15, {
        says: { reward: (r) => r.below(50) / 7 },
        extra: (r) => (r.chance(0.7) ? { tags: { game: r.pick(['chess', 'go']) } } : {}),
      }),
    );
    await base.run(['mars_turn_advantage']);
    const episodes = await base.seen();
    const mixed = mixedGroups(episodes);
    const all = episodes.flatMap((e) =>
      [...grouped(e.steps, (step) => step.agent)].map(([agent, steps]) => ({
        e,
        id: `${e.episode_id} ${agent}`,
        player: agent!,
        tag: e.tags?.game as string | undefined,
        steps: steps.filter((step) => step.onward),
      })),
    );
    const rewarded = all.filter((one) => one.steps.length > 0 && one.steps.every((step) => 'reward' in step.says));
    const wanted: Expected = {};
    for (const e of episodes)
      for (const step of e.steps) wanted[place(step)] = [null, step.onward ? 'missing_reward' : 'not_chosen'];
    for (const [group, members] of grouped(rewarded, (one) => one.e.group)) {
      const out = answer<Record<string, number[]>>('mars_turn_advantage', {
        trajectories: members.map(({ id, player, tag, steps }) => ({
          id,
          player,
          ...(tag ? { tag } : {}),
          turn_rewards: steps.map((step) => step.says.reward),
        })),
      });
      for (const { id, steps } of members)
        for (const [i, step] of steps.entries())
          wanted[place(step)] = [out[id]![i]!, mixed.has(group) ? 'mixed_policies' : null];
    }
    await base.expectRows('credits', 'mars_turn_advantage', wanted);
  });

  it('chains a critic’s values from agent to agent, the episodes of a group and of one team in one buffer', async () => {
    const random = seeded(16);
    const plays = Array.from({ length: 24 }, (_, n) => {
      const own = random.chance(0.5);
      const team = random.chance(0.3) ? ['a'] : ['a', 'b'];
      const calls = Array.from({ length: 1 + random.below(4) }, (_, turn) =>
        team.map(
          (agent): Call => ({
            agent: random.chance(0.03) ? 'guest' : agent,
            turn: random.chance(0.02) ? undefined : turn,
            choices: [
              {
                says: {
                  ...(random.chance(0.97) ? { value: random.below(9) / 7 } : {}),
                  ...(own && random.chance(0.98) ? { reward: random.below(9) / 5 } : {}),
                },
              },
            ],
          }),
        ),
      ).flat();
      const reward = random.pick([0, 1, 0.5, null]);
      return played(`e${10 + n}`, { group: random.pick(['g1', 'g2']), reward, calls });
    });
    await base.load(...plays);
    await base.run([{ method: 'marft_gae', params: { normalise: true } }]);
    const episodes = await base.seen();
    const wanted: Expected = {};
    let credited = 0;
    for (const members of grouped(episodes, (e) => e.group).values()) {
      const whole: { e: SeenEpisode; team: string; rounds: SeenStep[][]; rewards: number[][] }[] = [];
      for (const e of members) {
        const rounds = [...grouped(e.steps, (step) => step.turn).values()];
        const teams = rounds.map((round) => round.map((step) => step.agent).join());
        const own = e.steps.map((step) => step.says.reward as number | undefined);
        const none = own.every((one) => one === undefined);
        const reason = e.steps.some((step) => step.turn === null)
          ? 'no_turn'
          : new Set(teams).size > 1
            ? 'uneven_turns'
            : e.steps.some((step) => step.says.value === undefined)
              ? 'no_values'
              : (none ? e.reward === null : own.includes(undefined))
                ? 'missing_reward'
                : null;
        for (const step of e.steps) wanted[place(step)] = [null, reason];
        if (reason !== null) continue;
        const rewards = rounds.map((round) =>
          round.map((step) => (none ? (step === e.steps.at(-1) ? e.reward! : 0) : (step.says.reward as number))),
        );
        whole.push({ e, team: teams[0]!, rounds, rewards });
      }
      for (const buffer of grouped(whole, (one) => one.team).values()) {
        const rounds = buffer.flatMap((one) => one.rounds);
        const { advantages } = answer<{ advantages: number[][] }>('marft_gae', {
          rewards: buffer.flatMap((one) => one.rewards),
          values: rounds.map((round) => round.map((step) => step.says.value)),
          alive: buffer.flatMap((one) => one.rounds.map((round) => (round === one.rounds.at(-1) ? 0 : 1))),
          bootstrap: 0,
          normalise: true,
        });
        for (const [t, round] of rounds.entries())
          for (const [a, step] of round.entries()) {
            wanted[place(step)] = [advantages[t]![a]!, null];
            credited += 1;
          }
      }
    }
    expect(credited).toBeGreaterThan(20);
    await base.expectRows('credits', 'marft_gae', wanted);
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
    // Of each of a, b and c: what c1 and c2 lose without the step before them.
    const deltas = [0.25, -0.5, 2].flatMap((shift) => [-2 - shift - -3, -3 - (-4 + shift)]);
    const influence = answer<number[]>('causal_influence', { cluster: deltas.map(() => 0), delta: deltas });
    const wanted: Expected = {};
    for (const e of ['a', 'b', 'c', 'd'])
      for (const [i, s] of ['c0/0', 'c1/0', 'c2/0'].entries())
        wanted[`${e} ${s}`] = e === 'd' || i === 2 ? [null, 'no_masked_logprobs'] : [influence[0]!, null];
    await base.expectRows('credits', 'causal_influence', wanted);
    const restart = (correct: boolean, without: number, kept = -3) =>
      answer<number>('restart_reward', { correct, logp_without_history: without, logp_with_history: kept });
    const restarts: Expected = {
      'a c0/0': [restart(true, -2.25), null],
      'a c1/0': [restart(true, -3.75), null],
      'b c0/0': [restart(false, -1.5), null],
      'b c1/0': [restart(false, -4.5), null],
    };
    for (const e of ['a', 'b', 'd'])
      for (const s of ['c0/0', 'c1/0', 'c2/0']) restarts[`${e} ${s}`] ??= [null, 'no_masked_logprobs'];
    for (const s of ['c0/0', 'c1/0', 'c2/0']) restarts[`c ${s}`] = [null, 'unknown_outcome'];
    await base.expectRows('credits', 'restart_reward', restarts);
    const rows = [
      ['a c0/0', 1],
      ['a c1/0', 1],
      ['b c0/0', 0],
      ['b c1/0', 0],
    ] as const;
    const values = answer<number[]>('mamr_step_advantage', {
      outcome: [...rows.map(([, outcome]) => outcome), 1],
      influence: [...rows.map(() => influence[0]), 0.75],
      restart: [...rows.map(([at]) => restarts[at]![0]), -1],
    });
    const steps: Expected = Object.fromEntries(
      [...rows, ['d c0/0', 1] as const].map(([at], i) => [at, [values[i]!, null]]),
    );
    for (const e of ['a', 'b']) steps[`${e} c2/0`] = [null, 'no_influence'];
    for (const s of ['c0/0', 'c1/0', 'c2/0']) steps[`c ${s}`] = [null, 'missing_reward'];
    steps['d c1/0'] = [null, 'no_restart'];
    steps['d c2/0'] = [null, 'no_influence'];
    await base.expectRows('credits', 'mamr_step_advantage', steps);
    const clusters = answer<number[]>('cosine_groups', {
      embeddings: [
        [1, 0.25],
        [1, -5],
        [1, -0.5],
        [1, -5],
        [1, 2],
        [1, -5],
      ],
    });
    const grouping: Expected = {};
    for (const [i, e] of ['a', 'b', 'c'].entries()) {
      grouping[`${e} c0/0`] = [clusters[2 * i]!, null];
      grouping[`${e} c1/0`] = [clusters[2 * i + 1]!, null];
      grouping[`${e} c2/0`] = [null, 'no_embedding'];
    }
    grouping['d c0/0'] = [null, 'other_dimension'];
    grouping['d c1/0'] = grouping['d c2/0'] = [null, 'no_embedding'];
    await base.expectRows('credits', 'cosine_groups', grouping);
  });
});
