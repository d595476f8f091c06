import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { EventData } from '../../../ingest/events/events.ts';
import { METHODS } from '../../../store/evaluate/methods/find.ts';
import { at, event } from '../support/events.ts';
import { type JudgedDatabase, judgedDatabase } from './support/judged.ts';
import { aTask, expectSaid, tell } from './support/stories.ts';

type Outcome = EventData<'episode.finished'>['outcome'];
type Blame = {
  episode_id: string;
  rank: number;
  agent_id: string | null;
  step_id: string | null;
  value: number | null;
  reason: string | null;
  detail: Record<string, unknown> | null;
};

const AGENTS = ['planner', 'coder', 'tester'];

/** A run of which each agent says one thing; the coder has two candidates, of which one was chosen. */
function aRun(
  id: string,
  outcome: Outcome | null,
  {
    tags = {},
    task = 'task',
    says = AGENTS as readonly (string | null)[],
    text = 'x',
    progress = [] as number[][],
  } = {},
) {
  return [
    event('episode.started', { episode_id: id, task_id: task, tags }, { time: at(0) }),
    ...says.map((agent_id, seq) =>
      event('generation.completed', {
        episode_id: id,
        call_id: `c${seq}`,
        seq,
        agent_id,
        choices:
          agent_id === 'coder'
            ? [
                { index: 0, content: 'no' },
                { index: 1, content: text, chosen: true },
              ]
            : [{ index: 0, content: text }],
      }),
    ),
    ...progress.map((content, seq) =>
      event('environment.observed', { episode_id: id, kind: 'progress', content, seq }),
    ),
    ...(outcome === null ? [] : [event('episode.finished', { episode_id: id, outcome }, { time: at(9) })]),
  ];
}
const replay = (of: string, intervention: Record<string, unknown>) => ({ replay_of: of, intervention });

