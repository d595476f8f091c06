import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Event } from '../../../ingest/events/events.ts';
import { METHODS } from '../../../store/evaluate/methods/find.ts';
import { at, event } from '../support/events.ts';
import { type Call, type Play, played, type Says } from './support/episodes.ts';
import { type JudgedDatabase, judgedDatabase } from './support/judged.ts';
import { aTask, expectSaid, judgeThese, tell } from './support/stories.ts';

/** What a role writes; the second of two candidates is the chosen one where `instead` names the other. */
const says = (
  role: string | null,
  content: string | null,
  { turn, agent, instead }: { turn?: number | undefined; agent?: string; instead?: string } = {},
): Call => ({
  role: role ?? undefined,
  agent: agent ?? role ?? undefined,
  turn,
  choices: [
    ...(instead === undefined ? [] : [{ content: instead }]),
    { content: content ?? undefined, ...(instead === undefined ? {} : { chosen: true }) },
  ],
});
const BOX = '<think>so</think> it is \\boxed{42}';
describe('filters that the judge runs over what is stored', () => {
  let base: JudgedDatabase;
  beforeAll(async () => {
    base = await judgedDatabase();
  });
  afterAll(() => base.close());
  const judged = (methods: Parameters<JudgedDatabase['run']>[0], ...plays: Event[][]) =>
    judgeThese(base, methods, ...plays);

  it('are all of the catalogue', () => {
    for (const method of METHODS.filter(({ kind }) => kind === 'filter'))
      expect(method.judged, method.name).toBeTypeOf('object');
  });

  it('gives a verdict on each message of a critic', async () => {
    await judged(
      ['critic_agrees'],
      played('critics', {
        calls: [
          says('critic', '[Agree]'),
          says('critic', '[Agree] but [Disagree]'),
          says('critic', 'wrong sign\n\n[Disagree]', { instead: '[Agree]' }),
          says('critic', 'fine by me'),
          says('critic', null),
          says('solver', '[Agree]'),
        ],
      }),
      played('uncriticised', { calls: [says('solver', '[Agree]')] }),
    );
    await expectSaid(base, 'verdicts', 'critic_agrees', {
      'critics c0/0': [true, null],
      'critics c1/0': [true, null],
      'critics c2/0': [true, null],
      'critics c2/1': [false, 'disagrees'],
      'critics c3/0': [false, 'disagrees'],
      'critics c4/0': [null, 'no_text'],
      uncriticised: [null, 'no_critics'],
    });
  });

  it('takes turns as rounds of critics, and the n-th message of each critic where turns are not all known', async () => {
    const critic = (turn: number | undefined, text: string, agent = 'one') => says('critic', text, { turn, agent });
    await judged(
      ['consensus_filter'],
      played('later', { calls: [critic(0, 'wrong'), critic(0, '[Agree]', 'two'), critic(1, '[Agree]')] }),
      played('never', { calls: [critic(0, 'wrong'), critic(1, 'wrong still')] }),
      // A critic that disagrees without a word of criticism blocks nothing.
      played('mute', { calls: [critic(0, '[Disagree]')] }),
      played('split', {
        calls: [critic(0, 'wrong'), critic(0, '[Agree]', 'two'), critic(1, '[Agree]'), critic(1, 'no', 'two')],
      }),
      // By their turns the second has a round of its own; by their number both are in the first.
      played('numbered', { calls: [critic(0, 'wrong'), critic(1, '[Agree]', 'two')] }),
      played('unnumbered', { calls: [critic(0, 'wrong'), critic(undefined, '[Agree]', 'two')] }),
      played('too late', { calls: [0, 1, 2, 3].map((turn) => critic(turn, turn === 3 ? '[Agree]' : 'wrong')) }),
      played('unchosen', { calls: [says('critic', '[Agree]', { turn: 0, instead: 'wrong' })] }),
      played('no critic', { calls: [says('solver', 'wrong')] }),
    );
    const no = [false, 'no_consensus'] as const;
    await expectSaid(base, 'verdicts', 'consensus_filter', {
      later: [true, null],
      never: no,
      mute: [true, null],
      split: no,
      numbered: [true, null],
      unnumbered: no,
      'too late': no,
      unchosen: [true, null],
      'no critic': [null, 'no_critics'],
    });
  });

  it('asks for thoughts in all messages that an episode went on from, and for a box in the last', async () => {
    await judged(
      ['format_filter'],
      played('formed', { calls: [says('solver', '<think>a</think> b'), says('solver', BOX, { instead: 'no' })] }),
      played('boxed early', { calls: [says('solver', BOX), says('solver', '<think>a</think> b')] }),
      played('thoughtless', { calls: [says('solver', 'a'), says('solver', BOX)] }),
      played('textless', { calls: [says('solver', null)] }),
      played('messageless', {}),
    );
    const bad = [false, 'bad_format'] as const;
    await expectSaid(base, 'verdicts', 'format_filter', {
      formed: [true, null],
      'boxed early': bad,
      thoughtless: bad,
      textless: bad,
      messageless: [null, 'no_messages'],
    });
  });

  it('compares the answer, or what the last message boxes, with the truth, and letters only where there are choices', async () => {
    const boxed = { calls: [says('solver', BOX)] };
    await judged(
      ['correctness_filter'],
      [
        aTask('forty-two', { ground_truth: 42 }),
        aTask('half', { ground_truth: '1/2' }),
        aTask('lettered', { ground_truth: 'B', tags: { choices: ['A', 'B'] } }),
        aTask('unlettered', { ground_truth: 'B' }),
      ],
      played('spelled', { task: 'forty-two', answer: ' $ 42. ' }),
      played('decimal', { task: 'half', answer: '0.5' }),
      played('boxes', { task: 'forty-two', ...boxed }),
      played('answers', { task: 'forty-two', answer: '7', ...boxed }),
      played('silent', { task: 'forty-two', calls: [says('solver', 'who knows')] }),
      played('letter', { task: 'lettered', answer: '(B) because' }),
      played('no letter', { task: 'unlettered', answer: '(B) because' }),
      played('truthless', { answer: '42' }),
    );
    await expectSaid(base, 'verdicts', 'correctness_filter', {
      spelled: [true, null],
      decimal: [true, null],
      boxes: [true, null],
      answers: [false, 'wrong'],
      silent: [false, 'no_answer'],
      letter: [true, null],
      'no letter': [false, 'wrong'],
      truthless: [null, 'no_reference'],
    });
    expect(
      await base.rows(
        `select episode_id, detail ->> 'answer_from' as "from" from traj.verdicts
         where method = 'correctness_filter' and episode_id in ('spelled', 'boxes', 'silent') order by 1`,
      ),
    ).toEqual([
      { episode_id: 'boxes', from: 'last_message' },
      { episode_id: 'silent', from: null },
      { episode_id: 'spelled', from: 'episode' },
    ]);
  });

  it('keeps for M500 what the three filters before it in the same judging kept, and says which one is missing', async () => {
    const agreed = (...more: Call[]) => [...more, says('critic', '[Agree]', { turn: 0 }), says('solver', BOX)];
    const critic = says('critic', '<think>x</think> [Agree]', { turn: 0 });
    const calls = [critic, says('solver', BOX)];
    const trace = (id: string, task: string, play: Partial<Play> = {}) =>
      played(id, { task, answer: '42', calls, ...play });
    const task = (id: string, tags: object, data: object = {}) =>
      aTask(id, { ground_truth: '42', tags: { ...tags }, ...data });
    const plays = [
      [
        task('long', { interdisciplinary: true, answer_tokens: 1025 }),
        task('short', { interdisciplinary: true, answer_tokens: 1024 }),
        task('used', { interdisciplinary: true }, { reference: { usage: { output_tokens: 2000 } } }),
        task('narrow', { interdisciplinary: false, answer_tokens: 2000 }),
        task('unmeasured', { interdisciplinary: true }),
        task('untagged', { answer_tokens: 2000 }),
        task('unsolved', { interdisciplinary: true, answer_tokens: 2000 }, { ground_truth: null }),
      ],
      trace('m long', 'long'),
      trace('m short', 'short'),
      trace('m used', 'used'),
      trace('m narrow', 'narrow'),
      trace('m unmeasured', 'unmeasured'),
      trace('m untagged', 'untagged'),
      trace('m unsolved', 'unsolved'),
      trace('m wrong', 'long', { answer: '41' }),
      trace('m unformed', 'long', { calls: agreed() }),
      trace('m blocked', 'long', { calls: [says('critic', '<think>x</think> no', { turn: 0 }), calls[1]!] }),
      trace('m uncriticised', 'long', { calls: [calls[1]!] }),
    ];
    await judged(['m500_filter'], ...plays);
    expect(await base.rows(`select distinct reason from traj.verdicts where method = 'm500_filter'`)).toEqual([
      { reason: 'no_consensus_verdict' },
    ]);
    const before = ['correctness_filter', 'consensus_filter', 'format_filter'];
    const other = await judgedDatabase();
    try {
      await other.load(...plays);
      await other.run([...before, 'm500_filter']);
      const dropped = [false, 'dropped'] as const;
      await expectSaid(other, 'verdicts', 'm500_filter', {
        'm long': [true, null],
        'm short': dropped,
        'm used': [true, null],
        'm narrow': dropped,
        'm unmeasured': [null, 'no_answer_tokens'],
        'm untagged': [null, 'no_interdisciplinary_tag'],
        'm unsolved': [null, 'unknown_correct'],
        'm wrong': dropped,
        'm unformed': dropped,
        'm blocked': dropped,
        'm uncriticised': [null, 'unknown_consensus'],
      });
    } finally {
      await other.close();
    }
  });

  it('takes from each category in turn over everything that is judged together', async () => {
    const of = (id: string, task: string, reward: number | null) => played(id, { task, reward });
    const plays = [
      [
        aTask('cells', { domain: 'bio' }),
        aTask('sums', { domain: 'anything', tags: { category: 'math' } }),
        aTask('forces', { domain: 'phys' }),
      ],
      of('v1', 'cells', 3),
      of('v2', 'cells', 9),
      of('v3', 'sums', 5),
      of('v4', 'forces', 1),
      of('v5', 'forces', null),
      of('v6', 'nowhere', 1),
    ];
    await judged([{ method: 'diversity_select', params: { n: 3 } }], ...plays);
    await expectSaid(base, 'verdicts', 'diversity_select', {
      v1: [false, 'not_taken'],
      v2: [true, null],
      v3: [true, null],
      v4: [true, null],
      v5: [null, 'missing_reward'],
      v6: [null, 'no_category'],
    });
    // After the band, which leaves only the group where rewards differ within 0 and 1.
    await base.load(of('w1', 'cells 2', 1), of('w2', 'cells 2', 0), of('w3', 'sums 2', 1), of('w4', 'sums 2', 1), [
      aTask('cells 2', { domain: 'bio' }),
      aTask('sums 2', { domain: 'math' }),
    ]);
    await base.run(['difficulty_band', { method: 'diversity_select', params: { n: 1 } }], ['w1', 'w2', 'w3', 'w4']);
    expect(
      await base.rows(
        `select episode_id, keep, reason from traj.verdicts where method = 'diversity_select' and episode_id like 'w%' order by 1`,
      ),
    ).toEqual([
      { episode_id: 'w1', keep: true, reason: null },
      { episode_id: 'w2', keep: false, reason: 'not_taken' },
      { episode_id: 'w3', keep: false, reason: 'dropped_before' },
      { episode_id: 'w4', keep: false, reason: 'dropped_before' },
    ]);
  });

  it('gives each cluster of like tasks the team that did best on all of them, and never counts a team that was not tried as 0', async () => {
    const apples = (n: string) => `How many apples are left when Ann eats three of her ${n} apples?`;
    const river = 'Name the river that flows through the old town of the capital.';
    const on = (id: string, task: string | null, team: string | undefined, reward: number | null) =>
      played(id, { task, team, reward });
    await judged(
      ['inter_consistency_select'],
      [
        aTask('twelve', { query: apples('twelve') }),
        aTask('thirteen', { query: apples('thirteen') }),
        aTask('river', { query: river }),
        aTask('river again', { query: river }),
      ],
      // wide: 1 + ¾ on average, deep: ½ + 1, once: more than both, but on one task only.
      on('c1', 'twelve', 'wide', 1),
      on('c2', 'thirteen', 'wide', 0.5),
      on('c3', 'thirteen', 'wide', 1),
      on('c4', 'twelve', 'deep', 0.5),
      on('c5', 'thirteen', 'deep', 1),
      on('c6', 'twelve', 'once', 9),
      on('c7', 'river', 'wide', 1),
      on('c8', 'river again', 'deep', 1),
      on('c9', 'twelve', undefined, 1),
      on('c10', null, 'wide', 1),
      on('c11', 'twelve', 'wide', null),
    );
    await expectSaid(base, 'verdicts', 'inter_consistency_select', {
      c1: [true, null],
      c2: [false, 'below_min_score'],
      c3: [false, 'below_min_score'],
      c4: [false, 'other_team'],
      c5: [false, 'other_team'],
      c6: [null, 'not_played_on_all_queries'],
      c7: [null, 'no_team_on_all_queries'],
      c8: [null, 'no_team_on_all_queries'],
      c9: [null, 'no_team'],
      c10: [null, 'no_task'],
      c11: [null, 'missing_reward'],
    });
  });

  it('takes a team that was made from another where it runs and scores no worse on the task', async () => {
    const on = (id: string, task: string | null, team: string | undefined, play: Partial<Play>) =>
      played(id, { task, team, ...play });
    await judged(
      ['intra_consistency_accept'],
      [
        event('team.defined', { team_id: 'base', tags: null }, { time: at(0) }),
        event('team.defined', { team_id: 'refined', tags: { base_team_id: 'base' } }, { time: at(0) }),
      ],
      // The base scores ½ on average.
      on('i1', 't1', 'base', { reward: 0 }),
      on('i2', 't1', 'base', { reward: 1 }),
      on('i3', 't1', 'refined', { reward: 0.5 }),
      on('i4', 't2', 'base', { reward: 1 }),
      on('i5', 't2', 'refined', { reward: 0.5 }),
      on('i6', 't3', 'base', { reward: 0.5 }),
      on('i7', 't3', 'refined', { reward: 1, outcome: 'error' }),
      on('i8', 't4', 'refined', { reward: 1 }),
      on('i9', 't5', 'base', { reward: 0 }),
      on('i10', 't5', 'refined', { outcome: 'success' }),
      on('i11', null, 'refined', { reward: 1 }),
      on('i12', 't1', undefined, { reward: 1 }),
    );
    await expectSaid(base, 'verdicts', 'intra_consistency_accept', {
      i1: [null, 'not_a_refinement'],
      i2: [null, 'not_a_refinement'],
      i3: [true, null],
      i4: [null, 'not_a_refinement'],
      i5: [false, 'worse_than_base'],
      i6: [null, 'not_a_refinement'],
      i7: [false, 'not_executable'],
      i8: [null, 'no_base_score'],
      i9: [null, 'not_a_refinement'],
      i10: [false, 'never_scored'],
      i11: [null, 'no_task'],
      i12: [null, 'no_team'],
    });
  });

  it('selects the best run of a query by the verdict of a judge, or by its reward where no judge gave one', async () => {
    const of = (id: string, task: string, reward: number | null, judge: Says = {}) =>
      played(id, { task, reward, says: judge });
    await judged(
      ['mrag_select'],
      of('q1', 'judged', 0, { correctness: 0.5, faithfulness: 0.25 }),
      of('q2', 'judged', 9, { correctness: 0.25, faithfulness: 0.25 }),
      of('q3', 'judged', 9, { correctness: 9 }),
      of('q4', 'unjudged', 1),
      of('q5', 'unjudged', 1),
      of('q6', 'unjudged', null),
      // The best is below the threshold of a half.
      of('q7', 'poor', 0.4),
    );
    await expectSaid(base, 'verdicts', 'mrag_select', {
      q1: [true, null],
      q2: [false, 'not_selected'],
      q3: [null, 'no_judge_score'],
      q4: [true, null],
      q5: [false, 'not_selected'],
      q6: [null, 'missing_reward'],
      q7: [false, 'not_selected'],
    });
  });

  it('compares steps by environment, turn and agent', async () => {
    const by = (agent: string | undefined, turn: number | undefined): Call => ({ agent, turn, choices: [{}] });
    const of = (id: string, env: string, reward: number | null, ...calls: Call[]) => played(id, { env, reward, calls });
    await judged(
      [{ method: 'petting_group_filter', params: { mode: 'dapo', filter_ratio: 0 } }],
      of('p1', 'one', 1, by('solver', 0), by('critic', 0), by('solver', 1)),
      of('p2', 'one', 0, by('solver', 0), by('solver', 1)),
      of('p3', 'one', 1, by('critic', 0), by(undefined, 0), by('critic', undefined)),
      of('p4', 'two', 0, by('critic', 0)),
      of('p5', 'two', null, by('critic', 0)),
      of('p6', 'two', 1),
    );
    const dapo = {
      'p1 c0/0': [true, null],
      'p1 c1/0': [false, 'zero_variance'],
      'p1 c2/0': [true, null],
      'p2 c0/0': [true, null],
      'p2 c1/0': [true, null],
      'p3 c0/0': [false, 'zero_variance'],
      'p3 c1/0': [null, 'no_agent'],
      'p3 c2/0': [null, 'no_turn'],
      'p4 c0/0': [false, 'group_of_one'],
      'p5 c0/0': [null, 'missing_reward'],
      p6: [null, 'no_steps'],
    } as const;
    await expectSaid(base, 'verdicts', 'petting_group_filter', dapo);
    // Of four rooms with spreads of ¼, 0.16, 0 and ¼ the lower half goes.
    await judged(
      [{ method: 'petting_group_filter', params: { mode: 'std', filter_ratio: 0.5 } }],
      ...Object.entries({ a: [0, 1], b: [0, 1, 1, 1, 1], c: [0, 0], d: [0, 4] }).flatMap(([env, rewards]) =>
        rewards.map((reward, i) => of(`s${env}${i}`, `room ${env}`, reward, by('solver', 0))),
      ),
    );
    await expectSaid(base, 'verdicts', 'petting_group_filter', {
      ...dapo,
      'sa0 c0/0': [true, null],
      'sa1 c0/0': [true, null],
      ...Object.fromEntries([0, 1, 2, 3, 4].map((i) => [`sb${i} c0/0`, [false, 'dropped'] as const])),
      'sc0 c0/0': [false, 'zero_variance'],
      'sc1 c0/0': [false, 'zero_variance'],
      'sd0 c0/0': [true, null],
      'sd1 c0/0': [true, null],
    });
  });

  it('resamples a group by what its tools and its answer tags cost each rollout', async () => {
    /** A pair of tags costs nothing, none cost 1; no tool costs ½, else the share that failed. */
    const of = (id: string, reward: number | null, tags: boolean, tools: readonly (string | null)[], task = 'roc') => [
      ...played(id, { task, reward, calls: [says('solver', tags ? '<answer>1</answer>' : 'one')] }),
      ...tools.flatMap((output, t) => [
        event('tool.called', { episode_id: id, tool_call_id: `t${t}`, name: 'calc' }),
        ...(output === null
          ? []
          : [event('tool.returned', { episode_id: id, tool_call_id: `t${t}`, status: 'ok', output })]),
      ]),
    ];
    await judged(
      [{ method: 'roc_select', params: { n: 4, min_zero: 1, min_nonzero: 1 } }],
      of('r0', 1, true, []), // ½
      of('r1', 0, false, []),
      of('r2', 1, true, ['42']), // 0
      of('r3', 1, false, ['42']), // 1
      of('r4', 0, true, ['42']),
      of('r5', 1, false, []), // 1½
      of('r6', 1, true, ['NameError', '42', '42', '42']), // ¼
      of('r7', 1, false, ['an error']), // 2
      of('r8', null, true, []),
      of('r9', 1, true, [null]),
      played('r10', { task: 'roc', reward: 1 }),
      of('few', 1, true, [], 'few'),
    );
    // Half of two failures, the first, and half of six successes, those that cost 0, ¼ and ½. A group below n is dropped whole.
    const dropped = [false, 'dropped'] as const;
    await expectSaid(base, 'verdicts', 'roc_select', {
      r0: [true, null],
      r1: [true, null],
      r2: [true, null],
      r3: dropped,
      r4: dropped,
      r5: dropped,
      r6: [true, null],
      r7: dropped,
      r8: [null, 'missing_reward'],
      r9: [null, 'no_tool_responses'],
      r10: [null, 'no_steps'],
      few: dropped,
    });
  });

  it('accepts a blueprint by its checks and the votes of its committee', async () => {
    const of = (id: string, checks: Says, votes: readonly number[] = []) => [
      ...played(id, { says: checks }),
      ...votes.map((value, i) => tell(id, { name: 'vote', value, annotator: `member ${i}`, kind: 'label' })),
    ];
    const all = { format_check: true, execution_check: 1, policy_check: true };
    await judged(
      ['apigen_mt_blueprint'],
      of('b1', all, [1, 1, 0]),
      of('b2', all, [1, 0]),
      of('b3', all),
      of('b4', { ...all, format_check: false }, [1]),
      of('b5', { ...all, execution_check: 0 }, [1]),
      of('b6', { ...all, policy_check: false }, [1]),
      of('b7', {}),
      of('b8', { format_check: true }),
      of('b9', { format_check: true, execution_check: 1 }),
      of('b10', { format_check: false }),
    );
    await expectSaid(base, 'verdicts', 'apigen_mt_blueprint', {
      b1: [true, null],
      b2: [false, 'committee'],
      b3: [null, 'no_votes'],
      b4: [false, 'format'],
      b5: [false, 'execution'],
      b6: [false, 'policy'],
      b7: [null, 'no_format_check'],
      b8: [null, 'no_execution_check'],
      b9: [null, 'no_policy_check'],
      b10: [false, 'format'],
    });
  });

  it('keeps a run that reaches the true state and says what it must', async () => {
    const see = (id: string, seq: number, data: object) =>
      event('environment.observed', { episode_id: id, kind: 'state', seq, ...data }, { time: at(10) });
    const state = { order: 'sent', n: [1] };
    type Run = Pick<Play, 'task' | 'answer' | 'calls'> & {
      readonly seen?: readonly object[];
      readonly output?: string;
    };
    const of = (id: string, { seen = [state], output, ...play }: Run) => [
      ...played(id, { task: 'order', ...play }),
      ...seen.map((one, seq) => see(id, seq, { state: one })),
      ...(output === undefined ? [] : [see(id, 9, { kind: 'output', content: output })]),
    ];
    await judged(
      ['apigen_mt_trajectory'],
      [aTask('order', { reference: { state: { n: [1], order: 'sent' }, outputs: ['54.04'] } }), aTask('stateless')],
      of('o1', { output: '54.04' }),
      of('o2', { answer: '54.04' }),
      of('o3', { calls: [says('solver', '54.04')] }),
      of('o4', { calls: [says('solver', 'nothing', { instead: '54.04' })] }),
      of('o5', { seen: [{ order: 'kept', n: [1] }], output: '54.04' }),
      of('o6', { seen: [{ order: 'kept', n: [1] }, state], output: '54.04' }),
      of('o7', { seen: [], output: '54.04' }),
      of('o8', { task: 'stateless' }),
    );
    const other = [false, 'other_state_or_outputs'] as const;
    await expectSaid(base, 'verdicts', 'apigen_mt_trajectory', {
      o1: [true, null],
      o2: [true, null],
      o3: [true, null],
      // The text of a candidate that was not chosen is no part of the conversation.
      o4: other,
      o5: other,
      o6: [true, null],
      o7: [null, 'no_final_state'],
      o8: [null, 'no_true_state'],
    });
  });

  it('collects the steps of successful runs, by role', async () => {
    const calls = [says('planner', 'a'), says('coder', 'b', { instead: 'c' }), says(null, 'd')];
    await judged(
      ['rolewise_sft_select'],
      played('won', { outcome: 'success', calls }),
      played('lost', { outcome: 'failure', calls }),
      played('open', { outcome: 'unknown', calls: [calls[0]!] }),
      played('roleless', { outcome: 'success', calls: [calls[2]!] }),
      played('empty', { outcome: 'success' }),
    );
    await expectSaid(base, 'verdicts', 'rolewise_sft_select', {
      won: [true, null],
      'won c0/0': [true, null],
      'won c1/0': [false, 'not_chosen'],
      'won c1/1': [true, null],
      'won c2/0': [null, 'no_role'],
      lost: [false, 'not_a_success'],
      'lost c0/0': [false, 'not_a_success'],
      'lost c1/0': [false, 'not_chosen'],
      'lost c1/1': [false, 'not_a_success'],
      'lost c2/0': [null, 'no_role'],
      open: [null, 'outcome_unknown'],
      'open c0/0': [null, 'outcome_unknown'],
      roleless: [false, 'no_collected_step'],
      'roleless c0/0': [null, 'no_role'],
      empty: [null, 'no_steps'],
    });
  });

  it('fills libraries from successes, and from failures through the run that was made again', async () => {
    const own = await judgedDatabase();
    try {
      const run = (
        id: string,
        outcome: 'success' | 'failure' | 'unknown',
        reward: number | null,
        tags: Record<string, unknown> = {},
      ) => [
        event('episode.started', { episode_id: id, task_id: `task of ${id}`, tags }),
        ...['physicist', null].map((agent_id, seq) =>
          event('generation.completed', {
            episode_id: id,
            call_id: `${seq}`,
            seq,
            agent_id,
            choices: [{ index: 0, content: 'x' }],
          }),
        ),
        event('episode.finished', { episode_id: id, outcome }),
        ...(reward === null ? [] : [tell(id, { kind: 'reward', name: 'reward', value: reward })]),
      ];
      const again = (id: string) => ({ regenerated_from: id });
      await own.load(
        run('good', 'success', 1),
        run('bad', 'failure', 0),
        run('bad again 1', 'failure', 1, again('bad')),
        run('bad again 2', 'success', null, again('bad')),
        run('bad again 3', 'success', null, again('bad')),
        run('bad again 4', 'unknown', null, again('bad')),
        run('hopeless', 'failure', 0),
        run('lost', 'success', null, again('nobody')),
        run('unrated', 'success', null),
        run('good again', 'success', null, again('good')),
      );
      await own.run(['sirius_library']);
      const rows = await own.rows<{
        episode_id: string;
        step_id: string | null;
        keep: boolean | null;
        reason: string | null;
      }>(
        `select episode_id, step_id, keep, reason from traj.verdicts where method = 'sirius_library' order by 1, 2 nulls first`,
      );
      // The library of the only agent: the good run, and in place of the bad one the first that was made again and is right.
      expect(rows.filter((row) => row.step_id !== null && row.keep).map((row) => row.episode_id)).toEqual([
        'bad again 2',
        'good',
      ]);
      expect(
        rows.filter((row) => row.reason === 'repaired' && row.step_id === null).map((row) => row.episode_id),
      ).toEqual(['bad']);
      expect(
        rows.filter((row) => row.step_id === null).map(({ episode_id, keep, reason }) => [episode_id, keep, reason]),
      ).toEqual([
        ['bad', false, 'repaired'],
        ['bad again 1', false, 'still_wrong'],
        ['bad again 2', true, null],
        ['bad again 3', false, 'another_regeneration'],
        ['bad again 4', null, 'outcome_unknown'],
        ['good', true, null],
        ['good again', false, 'base_not_failed'],
        ['hopeless', false, 'not_a_success'],
        ['lost', null, 'no_base'],
        ['unrated', null, 'missing_reward'],
      ]);
      expect(rows.filter((row) => row.episode_id === 'good')).toEqual([
        { episode_id: 'good', step_id: null, keep: true, reason: null },
        { episode_id: 'good', step_id: '0/0', keep: true, reason: null },
        { episode_id: 'good', step_id: '1/0', keep: null, reason: 'no_agent' },
      ]);
    } finally {
      await own.close();
    }
  });

  it('says the same of all of them when it is run again, and after a rebuild', async () => {
    const names = METHODS.filter(({ kind, judged }) => kind === 'filter' && judged !== undefined).map(
      ({ name }) => name,
    );
    await base.run(names);
    const before = (await base.checksum()).tables.verdicts;
    await base.run(names);
    expect((await base.checksum()).tables.verdicts).toEqual(before);
    await base.rebuild();
    expect((await base.checksum()).tables.verdicts).toEqual(before);
  }, 60_000);
});
