import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Call, played, type Says, say } from './support/episodes.ts';
import { type Expected, type JudgedDatabase, judgedDatabase } from './support/judged.ts';

describe('values of a process that the judge computes from what is stored', () => {
  let base: JudgedDatabase;
  beforeEach(async () => {
    base = await judgedDatabase();
  });
  afterEach(() => base.close());

  it('passes roll-outs back through the tree of an episode, and values its nodes, its root and its paths', async () => {
    const node = (parent: string | undefined, says: Says = {}): Call => ({ choices: [{ parent, says }] });
    await base.load(
      played('tree', {
        calls: [
          node(undefined, { value: 0.6 }),
          // A grade of a node above others is no grade of a roll-out.
          node('c0/0', { value: 0.2, correct: false }),
          node('c1/0', { value: -0.5, correct: true }),
          node('c1/0', { value: -1, correct: false }),
          node('c0/0', { correct: true }),
          node(undefined, { value: 1 }),
          node('gone/0', { value: 1, correct: true }),
          node('c7/0', { value: 1, correct: true }),
        ],
      }),
      played('sure', { calls: [node(undefined), node('c0/0', { correct: true })] }),
      played('ungraded', { calls: [node(undefined), node('c0/0')] }),
      played('flat', {
        calls: [
          node(undefined, { value: 0.6, correct: true }),
          { choices: [{ says: { value: 1 } }, { chosen: true, says: { value: 0.2 } }] },
        ],
      }),
      played('bare', {}),
    );
    await base.run(['masprm_backprop', 'uct', 'masprm_target', 'masprm_tree_keep', 'masprm_path_score']);
    const unvalued: Expected = {
      'tree c5/0': [null, 'not_graded'],
      'tree c6/0': [null, 'unknown_parent'],
      'tree c7/0': [null, 'cycle'],
      'ungraded c0/0': [null, 'not_graded'],
      'ungraded c1/0': [null, 'not_graded'],
      'flat c0/0': [null, 'no_tree'],
      'flat c1/0': [null, 'no_tree'],
      'flat c1/1': [null, 'no_tree'],
    };
    // Three roll-outs end right, wrong and right; all pass c0, the first two c1.
    await base.expectRows('credits', 'masprm_backprop', {
      'tree c0/0': [1 / 3, null],
      'tree c1/0': [0, null],
      'tree c2/0': [1, null],
      'tree c3/0': [-1, null],
      'tree c4/0': [1, null],
      'sure c0/0': [1, null],
      'sure c1/0': [1, null],
      ...unvalued,
    });
    // q + 2 √(ln visits above / own visits)
    await base.expectRows('credits', 'uct', {
      'tree c0/0': [1 / 3 + 2 * Math.sqrt(Math.log(3) / 3), null],
      'tree c1/0': [2 * Math.sqrt(Math.log(3) / 2), null],
      'tree c2/0': [1 + 2 * Math.sqrt(Math.LN2), null],
      'tree c3/0': [-1 + 2 * Math.sqrt(Math.LN2), null],
      'tree c4/0': [1 + 2 * Math.sqrt(Math.log(3)), null],
      'sure c0/0': [1, null],
      'sure c1/0': [1, null],
      ...unvalued,
    });
    // atanh q = ½ ln((1 + q) / (1 − q)), with q held to ±0.95, where the quotient is 39.
    const most = Math.log(39) / 2;
    await base.expectRows('credits', 'masprm_target', {
      'tree c0/0': [Math.LN2 / 2, null],
      'tree c1/0': [0, null],
      'tree c2/0': [most, null],
      'tree c3/0': [-most, null],
      'tree c4/0': [most, null],
      'sure c0/0': [most, null],
      'sure c1/0': [most, null],
      ...unvalued,
    });
    // The product of (v + 1) / 2 down to the step, of which each is at least a millionth.
    await base.expectRows('credits', 'masprm_path_score', {
      'tree c0/0': [0.8, null],
      'tree c1/0': [0.48, null],
      'tree c2/0': [0.12, null],
      'tree c3/0': [0.48e-6, null],
      'tree c4/0': [null, 'no_values'],
      'tree c5/0': [1, null],
      'tree c6/0': [null, 'unknown_parent'],
      'tree c7/0': [null, 'cycle'],
      'sure c0/0': [null, 'no_values'],
      'sure c1/0': [null, 'no_values'],
      'ungraded c0/0': [null, 'no_values'],
      'ungraded c1/0': [null, 'no_values'],
      'flat c0/0': [0.8, null],
      'flat c1/0': [null, 'not_chosen'],
      'flat c1/1': [0.48, null],
    });
    // A tree is kept where its root is neither sure nor hopeless.
    expect(
      await base.rows(`select episode_id, keep from traj.verdicts where method = 'masprm_tree_keep' order by 1`),
    ).toEqual([
      { episode_id: 'bare', keep: null },
      { episode_id: 'flat', keep: null },
      { episode_id: 'sure', keep: false },
      { episode_id: 'tree', keep: true },
      { episode_id: 'ungraded', keep: null },
    ]);
    expect(
      await base.rows(
        `select episode_id, value, reason from traj.scores where method = 'masprm_backprop' order by episode_id`,
      ),
    ).toEqual([
      { episode_id: 'bare', value: null, reason: 'no_steps' },
      { episode_id: 'sure', value: 1, reason: null },
      { episode_id: 'tree', value: 1 / 3, reason: null },
    ]);
  });

  it('follows DyLAN: who listened to whom, what each agent contributed, when a round agreed', async () => {
    const by = (agent: string, turn: number | undefined, says: Says = {}): Call => ({
      agent,
      turn,
      choices: [{ says }],
    });
    const rate = (episode: string, rater: string, ratings: Readonly<Record<string, number>>, second = 30) =>
      Object.entries(ratings).map(([call, value]) =>
        say(episode, { kind: 'step', id: `${call}/0` }, 'rating', value, { by: rater, second }),
      );
    await base.load(
      played('three', {
        speakers: { 1: 2, 2: ['a', 'b', 'c', 'd'] },
        calls: [
          by('a', 0, { answer: 'x' }),
          by('b', 0, { answer: 'x' }),
          by('c', 0, { answer: 'y' }),
          by('a', 1, { answer: 'x' }),
          by('b', 1, { answer: 'x' }),
          by('a', 2, { answer: 'x', agrees: true }),
          by('b', 2, { answer: 'x', agrees: false }),
        ],
      }),
      rate('three', 'a', { c0: 1, c1: 3, c2: 2, c3: 3, c4: 2 }),
      // The later rating counts; one above 5 is 1, and whoever leaves out a peer rates none.
      rate('three', 'a', { c0: 5 }, 40),
      rate('three', 'b', { c0: 1, c1: 2, c2: 9, c3: 4 }),
      played('twice', {
        calls: [
          by('a', 0, { answer: 'y' }),
          by('a', 0, { answer: 'x', agrees: true }),
          by('b', 0, { answer: 'x', agrees: true }),
        ],
      }),
      played('open', { calls: [by('a', 0), by('a', 1)] }),
      rate('open', 'a', { c0: 5 }),
      played('unrated', { calls: [by('a', 0, { agrees: true }), by('a', 1, { agrees: true })] }),
      played('untimed', { calls: [by('a', 0), by('a', undefined)] }),
    );
    await base.run(['dylan_edge_weights', 'dylan_importance', 'dylan_consensus']);
    // a gives the first round 5, 3 and 2 of 10, b 0.2, 0.4 and 1 of 1.6; to the second round a gives 3 and 2 of 5, b a half each.
    await base.expectRows('credits', 'dylan_edge_weights', {
      'three c0/0': [(0.5 + 0.125) / 2, null],
      'three c1/0': [(0.3 + 0.25) / 2, null],
      'three c2/0': [(0.2 + 0.625) / 2, null],
      'three c3/0': [(0.6 + 0.5) / 2, null],
      'three c4/0': [(0.4 + 0.5) / 2, null],
      'three c5/0': [null, 'last_round'],
      'three c6/0': [null, 'last_round'],
      'twice c0/0': [null, 'last_round'],
      'twice c1/0': [null, 'last_round'],
      'twice c2/0': [null, 'last_round'],
      'open c0/0': [1, null],
      'open c1/0': [null, 'last_round'],
      'unrated c0/0': [null, 'no_ratings'],
      'unrated c1/0': [null, 'no_ratings'],
      'untimed c0/0': [null, 'no_turn'],
      'untimed c1/0': [null, 'no_turn'],
    });
    // Only a agrees at the end. Before that a matters by 0.6 and b by 0.4, and those of the first round by what a and b took from them.
    await base.expectRows('credits', 'dylan_importance', {
      'three c0/0': [0.5 * 0.6 + 0.125 * 0.4, null],
      'three c1/0': [0.3 * 0.6 + 0.25 * 0.4, null],
      'three c2/0': [0.2 * 0.6 + 0.625 * 0.4, null],
      'three c3/0': [0.6, null],
      'three c4/0': [0.4, null],
      'three c5/0': [1, null],
      'three c6/0': [0, null],
      'twice c0/0': [0.5, null],
      'twice c1/0': [0.5, null],
      'twice c2/0': [0.5, null],
      'open c0/0': [null, 'no_agreement'],
      'open c1/0': [null, 'no_agreement'],
      'unrated c0/0': [null, 'no_ratings'],
      'unrated c1/0': [null, 'no_ratings'],
      'untimed c0/0': [null, 'no_turn'],
      'untimed c1/0': [null, 'no_turn'],
    });
    // More than two thirds, rounded down, of those who may answer: 2 of 3 and 2 of 4 are too few, 2 of 2 are enough.
    await base.expectRows('credits', 'dylan_consensus', {
      'three c0/0': [0, null],
      'three c1/0': [0, null],
      'three c2/0': [0, null],
      'three c3/0': [1, null],
      'three c4/0': [1, null],
      'three c5/0': [0, null],
      'three c6/0': [0, null],
      'twice c0/0': [1, null],
      'twice c1/0': [1, null],
      'twice c2/0': [1, null],
      'open c0/0': [null, 'no_answers'],
      'open c1/0': [null, 'no_answers'],
      'unrated c0/0': [null, 'no_answers'],
      'unrated c1/0': [null, 'no_answers'],
      'untimed c0/0': [null, 'no_turn'],
      'untimed c1/0': [null, 'no_turn'],
    });
    // Each of its rounds shares out 1.
    expect(
      await base.rows(`select episode_id, value from traj.scores where method = 'dylan_importance' order by 1`),
    ).toEqual([
      { episode_id: 'three', value: expect.closeTo(3, 12) },
      { episode_id: 'twice', value: 1 },
    ]);
  });
});