describe('blame that the judge computes from what is stored', () => {
  let base: JudgedDatabase;
  beforeEach(async () => {
    base = await judgedDatabase();
  });
  afterEach(() => base.close());

  const blames = (method: string): Promise<Blame[]> =>
    base.rows<Blame>(
      `select episode_id, rank, agent_id, step_id, value, reason, detail from traj.blames where method = '${method}' order by episode_id, rank`,
    );
  const short = async (method: string) =>
    (await blames(method)).map(({ episode_id, agent_id, step_id, reason }) => [episode_id, agent_id, step_id, reason]);
  /** Judging again gives the same rows. */
  const expectSameAgain = async (method: string) => {
    const judged = async () => {
      const { tables } = await base.checksum();
      return [tables.blames, tables.scores];
    };
    const before = await judged();
    expect(before.some((table) => table!.rows > 0)).toBe(true);
    await base.run([method]);
    expect(await judged()).toEqual(before);
  };

  it('are all of the catalogue, but for one that is about a training run', () => {
    for (const method of METHODS.filter(({ kind }) => kind === 'blame'))
      expect(method.judged !== undefined, method.name).toBe(method.name !== 'agentracer_clip');
  });

  it('blames the earliest step whose correction made a failed run succeed, whatever the order of the replays', async () => {
    const correct = (of: string, about: object) => ({
      tags: replay(of, { kind: 'correct', ...about }),
      task: 'elsewhere',
    });
    await base.load(
      aRun('early', 'failure'),
      aRun('early r1', 'success', correct('early', { step: 2 })),
      aRun('early r2', 'success', correct('early', { step_id: 'c1/1' })),
      aRun('early r3', 'failure', correct('early', { step: 0 })),
      aRun('helpless', 'failure'),
      aRun('helpless r1', 'failure', correct('helpless', { step: 1 })),
      aRun('won', 'success'),
      aRun('won r1', 'success', correct('won', { step: 1 })),
      aRun('crashed', 'error'),
      aRun('crashed r1', 'success', correct('crashed', { step_id: 'c2/0' })),
      aRun('open', 'failure'),
      aRun('open r1', 'unknown', correct('open', { step: 1 })),
      aRun('untried', 'failure'),
      aRun('unknown', 'unknown'),
      // Nothing went on from the candidate that was not chosen.
      aRun('misplaced', 'failure'),
      aRun('misplaced r1', 'success', correct('misplaced', { step_id: 'c1/0' })),
      aRun('nameless', 'failure', { says: [null] }),
      aRun('nameless r1', 'success', correct('nameless', { step: 0, agent: 'somebody' })),
    );
    await base.run(['decisive_error']);
    const found = await short('decisive_error');
    const replays = ['crashed r1', 'early r1', 'early r2', 'early r3', 'helpless r1', 'misplaced r1'];
    replays.push('nameless r1', 'open r1', 'won r1');
    expect(found.filter(([, , , reason]) => reason === 'is_a_replay').map(([id]) => id)).toEqual(replays);
    expect(found.filter(([, , , reason]) => reason !== 'is_a_replay')).toEqual([
      ['crashed', 'tester', 'c2/0', null],
      ['early', 'coder', 'c1/1', null],
      ['helpless', null, null, 'no_correction_helped'],
      ['misplaced', null, null, 'no_replays'],
      ['nameless', 'somebody', 'c0/0', null],
      ['open', null, null, 'no_replays'],
      ['unknown', null, null, 'outcome_unknown'],
      ['untried', null, null, 'no_replays'],
      ['won', null, null, 'succeeded'],
    ]);
    await expectSameAgain('decisive_error');
  });

  it('labels a run that failed because a step of a successful one was perturbed', async () => {
    const perturb = (of: string, about: object = { step_id: 'c1/1' }) => ({
      tags: replay(of, { kind: 'perturb', ...about }),
    });
    await base.load(
      aRun('good', 'success'),
      aRun('bad', 'failure'),
      aRun('good, fails', 'failure', perturb('good')),
      aRun('good, survives', 'success', perturb('good')),
      aRun('good, nobody knows', 'unknown', perturb('good')),
      aRun('good, nowhere', 'failure', perturb('good', { step_id: 'c9/0' })),
      aRun('bad, fails', 'failure', perturb('bad')),
      aRun('lost', 'failure', perturb('nobody')),
      aRun('anonymous', 'success', { says: [null] }),
      aRun('anonymous, fails', 'failure', perturb('anonymous', { step: 0 })),
    );
    await base.run(['injected_label']);
    expect(
      (await blames('injected_label')).map(({ episode_id, agent_id, reason, detail }) => [
        episode_id,
        agent_id,
        reason,
        detail,
      ]),
    ).toEqual([
      ['anonymous', null, 'not_perturbed', null],
      ['anonymous, fails', null, 'no_agent', null],
      ['bad', null, 'not_perturbed', null],
      ['bad, fails', null, 'base_failed', null],
      ['good', null, 'not_perturbed', null],
      ['good, fails', 'coder', null, { base: 'good', step: 1, step_id: 'c1/1' }],
      ['good, nobody knows', null, 'outcome_unknown', null],
      ['good, nowhere', null, 'no_such_step', null],
      ['good, survives', null, 'survived', null],
      ['lost', null, 'no_base', null],
    ]);
    await expectSameAgain('injected_label');
  });

  it('weighs hypotheses by what replays with an edit did, the surest first', async () => {
    const edit = (hypothesis: string, about: object = {}) =>
      replay('run', { kind: 'edit', step_id: 'c0/0', hypothesis, fulfilled: true, ...about });
    const before = [
      [1, 0, 0, 0, 0],
      [0, 0, 1, 0, 0],
    ];
    const tried = (id: string, outcome: Outcome, tags: Record<string, unknown>, progress = [[1, 0, 1, 0, 0]]) =>
      aRun(id, outcome, { tags, progress });
    await base.load(
      aRun('run', 'failure', { progress: before }),
      tried('a1', 'failure', edit('idle')),
      tried('a2', 'failure', edit('idle')),
      tried('b1', 'success', edit('plan'), [[1, 1, 1, 1, 1]]),
      tried('b2', 'success', edit('plan'), [[1, 1, 1, 1, 1]]),
      tried('c1', 'failure', edit('tool', { fulfilled: false }), [[1, 1, 1, 0, 0]]),
      tried('c2', 'failure', edit('tool'), [
        [1, 0, 0, 0, 0],
        [0, 1, 1, 0, 1],
      ]),
      tried('d1', 'failure', edit('silent', { fulfilled: null })),
      tried('e1', 'unknown', edit('open')),
      tried('f1', 'failure', edit('blind'), []),
      aRun('other', 'failure'),
    );
    // Recorded late: it was carried out after all.
    await base.load([tell('c1', { name: 'intervention_fulfilled', value: true, kind: 'label' })]);
    await base.run(['dover_verdict', 'dover_progress']);
    // Two of five subgoals were met before. Afterwards: all; three, and four of which one only once; two.
    const found = (await blames('dover_verdict')).filter((row) => row.episode_id === 'run');
    expect(
      found.map(({ rank, agent_id, step_id, reason, detail }) => [rank, agent_id, step_id, detail!.hypothesis, reason]),
    ).toEqual([
      [0, 'planner', 'c0/0', 'plan', 'validated'],
      [1, 'planner', 'c0/0', 'tool', 'partially_validated'],
      [2, 'planner', 'c0/0', 'idle', 'refuted'],
      [3, 'planner', 'c0/0', 'silent', 'fulfilment_unknown'],
      [4, 'planner', 'c0/0', 'open', 'outcome_unknown'],
      [5, 'planner', 'c0/0', 'blind', 'no_subgoals'],
    ]);
    expect((await short('dover_verdict')).filter(([id]) => id === 'other' || id === 'a1')).toEqual([
      ['a1', null, null, 'is_a_replay'],
      ['other', null, null, 'no_replays'],
    ]);
    await expectSaid(base, 'scores', 'dover_progress', {
      'e/run': [null, 'not_a_replay'],
      'e/other': [null, 'not_a_replay'],
      'e/f1': [null, 'no_subgoals'],
      'e/a1': [0, null],
      'e/a2': [0, null],
      'e/b1': [0.6, null],
      'e/b2': [0.6, null],
      'e/c1': [0.2, null],
      'e/c2': [0.4, null],
      'e/d1': [0, null],
      'e/e1': [0, null],
    });
    await expectSameAgain('dover_verdict');
  });

  it('shares the blame by what repairing every coalition did, and says when one was not tried', async () => {
    const repaired = (of: string, names: readonly string[], n: number, outcome: Outcome) =>
      aRun(`${of} ${names.join('')} ${n}`, outcome, {
        tags: replay(of, { kind: 'repair', repaired: [...names].reverse() }),
      });
    /** Each coalition was tried twice. */
    const tries = (names: readonly string[], won: number) =>
      [0, 1].flatMap((n) => repaired('run', names, n, n < won ? 'success' : 'failure'));
    await base.load(
      aRun('run', 'failure'),
      tries(['planner'], 0),
      tries(['coder'], 1),
      tries(['tester'], 0),
      tries(['planner', 'coder'], 2),
      tries(['planner', 'tester'], 0),
      tries(['coder', 'tester'], 1),
      tries(AGENTS, 1),
      aRun('half', 'failure'),
      repaired('half', ['coder'], 0, 'success'),
      aRun('untried', 'failure'),
      aRun('crowd', 'failure', { says: Array.from({ length: 17 }, (_, n) => `agent ${n}`) }),
      aRun('nobody', 'failure', { says: [null] }),
    );
    await base.run(['shapley']);
    // The planner adds 0, ½, 0 and 0, the coder ½, 1, ½ and ½, the tester 0, 0, 0 and −½; the first and the last weigh a third.
    const found = (await blames('shapley')).filter((row) => row.episode_id === 'run');
    expect(found.map((row) => [row.agent_id, row.value, row.detail!.phi])).toEqual([
      ['coder', expect.closeTo(7 / 8, 12), expect.closeTo(7 / 12, 12)],
      ['planner', expect.closeTo(1 / 8, 12), expect.closeTo(1 / 12, 12)],
      ['tester', 0, expect.closeTo(-1 / 6, 12)],
    ]);
    expect((await short('shapley')).filter(([id, , , reason]) => id !== 'run' && reason !== 'is_a_replay')).toEqual([
      ['crowd', null, null, 'too_many_agents'],
      ['half', null, null, 'missing_coalitions'],
      ['nobody', null, null, 'no_agents'],
      ['untried', null, null, 'no_replays'],
    ]);
    await expectSameAgain('shapley');
  });

  it('turns dependencies around, as they were recorded or as steps were expanded from each other', async () => {
    const recorded = (value: unknown[]) => tell('deps', { name: 'data_deps', kind: 'label', value });
    await base.load(
      aRun('deps', 'failure'),
      [
        recorded([['c2/0', 'c0/0']]),
        recorded([
          ['c0/0', 'c1/1'],
          ['planner', 'tester'],
        ]),
        recorded(['no pair']),
      ],
      [
        event('episode.started', { episode_id: 'tree' }),
        event('generation.completed', {
          episode_id: 'tree',
          call_id: 'a',
          agent_id: 'planner',
          seq: 0,
          choices: [{ index: 0 }],
        }),
      ],
      [
        event('generation.completed', {
          episode_id: 'tree',
          call_id: 'b',
          seq: 1,
          choices: [{ index: 0, parent_step_id: 'a/0' }],
        }),
      ],
      aRun('bare', 'failure'),
    );
    await base.run(['invert_dependencies']);
    const found = await blames('invert_dependencies');
    expect(found.filter((row) => row.episode_id === 'deps').map(({ detail }) => [detail!.from, detail!.to])).toEqual([
      ['c1/1', 'c0/0'],
      ['tester', 'planner'],
    ]);
    expect(found.map(({ episode_id, agent_id, step_id, reason }) => [episode_id, agent_id, step_id, reason])).toEqual([
      ['bare', null, null, 'no_dependencies'],
      ['deps', 'planner', 'c0/0', null],
      ['deps', 'planner', null, null],
      ['tree', 'planner', 'a/0', null],
    ]);
    await expectSameAgain('invert_dependencies');
  });

  const failure = (
    episode: string,
    name: string,
    who: { by?: string; annotator?: string },
    agent: string,
    about: object = {},
    second = 30,
  ) => tell(episode, { kind: 'failure', name, ...who, target: { kind: 'agent', id: agent, ...about } }, second);
  const human = { by: 'human' };
  const model = (annotator: string) => ({ by: 'model', annotator });

  it('says how often each annotator finds the agent and the step that a person named', async () => {
    await base.load(
      ['a', 'b', 'c', 'd'].flatMap((id) => aRun(id, 'failure')),
      [
        failure('a', 'mistake', human, 'coder', { entry: 3 }),
        failure('b', 'mistake', human, 'planner', { entry: 1 }),
        tell('c', { kind: 'failure', name: 'mistake', by: 'env', target: { kind: 'step', id: 'c2/0' } }),
        failure('d', 'FM-1.1', human, 'coder'),
        failure('a', 'mistake', model('one'), 'tester', { entry: 3 }),
        failure('a', 'mistake', model('one'), 'coder', { entry: 4 }, 50),
        tell('c', { kind: 'failure', name: 'mistake', ...model('one'), target: { kind: 'step', id: 'c2/0' } }),
        failure('b', 'mistake', model('two'), 'planner', { entry: 1 }),
        failure('d', 'mistake', model('two'), 'planner', { entry: 1 }),
      ],
    );
    await base.run(['who_when_accuracy']);
    // Of three cases: one finds two agents and one step, two finds one of each.
    await expectSaid(base, 'scores', 'who_when_accuracy', { 's/one': [2 / 3, null], 's/two': [1 / 3, null] });
    const details = await base.rows<{ detail: object }>(
      `select detail from traj.scores where method = 'who_when_accuracy' order by key`,
    );
    const third = expect.closeTo(1 / 3, 12);
    expect(details.map(({ detail }) => detail)).toEqual([
      { agent: expect.closeTo(2 / 3, 12), step: third, cases: 3 },
      { agent: third, step: third, cases: 3 },
    ]);
    await expectSameAgain('who_when_accuracy');
  });

  it('compares annotators’ failure modes with the truth and with each other, and counts how often each occurs', async () => {
    const names = (who: string, id: string, agent: string, name: string, value: boolean) =>
      tell(id, {
        kind: 'failure',
        name,
        by: who === 'human' ? who : 'model',
        annotator: who,
        value,
        target: { kind: 'agent', id: agent },
      });
    await base.load(
      ['e0', 'e1', 'e2', 'e3'].flatMap((id) => aRun(id, 'failure')),
      [
        names('human', 'e1', 'coder', 'FM-1.1', true),
        names('human', 'e1', 'tester', '1.3', true),
        names('human', 'e2', 'planner', 'FM-2.6', true),
        names('human', 'e2', 'planner', 'FM-3.3', false),
        names('one', 'e1', 'coder', 'FM-1.1', true),
        names('one', 'e1', 'planner', '1.3', true),
        names('one', 'e2', 'planner', 'FM-2.6', true),
        names('one', 'e2', 'planner', 'FM-3.3', true),
        names('one', 'e2', 'tester', 'FM-2.6', false),
        names('two', 'e1', 'coder', 'FM-1.1', false),
        names('two', 'e2', 'planner', 'FM-2.6', true),
        names('two', 'e2', 'planner', 'FM-3.3', false),
        names('two', 'e2', 'tester', 'FM-2.6', false),
        names('two', 'e3', 'tester', 'FM-3.3', true),
        tell('e1', { kind: 'failure', name: 'no code', by: 'human', target: { kind: 'agent', id: 'coder' } }),
      ],
    );
    await base.run(['attribution_f1', 'cohen_kappa', 'mast_distribution']);
    // The person names three pairs in e1 and one in e2. one has two of them and two others, two has one and no other.
    await expectSaid(base, 'scores', 'attribution_f1', { 's/one': [4 / 8, null], 's/two': [2 / 5, null] });
    // human and one share 1 1, 1 1, 0 1: ⅔ agree, as by chance. human and two 1 0, 1 1, 0 0: ⅔, by chance 4/9.
    // one and two 1 0, 1 1, 1 0, 0 0: a half, by chance ⅜.
    await expectSaid(base, 'scores', 'cohen_kappa', {
      's/human~one': [0, null],
      's/human~two': [0.4, null],
      's/one~two': [0.2, null],
    });
    const [{ detail, ...row }] = (await base.rows<{ detail: object }>(
      `select key, value, reason, detail from traj.scores where method = 'mast_distribution'`,
    )) as [{ detail: object }];
    expect(row).toEqual({ key: 's/modes', value: null, reason: 'see_detail' });
    // Modes by episode: 1.1 and 1.3, then 2.6 and 3.3, then 3.3.
    expect(detail).toEqual({
      modes: { '1.1': 1, '1.3': 1, '2.6': 1, '3.3': 2 },
      categories: { FC1: 0.4, FC2: 0.2, FC3: 0.4 },
      traces: 3,
      unlabelled: 1,
      other_names: 1,
    });
    await expectSameAgain('cohen_kappa');
  });

  it('says what is missing where nobody labelled anything', async () => {
    await base.load(aRun('a', 'failure'));
    await base.run(['who_when_accuracy', 'attribution_f1', 'cohen_kappa', 'mast_distribution']);
    expect(await base.rows('select method, key, value, reason from traj.scores order by 1')).toEqual([
      { method: 'attribution_f1', key: 's/modes', value: null, reason: 'no_truth' },
      { method: 'cohen_kappa', key: 's/annotators', value: null, reason: 'no_common_labels' },
      { method: 'mast_distribution', key: 's/modes', value: null, reason: 'no_labels' },
      { method: 'who_when_accuracy', key: 's/mistake', value: null, reason: 'no_truth' },
    ]);
    await base.load([failure('a', 'mistake', human, 'coder', { entry: 1 }), failure('a', 'FM-1.1', human, 'coder')]);
    await base.run(['who_when_accuracy', 'attribution_f1']);
    expect(
      await base.rows(
        `select key, reason from traj.scores where method in ('who_when_accuracy', 'attribution_f1') order by 1`,
      ),
    ).toEqual([
      { key: 's/mistake', reason: 'no_predictions' },
      { key: 's/modes', reason: 'no_predictions' },
    ]);
  });

  it('marks the diagnoses of runs whose task is to find a failure', async () => {
    const truth = (id: string, ground_truth: unknown) => aTask(id, { ground_truth });
    const traced = (id: string, task: string, text: string) => aRun(id, 'success', { task, text, says: ['tracer'] });
    const coef = {
      pair: 1,
      agent: 0.5,
      error: 0.3,
      false_positive: 0.2,
      dup: 0.2,
      quant: 0.2,
      bonus: 0.1,
      malformed: -1,
    };
    await base.load(
      [
        truth('trace', { agent: 'coder', step: 5 }),
        truth('modes', [['s', 'FM-1.1'], { agent: 'v', mode: 'FM-3.3' }]),
        truth('none', null),
      ],
      traced('near', 'trace', '<think>hm</think><answer>coder|4</answer>'),
      traced('bad', 'trace', 'coder, I think'),
      traced('pairs', 'modes', '[["s","FM-1.1"],["v","FM-2.3"],["w","FM-2.1"]]'),
      traced('prose', 'modes', 'it was s'),
      traced('untold', 'none', 'anything'),
      aRun('mute', 'failure', { task: 'trace', says: [] }),
      aRun('mute too', 'failure', { task: 'modes', says: [] }),
    );
    await base.run(['agentracer_reward', { method: 'aegis_reward', params: { coef } }]);
    const none = [null, 'no_truth'] as const;
    await expectSaid(base, 'scores', 'agentracer_reward', {
      // One step off with σ = 1, and the agent is right.
      'e/near': [0.5 * Math.exp(-0.5) + 0.5, null],
      'e/bad': [0, 'bad_format'],
      'e/mute': [null, 'no_diagnosis'],
      'e/pairs': none,
      'e/prose': none,
      'e/untold': none,
      'e/mute too': none,
    });
    await expectSaid(base, 'scores', 'aegis_reward', {
      // A bonus, a pair, an agent and a false alarm, over two pairs and the bonus.
      'e/pairs': [(0.1 + 1 + 0.5 - 0.2) / (2 * 1 + 0.1), null],
      'e/prose': [coef.malformed, 'bad_format'],
      'e/mute too': [null, 'no_diagnosis'],
      'e/near': none,
      'e/bad': none,
      'e/untold': none,
      'e/mute': none,
    });
    await expectSameAgain('agentracer_reward');
    await base.run(['aegis_reward']);
    const [{ reason }] = (await base.rows<{ reason: string }>(
      `select reason from traj.scores where method = 'aegis_reward' and key = 'e/pairs' and params ->> 'coef' is null`,
    )) as [{ reason: string }];
    expect(reason).toContain('which the paper does not publish');
  });

  it('says the same when it is run again in another order, and after a rebuild', async () => {
    const names = METHODS.filter(({ kind, name }) => kind === 'blame' && name !== 'agentracer_clip').map(
      ({ name }) => name,
    );
    await base.load(
      aRun('run', 'failure', { progress: [[1, 0]] }),
      aRun('corrected', 'success', { tags: replay('run', { kind: 'correct', step_id: 'c1/1' }) }),
      aRun('perturbed', 'failure', { tags: replay('corrected', { kind: 'perturb', step: 1 }) }),
      aRun('edited', 'success', {
        tags: replay('run', { kind: 'edit', step: 0, fulfilled: true }),
        progress: [[1, 1]],
      }),
      [
        failure('run', 'mistake', human, 'coder', { entry: 3 }),
        failure('run', 'mistake', model('one'), 'coder', { entry: 3 }),
      ],
      [failure('run', 'FM-1.1', human, 'coder'), failure('run', 'FM-1.1', model('one'), 'coder')],
      [tell('run', { name: 'data_deps', kind: 'label', value: [['c0/0', 'c1/1']] })],
    );
    await base.run(names);
    const judged = async () => {
      const { tables } = await base.checksum();
      return [tables.blames, tables.scores];
    };
    const before = await judged();
    expect(before.every((table) => table!.rows >= 4)).toBe(true);
    await base.run(names.toReversed());
    expect(await judged()).toEqual(before);
    await base.rebuild();
    expect(await judged()).toEqual(before);
  }, 60_000);
});
