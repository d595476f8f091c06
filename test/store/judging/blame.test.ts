import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { EventData } from '../../../ingest/events.ts';
import { METHODS } from '../../../store/methods/find.ts';
import { at, event } from '../support/events.ts';
import { seeded } from './support/episodes.ts';
import { answer, grouped, type JudgedDatabase, judgedDatabase } from './support/judged.ts';
import { aTask, expectSaid, type Story, storiesIn, tell } from './support/stories.ts';

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
    const random = seeded(5);
    const correct = (of: string, about: object) => ({
      tags: replay(of, { kind: 'correct', ...about }),
      task: 'elsewhere',
    });
    const steps = ['c0/0', 'c1/1', 'c2/0'];
    const runs = Array.from({ length: 8 }, (_, n) => `run ${n}`);
    await base.load(
      runs.flatMap((id) => aRun(id, random.pick(['failure', 'failure', 'error', 'success'] as const))),
      runs.flatMap((id) =>
        Array.from({ length: random.below(5) }, (_, n) => {
          const place = random.below(3);
          const about = random.chance(0.5) ? { step_id: steps[place] } : { step: place };
          return aRun(`${id} again ${n}`, random.pick(['success', 'failure', 'unknown'] as const), correct(id, about));
        }).flat(),
      ),
      aRun('untried', 'failure'),
      aRun('unknown', 'unknown'),
      aRun('misplaced', 'failure'),
      aRun('misplaced again', 'success', correct('misplaced', { step_id: 'c1/0' })),
      aRun('nameless', 'failure', { says: [null] }),
      aRun('nameless again', 'success', correct('nameless', { step: 0, agent: 'somebody' })),
    );
    await base.run(['decisive_error']);
    const stories = await storiesIn(base);
    const found = await short('decisive_error');
    expect(found).toHaveLength(stories.length);
    const wanted = stories.map((story) => {
      const id = story.episode_id;
      if (story.tags?.replay_of) return [id, null, null, 'is_a_replay'];
      if (story.outcome === 'unknown') return [id, null, null, 'outcome_unknown'];
      const onward = story.steps.filter((step) => step.onward);
      const replays = stories.flatMap((one) => {
        if (one.tags?.replay_of !== id || one.outcome === 'unknown') return [];
        const { step_id, step, agent } = one.tags.intervention as { step_id?: string; step?: number; agent?: string };
        const place = step ?? onward.findIndex((s) => s.step_id === step_id);
        return place < 0
          ? []
          : [{ step: place, agent: agent ?? onward[place]!.agent, fixed: one.outcome === 'success' ? 1 : 0 }];
      });
      const outcome = story.outcome === 'success' ? 1 : 0;
      if (outcome === 0 && replays.length === 0) return [id, null, null, 'no_replays'];
      const label = answer<{ agent: string; step: number } | null>('decisive_error', { outcome, replays });
      if (label === null) return [id, null, null, outcome ? 'succeeded' : 'no_correction_helped'];
      return [id, label.agent, onward[label.step]!.step_id, null];
    });
    expect(found).toEqual(wanted);
    const reasons = new Set(found.map(([, , , reason]) => reason));
    for (const reason of [null, 'succeeded', 'no_replays', 'no_correction_helped'])
      expect(reasons, String(reason)).toContain(reason);
    expect(found).toContainEqual(['nameless', 'somebody', 'c0/0', null]);
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
    const label = answer<{ agent: string; step: number }>('injected_label', {
      base_outcome: 1,
      injected_outcome: 0,
      agent: 'coder',
      step: 1,
    });
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
      ['good, fails', label.agent, null, { base: 'good', step: label.step, step_id: 'c1/1' }],
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
    // Said late: it was carried out after all.
    await base.load([tell('c1', { name: 'intervention_fulfilled', value: true, kind: 'label' })]);
    await base.run(['dover_verdict', 'dover_progress']);
    const progress = (after: number[]) => answer<number>('dover_progress', { before: [1, 0, 1, 0, 0], after });
    const verdict = (success: boolean, ...after: number[][]) =>
      answer<string>('dover_verdict', {
        runs: after.map((one) => ({ success, fulfilled: true, progress: progress(one) })),
      });
    const found = (await blames('dover_verdict')).filter((row) => row.episode_id === 'run');
    expect(
      found.map(({ rank, agent_id, step_id, reason, detail }) => [rank, agent_id, step_id, detail!.hypothesis, reason]),
    ).toEqual([
      [0, 'planner', 'c0/0', 'plan', verdict(true, [1, 1, 1, 1, 1], [1, 1, 1, 1, 1])],
      [1, 'planner', 'c0/0', 'tool', verdict(false, [1, 1, 1, 0, 0], [1, 1, 1, 0, 1])],
      [2, 'planner', 'c0/0', 'idle', verdict(false, [1, 0, 1, 0, 0], [1, 0, 1, 0, 0])],
      [3, 'planner', 'c0/0', 'silent', 'fulfilment_unknown'],
      [4, 'planner', 'c0/0', 'open', 'outcome_unknown'],
      [5, 'planner', 'c0/0', 'blind', 'no_subgoals'],
    ]);
    expect(new Set(found.slice(0, 3).map((row) => row.reason))).toEqual(
      new Set(['validated', 'partially_validated', 'refuted']),
    );
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
      'e/b1': [progress([1, 1, 1, 1, 1]), null],
      'e/b2': [progress([1, 1, 1, 1, 1]), null],
      'e/c1': [progress([1, 1, 1, 0, 0]), null],
      'e/c2': [progress([1, 1, 1, 0, 1]), null],
      'e/d1': [0, null],
      'e/e1': [0, null],
    });
    await expectSameAgain('dover_verdict');
  });

  it('shares the blame by what repairing every coalition did, and says when one was not tried', async () => {
    const random = seeded(9);
    const coalitions = (names: readonly string[]) =>
      [...Array(2 ** names.length).keys()].map((bits) => names.filter((_, i) => (bits >> i) & 1));
    const repaired = (of: string, names: readonly string[], n: number) =>
      aRun(`${of} ${names.join('')} ${n}`, random.pick(['success', 'failure'] as const), {
        tags: replay(of, { kind: 'repair', repaired: [...names].reverse() }),
      });
    await base.load(
      aRun('run', 'failure'),
      coalitions(AGENTS).flatMap((names) =>
        names.length === 0 ? [] : [0, 1, 2].flatMap((n) => repaired('run', names, n)),
      ),
      aRun('half', 'failure'),
      repaired('half', ['coder'], 0),
      aRun('untried', 'failure'),
      aRun('crowd', 'failure', { says: Array.from({ length: 17 }, (_, n) => `agent ${n}`) }),
      aRun('nobody', 'failure', { says: [null] }),
    );
    await base.run(['shapley']);
    const stories = await storiesIn(base);
    const tried = stories.filter((s) => s.tags?.replay_of === 'run');
    const values: Record<string, number> = { '': 0 };
    for (const [key, own] of grouped(tried, (s) =>
      [...(s.tags!.intervention as { repaired: string[] }).repaired].sort().join('+'),
    ))
      values[key] = own.filter((s) => s.outcome === 'success').length / own.length;
    const { phi, blame } = answer<Record<'phi' | 'blame', Record<string, number>>>('shapley', {
      agents: AGENTS,
      values,
    });
    const found = (await blames('shapley')).filter((row) => row.episode_id === 'run');
    expect(Object.fromEntries(found.map((row) => [row.agent_id, row.value]))).toEqual(blame);
    expect(Object.fromEntries(found.map((row) => [row.agent_id, row.detail!.phi]))).toEqual(phi);
    expect(found.map((row) => row.value)).toEqual(found.map((row) => row.value!).toSorted((a, b) => b - a));
    expect((await short('shapley')).filter(([id, , , reason]) => id !== 'run' && reason !== 'is_a_replay')).toEqual([
      ['crowd', null, null, 'too_many_agents'],
      ['half', null, null, 'missing_coalitions'],
      ['nobody', null, null, 'no_agents'],
      ['untried', null, null, 'no_replays'],
    ]);
    await expectSameAgain('shapley');
  });

  it('turns dependencies around, as they were told or as steps were expanded from each other', async () => {
    const told = (value: unknown[]) => tell('told', { name: 'data_deps', kind: 'label', value });
    await base.load(
      aRun('told', 'failure'),
      [
        told([['c2/0', 'c0/0']]),
        told([
          ['c0/0', 'c1/1'],
          ['planner', 'tester'],
        ]),
        told(['no pair']),
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
    const edges = answer<[string, string][]>('invert_dependencies', {
      edges: [
        ['c0/0', 'c1/1'],
        ['planner', 'tester'],
      ],
    });
    const found = await blames('invert_dependencies');
    expect(found.filter((row) => row.episode_id === 'told').map(({ detail }) => [detail!.from, detail!.to])).toEqual(
      edges,
    );
    expect(found.map(({ episode_id, agent_id, step_id, reason }) => [episode_id, agent_id, step_id, reason])).toEqual([
      ['bare', null, null, 'no_dependencies'],
      ['told', 'planner', 'c0/0', null],
      ['told', 'planner', null, null],
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
    const truth = [
      ['coder', 3],
      ['planner', 1],
      ['tester', 'c2/0'],
    ] as const;
    const share = (...said: (readonly [string, number | string] | null)[]) =>
      answer<{ agent: number; step: number }>('who_when_accuracy', {
        cases: truth.map(([true_agent, true_step], i) => ({
          true_agent,
          true_step,
          pred_agent: said[i]?.[0] ?? null,
          pred_step: said[i]?.[1] ?? null,
        })),
      });
    const [one, two] = [share(['coder', 4], null, ['tester', 'c2/0']), share(null, ['planner', 1], null)];
    await expectSaid(base, 'scores', 'who_when_accuracy', { 's/one': [one.agent, null], 's/two': [two.agent, null] });
    const details = await base.rows<{ detail: object }>(
      `select detail from traj.scores where method = 'who_when_accuracy' order by key`,
    );
    expect(details.map(({ detail }) => detail)).toEqual([
      { ...one, cases: 3 },
      { ...two, cases: 3 },
    ]);
    await expectSameAgain('who_when_accuracy');
  });

  it('compares annotators’ failure modes with the truth and with each other, and counts how often each occurs', async () => {
    const random = seeded(3);
    const modes = ['FM-1.1', '1.3', 'FM-2.6', 'FM-3.3'];
    const ids = Array.from({ length: 9 }, (_, n) => `e${n}`);
    await base.load(
      ids.flatMap((id) => aRun(id, 'failure')),
      ids.slice(1).flatMap((id) =>
        ['human', 'one', 'two'].flatMap((who) =>
          modes.flatMap((name) =>
            random.chance(0.6)
              ? [
                  tell(id, {
                    kind: 'failure',
                    name,
                    by: who === 'human' ? who : 'model',
                    annotator: who,
                    value: random.chance(0.7),
                    target: { kind: 'agent', id: random.pick(AGENTS) },
                  }),
                ]
              : [],
          ),
        ),
      ),
      [tell('e1', { kind: 'failure', name: 'no code', by: 'human', target: { kind: 'agent', id: 'coder' } })],
    );
    await base.run(['attribution_f1', 'cohen_kappa', 'mast_distribution']);
    const stories = await storiesIn(base);
    const said = (story: Story, who: string) =>
      story.told.filter((one) => one.annotator === who || (who === 'human' && one.by === 'human'));
    const pairs = (story: Story, who: string) =>
      said(story, who)
        .filter((one) => one.value_json !== false)
        .map((one) => [one.target_id!, one.name.replace('FM-', '')]);
    const cases = (who: string) =>
      stories.flatMap((story) =>
        pairs(story, 'human').length === 0 ? [] : [{ gold: pairs(story, 'human'), pred: pairs(story, who) }],
      );
    const f1 = (who: string) => answer<{ pair: { micro: number } }>('attribution_f1', { cases: cases(who) }).pair.micro;
    await expectSaid(base, 'scores', 'attribution_f1', { 's/one': [f1('one'), null], 's/two': [f1('two'), null] });

    const label = (who: string) =>
      new Map(
        stories.flatMap((s) =>
          said(s, who).flatMap((one) =>
            one.annotator === who
              ? [[`${s.episode_id} ${one.target_id} ${one.name}`, one.value_json === true ? 1 : 0] as const]
              : [],
          ),
        ),
      );
    const kappa = (x: string, y: string) => {
      const [a, b] = [label(x), label(y)];
      const shared = [...a.keys()].filter((key) => b.has(key));
      return answer<number>('cohen_kappa', {
        a: shared.map((key) => a.get(key)!),
        b: shared.map((key) => b.get(key)!),
      });
    };
    await expectSaid(base, 'scores', 'cohen_kappa', {
      's/human~one': [kappa('human', 'one'), null],
      's/human~two': [kappa('human', 'two'), null],
      's/one~two': [kappa('one', 'two'), null],
    });

    const looked = stories.filter((s) => s.told.length > 0);
    const traces = looked.map((s) =>
      s.told.filter((one) => one.value_json !== false && one.name !== 'no code').map((one) => one.name),
    );
    const [{ detail, ...row }] = (await base.rows<{ detail: object }>(
      `select key, value, reason, detail from traj.scores where method = 'mast_distribution'`,
    )) as [{ detail: object }];
    expect(row).toEqual({ key: 's/modes', value: null, reason: 'see_detail' });
    expect(detail).toEqual({
      ...answer<object>('mast_distribution', { traces }),
      traces: looked.length,
      unlabelled: stories.length - looked.length,
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
    const near = answer<number>('agentracer_reward', {
      format_ok: true,
      pred_step: 4,
      true_step: 5,
      pred_agent: 'coder',
      true_agent: 'coder',
    });
    const none = [null, 'no_truth'] as const;
    await expectSaid(base, 'scores', 'agentracer_reward', {
      'e/near': [near, null],
      'e/bad': [0, 'bad_format'],
      'e/mute': [null, 'no_diagnosis'],
      'e/pairs': none,
      'e/prose': none,
      'e/untold': none,
      'e/mute too': none,
    });
    const gold = [
      ['s', 'FM-1.1'],
      ['v', 'FM-3.3'],
    ];
    const pred = [
      ['s', 'FM-1.1'],
      ['v', 'FM-2.3'],
      ['w', 'FM-2.1'],
    ];
    await expectSaid(base, 'scores', 'aegis_reward', {
      'e/pairs': [answer<number>('aegis_reward', { malformed: false, gold, pred, coef }), null],
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
