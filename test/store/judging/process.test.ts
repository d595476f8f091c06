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

describe('values of a process that the judge computes from what is stored', () => {
  let base: JudgedDatabase;
  beforeEach(async () => {
    base = await judgedDatabase();
  });
  afterEach(() => base.close());

  /** From the root down to the step; null for one that hangs from nothing. */
  const wayTo = (step: SeenStep, steps: readonly SeenStep[]): SeenStep[] | null => {
    const way = [step];
    while (way[0]!.parent !== null) {
      const above = steps.find((other) => other.step_id === way[0]!.parent);
      if (above === undefined || way.includes(above)) return null;
      way.unshift(above);
    }
    return way;
  };

  it('passes roll-outs back through the tree of an episode, and values its nodes, its root and its paths', async () => {
    await base.load(
      randomEpisodes(21, {
        tree: true,
        calls: 8,
        says: { correct: (r) => r.chance(0.5), value: (r) => r.below(9) / 4 - 1 },
      }),
      played('even', {
        calls: [
          { choices: [{}] },
          {
            choices: [
              { parent: 'c0/0', says: { correct: true } },
              { parent: 'c0/0', says: { correct: false } },
            ],
          },
        ],
      }),
    );
    await base.run(['masprm_backprop', 'uct', 'masprm_target', 'masprm_tree_keep', 'masprm_path_score']);
    const episodes = await base.seen();
    const expected: Record<'masprm_backprop' | 'uct' | 'masprm_target' | 'masprm_path_score', Expected> = {
      masprm_backprop: {},
      uct: {},
      masprm_target: {},
      masprm_path_score: {},
    };
    const verdicts = new Map<string, boolean | null>();
    const roots = new Map<string, number | null>();
    for (const { episode_id, steps } of episodes) {
      const onward = steps.filter((step) => step.onward);
      const tree = steps.some((step) => step.parent !== null);
      const ways = new Map(steps.map((step) => [step, wayTo(step, steps)]));
      const hanging = steps.filter((step) => ways.get(step) !== null);
      const leaves = tree ? hanging.filter((step) => !hanging.some((other) => other.parent === step.step_id)) : [];
      const graded = leaves.filter((leaf) => 'correct' in leaf.says);
      const rollouts = graded.map((leaf) => ({
        path: ['the root', ...ways.get(leaf)!.map((step) => step.step_id)],
        correct: Boolean(leaf.says.correct),
      }));
      const values = answer<Record<string, { visits: number; q: number }>>('masprm_backprop', { rollouts });
      const root = values['the root'];
      roots.set(episode_id, root?.q ?? null);
      verdicts.set(
        episode_id,
        root
          ? answer<boolean>('masprm_tree_keep', {
              root_q: root.q,
              leaf_q: graded.map((leaf) => values[leaf.step_id]!.q),
            })
          : null,
      );
      for (const step of steps) {
        const way = ways.get(step)!;
        const own = values[step.step_id];
        const none = !tree
          ? 'no_tree'
          : graded.length === 0
            ? 'not_graded'
            : way === null
              ? why(step, steps)
              : 'not_graded';
        const above = values[step.parent ?? 'the root'];
        const at = place(step);
        expected.masprm_backprop[at] = own ? [own.q, null] : [null, none];
        expected.masprm_target[at] = own ? [answer<number>('masprm_target', { q: own.q }), null] : [null, none];
        expected.uct[at] = own
          ? [answer<number>('uct', { q: own.q, parent_visits: above!.visits, child_visits: own.visits }), null]
          : [null, none];
        const path = tree ? way : step.onward ? onward.slice(0, onward.indexOf(step) + 1) : null;
        const said = path?.map((one) => one.says.value);
        expected.masprm_path_score[at] = !said
          ? [null, tree ? why(step, steps) : 'not_chosen']
          : said.includes(undefined)
            ? [null, 'no_values']
            : [answer<number>('masprm_path_score', { values: said }), null];
      }
    }
    for (const [method, wanted] of Object.entries(expected)) await base.expectRows('credits', method, wanted);
    const found = await base.rows<{ episode_id: string; keep: boolean | null }>(
      `select episode_id, keep from traj.verdicts where method = 'masprm_tree_keep' order by 1`,
    );
    expect(new Map(found.map((row) => [row.episode_id, row.keep]))).toEqual(verdicts);
    expect(verdicts.get('even')).toBe(true);
    const scores = await base.rows<{ episode_id: string; value: number | null; reason: string | null }>(
      `select episode_id, value, reason from traj.scores where method = 'masprm_backprop'`,
    );
    for (const [id, value] of roots) {
      const row = scores.find((one) => one.episode_id === id);
      if (value !== null) expectNumber(row!.value, value, `root of ${id}`);
      else expect(row?.reason ?? 'no_steps').toBe('no_steps');
    }
  });

  /** Why a step hangs from nothing. */
  const why = (step: SeenStep, steps: readonly SeenStep[]): string => {
    let at: SeenStep | undefined = step;
    for (let climbed = 0; climbed <= steps.length; climbed++) {
      if (at === undefined) return 'unknown_parent';
      at = steps.find((other) => other.step_id === at!.parent);
    }
    return 'cycle';
  };

  it('follows DyLAN: who listened to whom, what each agent contributed, when a round agreed', async () => {
    const random = seeded(22);
    const team = ['a', 'b', 'c', 'd'];
    const ratings: ReturnType<typeof say>[] = [];
    const plays = Array.from({ length: 20 }, (_, n) => {
      const id = `e${10 + n}`;
      const calls: Call[] = [];
      const rounds = 1 + random.below(4);
      for (let turn = 0; turn < rounds; turn++) {
        const speaking = team
          .filter((agent) => agent === 'a' || random.chance(0.8))
          .flatMap((agent) => (random.chance(0.2) ? [agent, agent] : [agent]));
        for (const agent of speaking) {
          const step = `c${calls.length}/0`;
          calls.push({
            agent,
            turn: n === 3 ? undefined : turn,
            choices: [
              {
                says: {
                  ...(random.chance(0.95) ? { agrees: random.chance(0.6) } : {}),
                  ...(random.chance(0.9) ? { answer: random.pick(['x', 'x', 'y']) } : {}),
                },
              },
            ],
          });
          if (n === 4) continue;
          for (const rater of team)
            if (random.chance(0.95))
              ratings.push(say(id, { kind: 'step', id: step }, 'rating', random.below(7), { by: rater }));
          if (random.chance(0.2))
            ratings.push(say(id, { kind: 'step', id: step }, 'rating', 5, { by: 'a', second: 40 }));
        }
      }
      return played(id, {
        calls,
        speakers: random.chance(0.5) ? { 1: ['a', 'b'], 2: 2 } : {},
      });
    });
    await base.load(...plays, ratings);
    await base.run(['dylan_edge_weights', 'dylan_importance', 'dylan_consensus']);
    const rated = new Map(
      (
        await base.rows<{ key: string; value: number }>(
          `select distinct on (episode_id, target_id, annotator) episode_id || ' ' || target_id || ' ' || annotator as key, value
           from traj.feedback where name = 'rating' order by episode_id, target_id, annotator, at desc`,
        )
      ).map((row) => [row.key, row.value]),
    );
    const speakers = new Map(
      (
        await base.rows<{ key: string; decision: unknown }>(
          `select episode_id || ' ' || turn as key, decision from traj.decisions where kind = 'speakers'`,
        )
      ).map((row) => [row.key, Array.isArray(row.decision) ? row.decision.length : (row.decision as number)]),
    );
    const episodes = await base.seen();
    /** The steps of each agent of a round. */
    const voices = (round: readonly SeenStep[]) => [...grouped(round, (step) => step.agent).values()];
    const [weights, importance, consensus]: [Expected, Expected, Expected] = [{}, {}, {}];
    const totals = new Map<string, number>();
    const put = (into: Expected, e: SeenEpisode, reason: string) => {
      for (const step of e.steps) into[place(step)] = [null, reason];
    };
    for (const e of episodes) {
      if (e.steps.some((step) => step.turn === null)) {
        for (const into of [weights, importance, consensus]) put(into, e, 'no_turn');
        continue;
      }
      const rounds = [...grouped(e.steps, (step) => step.turn!).values()];
      const agents = [...new Set(e.steps.map((step) => step.agent!))];
      for (const round of rounds) {
        const answers = voices(round).map((own) => (own.at(-1)!.says.answer ?? null) as string | null);
        const n = speakers.get(`${e.episode_id} ${round[0]!.turn}`) ?? agents.length;
        const agreed = answer<boolean>('dylan_consensus', { answers, n });
        const none = answers.every((one) => one === null);
        for (const step of round) consensus[place(step)] = none ? [null, 'no_answers'] : [Number(agreed), null];
      }
      const ofEpisode = [...rated.keys()].some((key) => key.startsWith(`${e.episode_id} `));
      if (!ofEpisode && rounds.length > 1) {
        put(weights, e, 'no_ratings');
        put(importance, e, 'no_ratings');
        continue;
      }
      const edges = rounds.slice(1).map((next, t) => {
        const peers = voices(rounds[t]!);
        const table: Record<string, Record<string, number>> = Object.fromEntries(
          peers.map(([peer]) => [peer!.agent!, {}]),
        );
        for (const { agent: rater } of next) {
          const given = peers.flatMap((own) =>
            own.flatMap((step) => rated.get(`${e.episode_id} ${step.step_id} ${rater}`) ?? []).slice(-1),
          );
          const row = answer<number[]>('dylan_edge_weights', { ratings: given, n_peers: peers.length });
          for (const [i, [peer]] of peers.entries()) table[peer!.agent!]![rater!] = row[i]!;
        }
        return table;
      });
      for (const [t, round] of rounds.entries())
        for (const step of round) {
          const heard = Object.values(edges[t]?.[step.agent!] ?? {});
          weights[place(step)] =
            t === rounds.length - 1 ? [null, 'last_round'] : [heard.reduce((a, b) => a + b, 0) / heard.length, null];
        }
      const opinion = (own: readonly SeenStep[]) =>
        own.map((step) => step.says.agrees).filter((one) => one !== undefined);
      if (voices(rounds.at(-1)!).some((own) => opinion(own).length === 0)) {
        put(importance, e, 'no_agreement');
        continue;
      }
      const out = answer<{ per_round: Record<string, number>[]; total: Record<string, number> }>('dylan_importance', {
        rounds: rounds.map((round) =>
          Object.fromEntries(
            agents.map((agent) => {
              const own = round.filter((one) => one.agent === agent);
              return [agent, { active: own.length > 0, agrees: Boolean(opinion(own).at(-1)) }];
            }),
          ),
        ),
        edges,
      });
      for (const [t, round] of rounds.entries())
        for (const step of round) importance[place(step)] = [out.per_round[t]![step.agent!]!, null];
      totals.set(
        e.episode_id,
        Object.values(out.total).reduce((a, b) => a + b, 0),
      );
    }
    await base.expectRows('credits', 'dylan_edge_weights', weights);
    await base.expectRows('credits', 'dylan_importance', importance);
    await base.expectRows('credits', 'dylan_consensus', consensus);
    const scores = await base.rows<{ episode_id: string; value: number }>(
      `select episode_id, value from traj.scores where method = 'dylan_importance'`,
    );
    expect(scores.length).toBe(totals.size);
    expect(totals.size).toBeGreaterThan(10);
    for (const row of scores) expectNumber(row.value, totals.get(row.episode_id)!, row.episode_id);
  });
});
