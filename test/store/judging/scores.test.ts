import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import type { Event } from '../../../ingest/events/events.ts';
import { METHODS } from '../../../store/evaluate/methods/find.ts';
import { at, event } from '../support/events.ts';
import { type Call, type Play, played, say } from './support/episodes.ts';
import { type JudgedDatabase, judgedDatabase } from './support/judged.ts';
import { aTask, expectSaid, judgeThese, tell } from './support/stories.ts';

const BY_HAND = ['star_agents_evolve', 'trust_update'];
const names = METHODS.filter(({ kind, name }) => kind === 'score' && !BY_HAND.includes(name)).map(({ name }) => name);
/** Messages of one agent, one after the other. */
const messages = (...texts: readonly (string | null)[]): Call[] =>
  texts.map((content) => ({ agent: 'solver', choices: [{ content: content ?? undefined }] }));

describe('scores that the judge computes from what is stored', () => {
  let base: JudgedDatabase;
  beforeAll(async () => {
    base = await judgedDatabase();
  });
  afterAll(() => base.close());
  const judged = (methods: Parameters<JudgedDatabase['run']>[0], ...plays: Event[][]) =>
    judgeThese(base, methods, ...plays);

  it('are all of the catalogue, but for two whose state no episode holds', () => {
    for (const method of METHODS.filter(({ kind }) => kind === 'score'))
      expect(method.judged !== undefined, method.name).toBe(!BY_HAND.includes(method.name));
  });

  it('reads the box of the last message, as a number where it is one', async () => {
    await judged(
      ['boxed_answer'],
      played('box', { calls: messages('\\boxed{1}', 'first \\boxed{7}, then \\boxed{42}') }),
      played('fraction', { calls: messages('\\boxed{\\frac{1}{2}}') }),
      played('boxed before', { calls: messages('\\boxed{1}', 'done') }),
      played('textless', { calls: messages('\\boxed{1}', null) }),
      played('messageless', {}),
      played('chosen', {
        calls: [{ choices: [{ content: '\\boxed{3}', chosen: true }, { content: '\\boxed{4}' }] }],
      }),
    );
    await expectSaid(base, 'scores', 'boxed_answer', {
      'e/box': [42, null],
      'e/fraction': [null, 'not_a_number'],
      'e/boxed before': [null, 'no_boxed_answer'],
      'e/textless': [null, 'no_text'],
      'e/messageless': [null, 'no_messages'],
      'e/chosen': [3, null],
    });
    expect(
      await base.rows(
        `select detail ->> 'text' as text from traj.scores where method = 'boxed_answer' and key = 'e/fraction'`,
      ),
    ).toEqual([{ text: '\\frac{1}{2}' }]);
  });

  it('normalises the final answer', async () => {
    await judged(
      ['normalise_answer'],
      played('spelled', { answer: ' $ 42 $. ', calls: messages('\\boxed{1}') }),
      played('in words', { answer: 'the  river.' }),
      played('in a box', { calls: messages('\\boxed{ 42. }') }),
      played('nowhere', { calls: messages('who knows') }),
    );
    await expectSaid(base, 'scores', 'normalise_answer', {
      'e/spelled': [42, null],
      'e/in words': [null, 'not_a_number'],
      'e/in a box': [42, null],
      'e/nowhere': [null, 'no_answer'],
    });
    expect(
      await base.rows(
        `select detail ->> 'text' as text from traj.scores where method = 'normalise_answer' and key = 'e/in words'`,
      ),
    ).toEqual([{ text: 'the river' }]);
  });

  it('counts spellings of one answer as one answer of the group', async () => {
    const answers = (group: string, task: string, ...all: (string | undefined)[]) =>
      all.flatMap((answer, i) => played(`${group} ${i}`, { group, task, answer }));
    await judged(
      ['agreement_score'],
      [aTask('choices', { tags: { choices: ['A', 'B'] } })],
      answers('numbers', 'sums', '42', ' $ 42. ', '7', undefined),
      answers('letters', 'choices', '(B) because', 'B'),
      answers('texts', 'words', '(B) because', 'B'),
      answers('nothing', 'words', undefined, undefined),
    );
    await expectSaid(base, 'scores', 'agreement_score', {
      'g/numbers': [0.5, null],
      'g/letters': [1, null],
      'g/texts': [0.5, null],
      'g/nothing': [null, 'no_answers'],
    });
  });

  it('measures the overlap of words in lower case, without punctuation and articles', async () => {
    await judged(
      ['token_f1'],
      [aTask('city', { ground_truth: 'York, the new' }), aTask('number', { ground_truth: 42 }), aTask('open')],
      played('overlap', { task: 'city', answer: 'New York City' }),
      played('same', { task: 'city', answer: 'a new (york).' }),
      played('other', { task: 'city', answer: 'Paris' }),
      played('boxed', { task: 'number', calls: messages('\\boxed{42}') }),
      played('unanswered', { task: 'city' }),
      played('unknown', { task: 'open', answer: 'Paris' }),
    );
    // Two words are shared: two of three are right, and two of two are found.
    await expectSaid(base, 'scores', 'token_f1', {
      'e/overlap': [0.8, null],
      'e/same': [1, null],
      'e/other': [0, null],
      'e/boxed': [1, null],
      'e/unanswered': [null, 'no_answer'],
      'e/unknown': [null, 'no_reference'],
    });
  });

  it('says how far the rewards of a group spread, and of each agent in it', async () => {
    const by = (...agents: string[]): Call[] => agents.map((agent) => ({ agent, choices: [{}] }));
    const of = (group: string, ...rewards: (number | null)[]) =>
      rewards.flatMap((reward, i) => played(`${group} ${i}`, { group, reward }));
    await judged(
      ['range_normalized_variance', 'drmas_scale_ratio'],
      // Mean 1, squared deviations 1, 1, 0 and 4, over the range 3.
      of('spread', 0, 0, 1, 3, null),
      of('lone', 1, null),
      of('even', 1, 1),
      of('unrewarded', null),
      played('agents 0', { group: 'agents', reward: 1, calls: by('solver', 'critic') }),
      played('agents 1', { group: 'agents', reward: 0, calls: by('solver') }),
      played('agents 2', { group: 'agents', reward: 1, calls: by('critic') }),
      played('alike 0', { group: 'alike', reward: 1, calls: by('solver') }),
      played('unknown 0', { group: 'unknown', reward: null, calls: by('solver') }),
    );
    await expectSaid(base, 'scores', 'range_normalized_variance', {
      'g/spread': [6 / 4 / 9, null],
      'g/lone': [0, 'group_of_one'],
      'g/even': [0, 'zero_variance'],
      'g/unrewarded': [null, 'missing_reward'],
      // Mean ⅔, variance ⅔ · ⅓.
      'g/agents': [2 / 9, null],
      'g/alike': [0, 'group_of_one'],
      'g/unknown': [null, 'missing_reward'],
    });
    // All steps: 1, 1, 0, 1, with mean ¾ and variance 3/16. The solver's: 1, 0, with ½ and ¼. The critic's: 1, 1, with 1 and 0.
    const none = [null, 'no_steps'] as const;
    await expectSaid(base, 'scores', 'drmas_scale_ratio', {
      'g/agents': [5 / 3, null],
      'g/alike': [null, 'zero_variance'],
      'g/unknown': [null, 'missing_reward'],
      'g/spread': none,
      'g/lone': none,
      'g/even': none,
      'g/unrewarded': none,
    });
    expect(
      await base.rows(`select detail from traj.scores where method = 'drmas_scale_ratio' and key = 'g/agents'`),
    ).toEqual([{ detail: { solver: expect.closeTo(5 / 3, 12), critic: expect.closeTo(1 / 3, 12) } }]);
  });

  it('counts errors of tools, and answer tags', async () => {
    type Returned = { status: 'ok' | 'error' | 'timeout'; output?: unknown; error?: string } | null;
    const called = (id: string, ...results: Returned[]) => [
      ...played(id, { calls: messages('x') }),
      ...results.flatMap((result, t) => [
        event('tool.called', { episode_id: id, tool_call_id: `t${t}`, name: 'calc' }),
        ...(result === null ? [] : [event('tool.returned', { episode_id: id, tool_call_id: `t${t}`, ...result })]),
      ]),
    ];
    await judged(
      ['roc_tool_penalty'],
      called(
        'texts',
        { status: 'ok', output: '42' },
        { status: 'ok', output: { stderr: 'NameERROR: x' } },
        { status: 'ok', output: 'ok' },
        { status: 'error', output: 'an Error' },
      ),
      called('states', { status: 'error' }, { status: 'timeout' }, { status: 'error', error: 'boom' }, null),
      called('untooled'),
      called('unreturned', null),
    );
    await expectSaid(base, 'scores', 'roc_tool_penalty', {
      'e/texts': [0.5, null],
      // Of the three that came back only the word of the first status is an error.
      'e/states': [1 / 3, null],
      'e/untooled': [0.5, null],
      'e/unreturned': [null, 'no_tool_responses'],
    });
    const tagged = (id: string, ...texts: (string | null)[]) => played(id, { calls: messages(...texts) });
    await judged(
      ['roc_format_penalty'],
      tagged('pair', 'so', '<answer>42</answer>'),
      tagged('pairs', '<answer>1</answer>', '<answer>2</answer>', '<answer>3</answer>', null),
      tagged('across', '<answer>1', '</answer>'),
      tagged('unclosed', '<answer>1</answer> <answer>'),
      tagged('untagged', '42'),
      played('messageless', {}),
    );
    await expectSaid(base, 'scores', 'roc_format_penalty', {
      'e/pair': [0, null],
      // Two more than one, over four turns.
      'e/pairs': [0.5, null],
      'e/across': [0, null],
      'e/unclosed': [1, null],
      'e/untagged': [1, null],
      'e/messageless': [null, 'no_steps'],
    });
  });

  it('picks among the samples of a group by two models and a referee, the last one recorded', async () => {
    const sample = (id: string, small: number | null, large: number, referee?: string) =>
      played(id, {
        group: 'star',
        says: {
          ...(small === null ? {} : { ifd_small: small }),
          ifd_large: large,
          ...(referee === undefined ? {} : { referee }),
        },
      });
    await judged(
      ['star_agents_score'],
      sample('s0', 0.9, 0.4, 'tie'),
      sample('s1', 0.7, 0.5, 'base'),
      [tell('s1', { name: 'referee', value: 'generated' }, 50)],
      sample('s2', 0.8, 0.7, 'generated'),
      sample('s3', null, 0.1, 'generated'),
      sample('s4', 0.9, 0.1),
      sample('s5', 0.9, 0.1, 'somebody'),
    );
    // The differences are ½, ⅕ and a tenth; over the largest 1, 0.4 and 0.2; a tie counts half.
    await expectSaid(base, 'scores', 'star_agents_score', {
      'e/s0': [0.5, null],
      'e/s1': [0.4, null],
      'e/s2': [0.2, null],
      'e/s3': [null, 'no_ifd'],
      'e/s4': [null, 'no_referee'],
      'e/s5': [null, 'no_referee'],
    });
    expect(
      await base.rows(
        `select episode_id from traj.scores where method = 'star_agents_score' and detail ->> 'picked' = 'true'`,
      ),
    ).toEqual([{ episode_id: 's0' }]);
  });

  it('follows the subgoals that were observed, and the milestones of each agent', async () => {
    const seen = (id: string, kind: string, contents: readonly unknown[], play: Partial<Play> = {}) => [
      ...played(id, play),
      ...contents.map((content, seq) =>
        event('environment.observed', { episode_id: id, kind, content, seq }, { time: at(10) }),
      ),
    ];
    await judged(
      ['progress_rate'],
      seen('subgoals', 'progress', [
        [0, 0, 0, 0],
        [1, 1, 0, 1],
        [1, 0, 0, 0],
      ]),
      seen('noise', 'noise', [[1, 1]]),
    );
    // What was met once counts, though less is met at the end.
    await expectSaid(base, 'scores', 'progress_rate', {
      'e/subgoals': [0.75, null],
      'e/noise': [null, 'no_progress'],
    });
    const milestone = (name: string, ...agents: string[]) => ({ milestone: name, agents });
    const calls = messages('x');
    await judged(
      ['milestone_kpi'],
      [aTask('four', { tags: { milestones: ['m0', 'm1', 'm2', 'm3'] } }), aTask('one', { tags: { milestones: 1 } })],
      seen(
        'k1',
        'milestone',
        [
          milestone('m0', 'solver', 'critic'),
          milestone('m1', 'solver'),
          milestone('m1', 'solver'),
          milestone('m2', 'tester'),
        ],
        { task: 'four', calls: [...calls, { agent: 'idle', choices: [{}] }] },
      ),
      seen('k2', 'milestone', [milestone('m0', 'solver'), milestone('m1', 'critic')], { task: 'unannounced', calls }),
      seen('k3', 'milestone', [milestone('m0', 'solver'), milestone('m1', 'solver')], { task: 'one' }),
      seen('k4', 'milestone', [], { task: 'unannounced', calls }),
      seen('k5', 'milestone', [milestone('m0')], { task: 'one' }),
    );
    await expectSaid(base, 'scores', 'milestone_kpi', {
      // Of four milestones the solver has two, critic and tester one, the idle one none.
      'e/k1': [(2 / 4 + 1 / 4 + 1 / 4 + 0) / 4, null],
      // Where none are announced, those that were reached are all.
      'e/k2': [0.5, null],
      'e/k3': [null, 'more_milestones_than_announced'],
      'e/k4': [null, 'no_milestones'],
      'e/k5': [null, 'no_agents'],
    });
  });

  it('says how far like tasks were given one team, once for all that are judged together', async () => {
    const apples = (n: string) => `How many apples are left when Ann eats three of her ${n} apples?`;
    const on = (id: string, task: string | null, team?: string) => played(id, { task, team });
    await judged(
      ['inter_consistency_score'],
      [
        aTask('twelve', { query: apples('twelve') }),
        aTask('thirteen', { query: apples('thirteen') }),
        aTask('fifteen', { query: apples('fifteen') }),
        aTask('river', { query: 'Name the river that flows through the old town of the capital.' }),
      ],
      on('t1', 'twelve', 'm1'),
      on('t2', 'thirteen', 'm1'),
      on('t3', 'fifteen', 'm2'),
      on('t4', 'river', 'm3'),
      on('t5', 'fifteen', 'm2'),
      on('t6', null, 'm2'),
      on('t7', 'twelve'),
    );
    // Of four pairs of task and team, two of the three about apples and the one about the river.
    await expectSaid(base, 'scores', 'inter_consistency_score', { 's/queries': [0.75, null] });
  });

  it('finds how much a prompt helps from the last passes of one checkpoint, over the tokens that the model chose', async () => {
    const own = await judgedDatabase();
    try {
      const run = (id: string, token_ids: number[] | null, loss_mask: (0 | 1)[] | null = null) => [
        event('episode.started', { episode_id: id, task_id: 'task' }),
        event('generation.completed', {
          episode_id: id,
          call_id: 'c',
          choices: [{ index: 0, content: 'x', token_ids, loss_mask }],
        }),
        event('episode.finished', { episode_id: id, outcome: 'success' }),
      ];
      const pass = (id: string, label: string, value: number[], by = 'small', second = 30) =>
        say(id, { kind: 'step', id: 'c/0' }, 'token_logprobs', value, { by, label, second });
      await own.load(
        [aTask('task')],
        run('both', [1, 2, 3], [1, 0, 1]),
        [pass('both', 'reference', [-1, -9, -0.5]), pass('both', 'alone', [-2, -9, -1])],
        run('two models', [1]),
        [pass('two models', 'alone', [-1], 'large', 31), pass('two models', 'reference', [-3], 'large', 32)],
        [pass('two models', 'alone', [-2], 'small', 33), pass('two models', 'reference', [-1], 'small', 34)],
        run('other model', [1]),
        [pass('other model', 'alone', [-1], 'large'), pass('other model', 'reference', [-1], 'small')],
        run('not alone', [1]),
        [pass('not alone', 'reference', [-1])],
        run('too short', [1, 2]),
        [pass('too short', 'reference', [-1]), pass('too short', 'alone', [-1])],
        run('forced', [1], [0]),
        [pass('forced', 'reference', [-1]), pass('forced', 'alone', [-1])],
        run('no tokens', null),
        [
          event('episode.started', { episode_id: 'silent' }),
          event('episode.finished', { episode_id: 'silent', outcome: 'unknown' }),
        ],
      );
      await own.run(['ifd']);
      // The perplexity of the answer under its prompt over that without: e to the mean of what each token costs.
      await expectSaid(own, 'scores', 'ifd', {
        'e/both': [Math.exp(0.75 - 1.5), null],
        'e/two models': [Math.exp(1 - 2), null],
        'e/other model': [null, 'no_reference_logprobs'],
        'e/not alone': [null, 'no_alone_logprobs'],
        'e/too short': [null, 'other_tokens'],
        'e/forced': [null, 'no_trained_tokens'],
        'e/no tokens': [null, 'no_token_ids'],
        'e/silent': [null, 'no_messages'],
      });
    } finally {
      await own.close();
    }
  });

  it('says the same of all of them when it is run again, and after a rebuild', async () => {
    await base.run(names);
    const before = (await base.checksum()).tables.scores;
    await base.run(names);
    expect((await base.checksum()).tables.scores).toEqual(before);
    await base.rebuild();
    expect((await base.checksum()).tables.scores).toEqual(before);
  }, 60_000);
});
