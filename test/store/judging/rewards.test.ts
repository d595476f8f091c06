import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { anExecution, at, event } from '../support/events.ts';
import { type Call, type Choice, played, type Says } from './support/episodes.ts';
import { type Expected, type JudgedDatabase, judgedDatabase } from './support/judged.ts';

/** A call with one candidate. */
const call = (about: Omit<Call, 'choices'>, says: Says = {}, choice: Choice = {}): Call => ({
  ...about,
  choices: [{ ...choice, says }],
});
/** A call whose second candidate was chosen. */
const second = (about: Omit<Call, 'choices'>, says: Says = {}, choice: Choice = {}): Call => ({
  ...about,
  choices: [
    { ...choice, says },
    { ...choice, chosen: true, says },
  ],
});
/** The same reason for some steps of an episode, all with one candidate where only their number is given. */
const none = (episode: string, reason: string, of: number | readonly string[]): Expected =>
  Object.fromEntries(
    (typeof of === 'number' ? Array.from({ length: of }, (_, i) => `c${i}/0`) : of).map((step) => [
      `${episode} ${step}`,
      [null, reason],
    ]),
  );

describe('rewards that the judge computes from what is stored', () => {
  let base: JudgedDatabase;
  beforeEach(async () => {
    base = await judgedDatabase();
  });
  afterEach(() => base.close());

  const withoutSteps = (method: string) =>
    base.rows<{ episode_id: string; reason: string }>(
      `select s.episode_id, s.reason from traj.scores s where s.method = '${method}' and s.value is null order by 1`,
    );

  it('mixes the team’s reward with that of the step or, where it has none, of its agent', async () => {
    const calls = [call({ agent: 'solver' }, { reward: 0.5 }), call({ agent: 'solver' }), call({ agent: 'critic' })];
    await base.load(
      played('a', { reward: 1, agents: { solver: 0.25 }, calls }),
      played('b', { reward: null, agents: { solver: 0.25 }, calls }),
      played('bare', { reward: 1 }),
    );
    await base.run(['petting_mixed_reward']);
    await base.expectRows('rewards', 'petting_mixed_reward', {
      'a c0/0': [1.5, null],
      'a c1/0': [1.25, null],
      'a c2/0': [null, 'no_local_reward'],
      ...none('b', 'missing_reward', 3),
    });
    expect(await withoutSteps('petting_mixed_reward')).toEqual([{ episode_id: 'bare', reason: 'no_steps' }]);
  });

  it('spreads a final reward over the turns, shapes a chain, and charges length', async () => {
    const tokens = (n: number) => Array.from({ length: n }, (_, i) => i);
    await base.load(
      played('e', {
        reward: 2,
        calls: [
          call({ turn: 0, used: 99 }, { reward: 0.5 }, { token_ids: tokens(6) }),
          {
            turn: 3,
            used: 99,
            choices: [
              { says: { reward: 9 }, token_ids: tokens(4) },
              { says: { reward: 1 }, chosen: true },
            ],
          },
          call({ used: 12 }, { reward: 0 }),
        ],
      }),
      played('f', { reward: null, calls: [call({ turn: 0, used: 3 })] }),
    );
    await base.run([
      { method: 'petting_turn_reward', params: { mode: 'discount' } },
      'marti_shaping',
      { method: 'dapo_overlong', params: { max_len: 8, buffer: 4 } },
    ]);
    // Of 8 turns that are assumed, 8 are left at turn 0 and 5 at turn 3.
    await base.expectRows('rewards', 'petting_turn_reward', {
      'e c0/0': [2 * 0.99 ** 8, null],
      'e c1/0': [2 * 0.99 ** 5, null],
      'e c1/1': [2 * 0.99 ** 5, null],
      'e c2/0': [null, 'no_turn'],
      ...none('f', 'missing_reward', 1),
    });
    // The chain has ½, 1 and 0: 1 + ½(½ · 1 − ½ · 0), then, after a mean of ¾, 0 + ½(¾ · 0 − ¼ · 1).
    await base.expectRows('rewards', 'marti_shaping', {
      'e c0/0': [0.5, null],
      'e c1/0': [null, 'not_chosen'],
      'e c1/1': [1.25, null],
      'e c2/0': [-0.125, null],
      ...none('f', 'missing_reward', 1),
    });
    // Free up to 4 tokens. Tokens count before usage, and usage only where there is one candidate.
    await base.expectRows('rewards', 'dapo_overlong', {
      'e c0/0': [-0.5, null],
      'e c1/0': [0, null],
      'e c1/1': [null, 'no_length'],
      'e c2/0': [-2, null],
      'f c0/0': [0, null],
    });
  });

  it('gives UnityMAS-O its shapes for mathematics and terminals: the outcome, and the format of each turn', async () => {
    await base.load(
      played('whole', {
        reward: 1,
        calls: [call({}, { format: -1 }), second({}, { format: 0 }), call({}, { format: -0.5 })],
      }),
      played('partly', { reward: 0.5, calls: [call({}, { format: -1 }), call({})] }),
      played('unrewarded', { reward: null, calls: [call({}, { format: -1 }), call({}, { format: 0 })] }),
    );
    await base.run(['unitymas_math_rewards', 'unitymas_terminal_rewards']);
    await base.expectRows('rewards', 'unitymas_math_rewards', {
      'whole c0/0': [0, null],
      'whole c1/0': [null, 'not_chosen'],
      'whole c1/1': [1, null],
      'whole c2/0': [0.5, null],
      'partly c0/0': [-0.5, null],
      'partly c1/0': [null, 'no_format_score'],
      ...none('unrewarded', 'missing_reward', 2),
    });
    // The last turn earns the outcome and the formats of all turns: 1 − 1 + 0 − ½.
    await base.expectRows('rewards', 'unitymas_terminal_rewards', {
      'whole c0/0': [-1, null],
      'whole c1/0': [null, 'not_chosen'],
      'whole c1/1': [0, null],
      'whole c2/0': [-0.5, null],
      'partly c0/0': [-1, null],
      'partly c1/0': [null, 'no_format_score'],
      'unrewarded c0/0': [-1, null],
      'unrewarded c1/0': [null, 'missing_reward'],
    });
  });

  it('gives UnityMAS-O its shapes for code, by how far a turn moved the pass rate, and for search, by the running answer', async () => {
    const by = (role: string, turn?: number, pass_rate?: number) =>
      call({ role, turn }, pass_rate === undefined ? {} : { pass_rate });
    const f1 = (role: string, value?: number) => call({ role }, value === undefined ? {} : { f1: value });
    await base.load(
      played('code', {
        calls: [
          by('planner', 0),
          by('coder', 0, 0.2),
          by('reflection', 0),
          by('coder', 1, 0.5),
          by('reflection', 1),
          second({ role: 'coder', turn: 2 }, { pass_rate: 0.4 }),
          by('reflection', 2),
          by('bystander', 2),
          by('coder', undefined, 1),
          by('reflection', 7),
        ],
      }),
      played('untested', { calls: [by('coder', 0, 0.2), by('coder', 1)] }),
      played('search', {
        calls: [
          f1('planner', 0.1),
          f1('search'),
          f1('answer', 0.2),
          second({ role: 'search' }),
          f1('answer', 0.6),
          f1('search'),
          f1('answer', 0.5),
          f1('search'),
          f1('bystander'),
        ],
      }),
      played('unmarked', { calls: [f1('planner', 0.1), f1('answer')] }),
      played('others', { calls: [call({ role: 'bystander', turn: 0 })] }),
    );
    await base.run(['unitymas_code_rewards'], ['code', 'untested', 'others']);
    await base.run(['unitymas_search_rewards'], ['search', 'unmarked', 'others']);
    // Pass rates 0.2, 0.5 and 0.4; a reflection earns what the next turn moved.
    await base.expectRows('rewards', 'unitymas_code_rewards', {
      'code c0/0': [0.2, null],
      'code c1/0': [0.2, null],
      'code c2/0': [0.3, null],
      'code c3/0': [0.3, null],
      'code c4/0': [-0.1, null],
      'code c5/0': [null, 'not_chosen'],
      'code c5/1': [-0.1, null],
      'code c6/0': [0, null],
      'code c7/0': [null, 'other_role'],
      'code c8/0': [null, 'no_turn'],
      'code c9/0': [null, 'no_pass_rate'],
      ...none('untested', 'no_pass_rate', 2),
      ...none('others', 'no_such_roles', 1),
    });
    // The answers have F1 0.2, 0.6 and 0.5; a search between two of them earns the difference.
    await base.expectRows('rewards', 'unitymas_search_rewards', {
      'search c0/0': [0.1, null],
      'search c1/0': [null, 'before_the_first_answer'],
      'search c2/0': [0.2, null],
      'search c3/0': [null, 'not_chosen'],
      'search c3/1': [0.4, null],
      'search c4/0': [0.6, null],
      'search c5/0': [-0.1, null],
      'search c6/0': [0.5, null],
      'search c7/0': [null, 'ends_the_search'],
      'search c8/0': [null, 'other_role'],
      ...none('unmarked', 'no_f1', 2),
      ...none('others', 'no_such_roles', 1),
    });
  });

  it('knows the roles of MMOA-RAG: too many questions, an invalid choice of documents and a long answer cost', async () => {
    const text = (role: string, content: string) => call({ role }, {}, { content });
    const rewriter = text('rewriter', 'who\nwhen');
    const selector = text('selector', 'Document0');
    const generator = text('generator', 'paris');
    const rag = { says: { f1: 0.8 }, documents: ['a', 'b', 'c'] };
    await base.load(
      played('many', {
        ...rag,
        calls: [
          text('rewriter', 'who\nwhen\n\nwhere\nwhy\nhow'),
          text('selector', 'Document0,Document2\n'),
          generator,
          text('bystander', 'x'),
        ],
      }),
      played('wrong', {
        ...rag,
        calls: [
          text('rewriter', 'who\n\nwhen\nwhere\nwhy'),
          second({ role: 'selector' }, {}, { content: 'Document0,Document3' }),
          text('generator', 'word '.repeat(31)),
        ],
      }),
      played('unmarked', { documents: ['a'], calls: [rewriter, selector, generator] }),
      played('no rewriter', { ...rag, calls: [selector, generator] }),
      played('no selector', { ...rag, calls: [rewriter, generator] }),
      played('no generator', { ...rag, calls: [rewriter, selector] }),
      played('no documents', { says: { f1: 0.8 }, calls: [rewriter, selector, generator] }),
    );
    await base.run(['mmoa_rewards']);
    await base.expectRows('rewards', 'mmoa_rewards', {
      'many c0/0': [0.8 - 0.5, null],
      'many c1/0': [0.8, null],
      'many c2/0': [0.8, null],
      'many c3/0': [null, 'other_role'],
      'wrong c0/0': [0.8, null],
      // Three documents are 0, 1 and 2.
      'wrong c1/0': [null, 'not_chosen'],
      'wrong c1/1': [0.8 - 1, null],
      'wrong c2/0': [0.8 - 1, null],
      ...none('unmarked', 'no_f1', 3),
      ...none('no rewriter', 'no_rewriter', 2),
      ...none('no selector', 'no_selector', 2),
      ...none('no generator', 'no_generator', 2),
      ...none('no documents', 'no_documents', 3),
    });
  });

  it('marks in MarsRL a verifier by whether it finds the latest solution wrong when it is', async () => {
    await base.load(
      played('e', {
        calls: [
          call({ role: 'verifier' }, { flags_error: true }),
          call({ role: 'solver' }, { correct: true }),
          call({ role: 'verifier' }, { flags_error: true }),
          call({ role: 'verifier' }),
          call({ role: 'corrector' }, { correct: true }),
          call({ role: 'verifier' }, { flags_error: false }),
          call({ role: 'corrector' }),
          call({ role: 'verifier' }, { flags_error: true }),
          call({ role: 'bystander' }),
          second({ role: 'solver' }, { correct: false }),
          call({ role: 'verifier' }, { flags_error: true }),
        ],
      }),
    );
    await base.run(['marsrl_rewards']);
    await base.expectRows('rewards', 'marsrl_rewards', {
      'e c0/0': [null, 'nothing_to_verify'],
      'e c1/0': [1, null],
      'e c2/0': [0, null],
      'e c3/0': [null, 'no_flag'],
      'e c4/0': [1, null],
      'e c5/0': [1, null],
      'e c6/0': [null, 'not_graded'],
      'e c7/0': [null, 'not_graded'],
      'e c8/0': [null, 'other_role'],
      'e c9/0': [null, 'not_chosen'],
      'e c9/1': [0, null],
      'e c10/0': [1, null],
    });
  });

  it('gives in ReMA both roles the outcome, and 0 from the role on whose turns did not end', async () => {
    const by = (role: string, finish?: string) => call({ role }, {}, { finish });
    const whole = { reward: 1, budgets: { max_turns: 3 } };
    const [thinks, reasons] = [by('meta-thinking', 'stop'), by('reasoning', 'stop')];
    await base.load(
      played('ended', { ...whole, calls: [thinks, reasons, by('bystander', 'stop')] }),
      played('cut', { ...whole, calls: [thinks, by('reasoning', 'length'), reasons] }),
      played('cut early', { ...whole, calls: [by('meta-thinking', 'length'), reasons] }),
      played('chosen', {
        ...whole,
        calls: [second({ role: 'meta-thinking' }, {}, { finish: 'stop' }), reasons],
      }),
      played('unrewarded', { ...whole, reward: null, calls: [thinks, reasons] }),
      played('unlimited', { reward: 1, calls: [thinks, reasons] }),
      played('rolled out', { reward: 1, tags: { max_turns: 3 }, calls: [thinks, reasons] }),
      played('alone', { ...whole, calls: [thinks] }),
      played('unended', { ...whole, calls: [thinks, by('reasoning')] }),
    );
    await base.run([{ method: 'rema_reward', params: { mask_unfinished: true } }]);
    await base.expectRows('rewards', 'rema_reward', {
      'ended c0/0': [1, null],
      'ended c1/0': [1, null],
      'ended c2/0': [null, 'other_role'],
      'cut c0/0': [1, null],
      'cut c1/0': [0, null],
      'cut c2/0': [0, null],
      'cut early c0/0': [0, null],
      'cut early c1/0': [0, null],
      'chosen c0/0': [null, 'not_chosen'],
      'chosen c0/1': [1, null],
      'chosen c1/0': [1, null],
      ...none('unrewarded', 'missing_reward', 2),
      ...none('unlimited', 'no_max_turns', 2),
      'rolled out c0/0': [1, null],
      'rolled out c1/0': [1, null],
      ...none('alone', 'no_such_roles', 1),
      ...none('unended', 'no_finish_reason', 2),
    });
  });

  it('shapes a tree of steps, and names what hangs from nothing', async () => {
    const node = (reward: number | null, parent?: string): Call => ({
      choices: [{ parent, says: reward === null ? {} : { reward } }],
    });
    await base.load(
      played('tree', {
        calls: [node(0.4), node(0.8, 'c0/0'), node(0.2, 'c0/0'), node(1, 'c1/0'), node(null, 'c0/0')],
      }),
      played('round', {
        calls: [node(1, 'c1/0'), node(1, 'c0/0'), node(1, 'c1/0'), node(1, 'gone/0'), node(0.5)],
      }),
      played('flat', { calls: [node(1), node(0)] }),
    );
    await base.run(['mars2_tree_shaping']);
    await base.expectRows('rewards', 'mars2_tree_shaping', {
      'tree c0/0': [0.4, null],
      // Half above the mean of the parent and the other sibling: 0.8 + ½(0.8 − 0.3) and 0.2 + ½(0.2 − 0.6).
      'tree c1/0': [1.05, null],
      'tree c2/0': [0, null],
      // Against its shaped parent alone.
      'tree c3/0': [0.975, null],
      'tree c4/0': [null, 'missing_reward'],
      ...none('round', 'cycle', 3),
      'round c3/0': [null, 'unknown_parent'],
      'round c4/0': [0.5, null],
      ...none('flat', 'no_tree', 2),
    });
  });

  it('ranks the agents of a group by CoMAM, over the trajectories in which all of them earned something', async () => {
    const trajectory = (id: string, reward: number | null, extract: number, retrieve: readonly number[]) =>
      played(id, {
        group: 'g',
        reward,
        agents: { extract },
        calls: [
          call({ agent: 'extract' }, { reward: 99 }),
          ...(retrieve.length === 0 ? [null] : retrieve).map((own) =>
            call({ agent: 'retrieve' }, own === null ? {} : { reward: own }),
          ),
        ],
      });
    await base.load(
      trajectory('a', 1, 0.9, [0, 0.2]),
      trajectory('b', 0, 0.1, [0.8, 1]),
      trajectory('c', 1, 0.8, [0.2]),
      trajectory('d', 0, 0.2, [0.8]),
      trajectory('unrewarded', null, 0.5, [0.5]),
      trajectory('silent', 1, 0.5, []),
    );
    await base.run(['comam_rewards']);
    // Outcomes 1, 0, 1, 0. extract ranks them as they are; retrieve puts both zeros before both ones.
    const agreement = (1 / Math.log2(4) + 1 / Math.log2(5)) / (1 / Math.log2(2) + 1 / Math.log2(3));
    const extract = 1 / (1 + agreement);
    await base.expectRows('rewards', 'comam_rewards', {
      'a c0/0': [0.9 + extract, null],
      'a c1/0': [0.1 + (1 - extract), null],
      'a c2/0': [0.1 + (1 - extract), null],
      'b c0/0': [0.1, null],
      'b c1/0': [0.9, null],
      'b c2/0': [0.9, null],
      'c c0/0': [0.8 + extract, null],
      'c c1/0': [0.2 + (1 - extract), null],
      'd c0/0': [0.2, null],
      'd c1/0': [0.8, null],
      ...none('unrewarded', 'missing_reward', 2),
      ...none('silent', 'no_local_reward', 2),
    });
  });

  it('gives executions of MetaAgent-X their reward, and a design the mean of the known ones', async () => {
    const run = (id: string, group: string, reward: number | null, parent?: string) =>
      played(id, { group, reward, parent, calls: [call({})] });
    await base.load(
      run('d1', 'g', null),
      run('d1-0', 'g', 1, 'd1'),
      run('d1-1', 'g', 0, 'd1'),
      run('d1-2', 'g', null, 'd1'),
      run('below', 'g', 1, 'd1-0'),
      run('d2', 'g', 7),
      run('d2-0', 'g', null, 'd2'),
      run('idle', 'g', 1),
    );
    await base.run(['metaagentx_rewards']);
    await base.expectRows('rewards', 'metaagentx_rewards', {
      'd1 c0/0': [0.5, null],
      'd1-0 c0/0': [1, null],
      'd1-1 c0/0': [0, null],
      ...none('d1-2', 'missing_reward', 1),
      ...none('below', 'not_an_execution', 1),
      ...none('d2', 'missing_reward', 1),
      ...none('d2-0', 'missing_reward', 1),
      ...none('idle', 'no_executions', 1),
    });
  });

  it('balances the rewards that another method computed, or the recorded ones, within the answers of an agent in a group', async () => {
    const answer = (id: string, reward: number | null, used: number | undefined, group = 'g', agent = 'a') =>
      played(id, { group, reward, calls: [call({ agent, used })] });
    await base.load(
      answer('p', 2, 2000),
      answer('q', 1, 4000),
      answer('r', -1, 1000),
      answer('s', -0.5, 9000),
      answer('unrewarded', null, 1000),
      answer('one', 3, 10, 'g', 'b'),
      answer('two', 1, 10, 'g', 'b'),
      answer('unmeasured', 1, undefined, 'other'),
      anExecution('x'),
      anExecution('y'),
    );
    const ids = ['p', 'q', 'r', 's', 'unrewarded', 'one', 'two', 'unmeasured'];
    await base.run(['cure_balance', 'cure_length_regularize'], ids);
    // 2 and 1 weigh 3, −1 and −½ weigh 1½: 1, ½, −1, −½ have the variance 2.5 / 4.
    const std = Math.sqrt(0.625);
    await base.expectRows('rewards', 'cure_balance', {
      'p c0/0': [1 / std, null],
      'q c0/0': [0.5 / std, null],
      'r c0/0': [-1 / std, null],
      's c0/0': [-0.5 / std, null],
      ...none('unrewarded', 'missing_reward', 1),
      ...none('one', 'one_sided', 1),
      ...none('two', 'one_sided', 1),
      ...none('unmeasured', 'one_sided', 1),
    });
    // The positives are 1000 below and 1000 above their median of 3000; the negatives get the least, −1000. In balance 3, −1, −1, −1.
    await base.expectRows('rewards', 'cure_length_regularize', {
      'p c0/0': [Math.sqrt(3), null],
      'q c0/0': [-1 / Math.sqrt(3), null],
      'r c0/0': [-1 / Math.sqrt(3), null],
      's c0/0': [-1 / Math.sqrt(3), null],
      ...none('unrewarded', 'missing_reward', 1),
      ...none('one', 'one_sided', 1),
      ...none('two', 'one_sided', 1),
      ...none('unmeasured', 'no_length', 1),
    });
    await base.run(['cure_code_reward', { method: 'cure_balance', reads: 'cure_code_reward' }], ['x', 'y']);
    // In each episode one program passes and one fails, which is 1 and −1.
    expect(
      await base.rows(
        `select step_id, value from traj.rewards where method = 'cure_balance' and params ->> 'reads' is not null
         order by episode_id, step_id`,
      ),
    ).toEqual([
      { step_id: 'x-coder/0', value: 1 },
      { step_id: 'x-coder/1', value: -1 },
      { step_id: 'y-coder/0', value: 1 },
      { step_id: 'y-coder/1', value: -1 },
    ]);
  });

  it('rewards drafts by their peers and their form, and keeps of each agent the one that scores most', async () => {
    const draft = (agent: string, value: number | undefined, says: Says, content = 'STEP 1: add\nFINAL: 5') =>
      call({ agent }, { ...says, ...(value === undefined ? {} : { value }) }, { content });
    await base.load(
      played('d', {
        group: 'q',
        calls: [
          draft('ada', 0.2, { correct: 1, peer_score: 1 }),
          draft('ada', 0.9, { correct: 0, peer_score: 0.5 }, 'It is 6.'),
          draft('bob', 0.1, { correct: 1 }),
          draft('bob', undefined, { peer_score: 1 }),
        ],
      }),
    );
    await base.run(['draft_rl_reward', 'draft_rl_select'], ['d']);
    // 1 + 0.2 · 2 · 0.5 + 0.1, and −1 + 0 − 0.1.
    await base.expectRows('rewards', 'draft_rl_reward', {
      'd c0/0': [1.3, null],
      'd c1/0': [-1.1, null],
      'd c2/0': [null, 'no_peer_score'],
      'd c3/0': [null, 'not_graded'],
    });
    expect(
      await base.rows(
        `select step_id, keep, reason, detail ->> 'global' as global from traj.verdicts where method = 'draft_rl_select' order by 1`,
      ),
    ).toEqual([
      { step_id: 'c0/0', keep: true, reason: null, global: 'true' },
      { step_id: 'c1/0', keep: false, reason: 'another_draft', global: 'false' },
      { step_id: 'c2/0', keep: true, reason: null, global: 'false' },
      { step_id: 'c3/0', keep: null, reason: 'no_score', global: null },
    ]);
  });

  it('gives programs and tests of an execution matrix each their own advantage, and says where a side is dropped', async () => {
    await base.load(anExecution('x'), played('bare', { calls: [{ choices: [{}] }] }));
    await base.run(['cure_advantage', 'cure_code_reward', 'cure_test_reward'], ['x', 'bare']);
    const credited = await base.rows(
      `select c.step_id, c.value, c.reason from traj.credits c where method = 'cure_advantage' order by 1`,
    );
    const rewarded = await base.rows(
      `select step_id, value, reason from traj.rewards where method in ('cure_code_reward', 'cure_test_reward') order by 1`,
    );
    expect(credited).toEqual(rewarded);
    expect(credited.length).toBeGreaterThan(2);
    expect(await base.rows(`select reason from traj.scores where method = 'cure_advantage'`)).toEqual([
      { reason: 'no_execution_matrix' },
    ]);
  });

  it('says of CURE’s tests that nobody is right where no program is, and that they are equal where they are', async () => {
    const of = async (id: string, pass: readonly (readonly (0 | 1)[])[]) => {
      const matrix = {
        programs: [
          { step_id: 'c0/0', valid: true },
          { step_id: 'c0/1', valid: true },
        ],
        tests: [
          { step_id: 'c1/0', valid: true },
          { name: 'hidden', ground_truth: true },
        ],
        pass: pass.map((row) => [...row]),
      };
      const target = { kind: 'episode' as const, episode_id: id };
      await base.load(played(id, { calls: [{ choices: [{}, {}] }, { choices: [{}] }] }), [
        event(
          'feedback.recorded',
          { feedback_id: id, target, kind: 'execution', name: 'tests', matrix },
          { time: at(2) },
        ),
      ]);
      await base.run(['cure_advantage', 'cure_test_reward'], [id]);
      return base.rows(
        `select reason from traj.credits where method = 'cure_advantage' and episode_id = '${id}' and step_id = 'c1/0'
         union all select reason from traj.rewards where method = 'cure_test_reward' and episode_id = '${id}'`,
      );
    };
    const twice = (reason: string) => [{ reason }, { reason }];
    expect(
      await of('none', [
        [1, 0],
        [0, 0],
      ]),
    ).toEqual(twice('nobody_right'));
    expect(
      await of('equal', [
        [1, 1],
        [0, 0],
      ]),
    ).toEqual(twice('zero_variance'));
  });

  it('reads the essays’ rewards from an execution matrix, and has none without lengths', async () => {
    await base.load(
      anExecution('x'),
      played('bare', { calls: [{ choices: [{}] }] }),
      anExecution('z').filter((e) => e.name !== 'generation.completed'),
    );
    await base.run(['essay_rewards']);
    // Each program passes one of two tests, the first also the truth. The first test, of 3 tokens, parts right from wrong; the second,
    // of 2 tokens, has both programs the wrong way round.
    await base.expectRows('rewards', 'essay_rewards', {
      'x x-coder/0': [1 + 0.5 * 0.5, null],
      'x x-coder/1': [0 + 0.5 * 0.5, null],
      'x x-verifier/0': [1 - 0.003, null],
      'x x-verifier/1': [0 - 0.002, null],
    });
    expect(await withoutSteps('essay_rewards')).toEqual([
      { episode_id: 'bare', reason: 'no_execution_matrix' },
      { episode_id: 'z', reason: 'no_token_ids' },
    ]);
  });
});
