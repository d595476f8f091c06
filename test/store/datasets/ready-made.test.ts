/** The recipes that come with Troupe for which no published log has rows: episodes are recorded and judged, and the rows counted by hand. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseMethods } from '../../../cli/methods-asked.ts';
import type { Event } from '../../../ingest/events.ts';
import { freeze } from '../../../store/datasets/freeze.ts';
import { openDataset } from '../../../store/datasets/read.ts';
import { readyRecipe } from '../../../store/datasets/ready.ts';
import { readRecipe } from '../../../store/datasets/recipe.ts';
import { type Call, type Play, played } from '../judging/support/episodes.ts';
import { type JudgedDatabase, judgedDatabase } from '../judging/support/judged.ts';
import { aTask } from '../judging/support/stories.ts';
import { anExecution, at, event } from '../support/events.ts';

describe('a recipe without rows in published logs', () => {
  let folder: string;
  let base: JudgedDatabase;
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'ready-made-'));
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  /** Records the episodes, judges them as the recipe says, freezes it in two homes, and gives its rows in order. */
  async function rowsOf(name: string, ...plays: readonly Event[][]) {
    base = await judgedDatabase();
    try {
      await base.load(...plays);
      const { text, judge } = readyRecipe(name);
      if (judge !== null) await base.run(parseMethods(judge));
      const frozenIn = (home: string) =>
        freeze(base.db, readRecipe(text), { directory: join(folder, name, home), codeVersion: 'test' });
      const [one, two] = [await frozenIn('one'), await frozenIn('two')];
      expect(two.manifest).toEqual(one.manifest);
      expect(one.warnings).toEqual([]);
      const opened = await openDataset(one.directory);
      return opened.splits.flatMap((split) => [...opened.rows(split)]);
    } finally {
      await base.close();
    }
  }
  const idsOf = (rows: readonly Readonly<Record<string, unknown>>[]) =>
    rows.map(({ episode_id, step_id }) => `${episode_id} ${step_id}`).sort();
  const says = (role: string, content: string, turn?: number): Call => ({
    role,
    agent: role,
    turn,
    choices: [{ content }],
  });

  const traces = () => {
    const calls = [
      says('critic', '<think>x</think> [Agree]', 0),
      says('solver', '<think>so</think> it is \\boxed{42}'),
    ];
    const task = (id: string, tags: object) => aTask(id, { ground_truth: '42', tags: { ...tags } });
    const trace = (id: string, of: string, play: Partial<Play> = {}) =>
      played(id, { task: of, answer: '42', calls, ...play });
    return [
      [
        task('long', { interdisciplinary: true, answer_tokens: 1025 }),
        task('short', { interdisciplinary: true, answer_tokens: 1024 }),
      ],
      trace('kept', 'long'),
      trace('again', 'long'),
      trace('brief', 'short'),
      trace('wrong', 'long', { answer: '41' }),
      trace('blocked', 'long', { calls: [says('critic', '<think>x</think> no', 0), calls[1]!] }),
      trace('unformed', 'long', { calls: [calls[0]!, says('solver', 'it is 42')] }),
    ];
  };

  it('m500 takes whole traces that pass all four filters', async () => {
    const rows = await rowsOf('m500', ...traces());
    expect(rows.map(({ episode_id }) => episode_id).sort()).toEqual(['again', 'kept']);
  });

  it('m1-32b takes the steps of those traces, all of a problem together', async () => {
    const rows = await rowsOf('m1-32b', ...traces());
    expect(rows.map(({ episode_id, role }) => `${episode_id} ${role}`)).toEqual([
      'again critic',
      'again solver',
      'kept critic',
      'kept solver',
    ]);
  });

  it('browsemaster takes the programs of the executor that call tools without an error, of solved episodes', async () => {
    const tool = (episode: string, call: string, status: 'ok' | 'error') => [
      event(
        'tool.called',
        { episode_id: episode, tool_call_id: `${call}-t`, call_id: call, name: 'search' },
        { time: at(2) },
      ),
      event(
        'tool.returned',
        { episode_id: episode, tool_call_id: `${call}-t`, call_id: call, status },
        { time: at(3) },
      ),
    ];
    const search = (id: string, reward: number) =>
      played(id, {
        reward,
        calls: [
          says('planner', 'Find it.'),
          says('executor', 'search()'),
          says('executor', 'find()'),
          says('executor', 'It is 4.'),
        ],
      });
    const rows = await rowsOf(
      'browsemaster',
      [
        ...search('solved', 1),
        ...tool('solved', 'c0', 'ok'),
        ...tool('solved', 'c1', 'ok'),
        ...tool('solved', 'c2', 'error'),
      ],
      [...search('failed', 0), ...tool('failed', 'c1', 'ok')],
    );
    expect(idsOf(rows)).toEqual(['solved c1/0']);
  });

  it('cure-coder takes programs with their reward, and leaves out those that all score the same', async () => {
    const same = [
      ...anExecution('same').filter(({ name }) => name !== 'feedback.recorded'),
      event('feedback.recorded', {
        feedback_id: 'same-matrix',
        target: { kind: 'episode', episode_id: 'same' },
        kind: 'execution',
        name: 'tests',
        matrix: {
          programs: ['same-coder/0', 'same-coder/1'].map((step_id) => ({ step_id, valid: true })),
          tests: [{ name: 'hidden', ground_truth: true }],
          pass: [[1], [1]],
        },
      }),
    ];
    const rows = await rowsOf('cure-coder', anExecution('x'), same);
    // One of two programs passes the true test: 1 and 0 have the mean ½ and the deviation ½.
    expect(rows.map(({ step_id, reward }) => [step_id, reward])).toEqual([
      ['x-coder/0', 1],
      ['x-coder/1', -1],
    ]);
  });

  it('cure-tester takes tests with their reward', async () => {
    const rows = await rowsOf('cure-tester', anExecution('x'));
    // The right program passes the first test alone, the wrong one the second alone: signs + and −, both in full, as z-scores.
    expect(rows.map(({ step_id, reward }) => [step_id, reward])).toEqual([
      ['x-verifier/0', 1],
      ['x-verifier/1', -1],
    ]);
  });

  it('masprm takes the nodes of undecided trees with their targets', async () => {
    const node = (parent?: string, correct?: boolean): Call => ({
      choices: [{ content: 'x', parent, says: correct === undefined ? {} : { correct } }],
    });
    const rows = await rowsOf(
      'masprm',
      played('tree', {
        calls: [node(), node('c0/0', true), node('c0/0', false), node('c0/0', true), node('gone/0', true)],
      }),
      played('sure', { calls: [node(), node('c0/0', true)] }),
    );
    // Three leaves under the root, right, wrong and right: q is ⅓ at the root; atanh q = ½ ln((1 + q) / (1 − q)), q held to ±0.95.
    const most = Math.log(39) / 2;
    const targets = Object.fromEntries(rows.map(({ step_id, advantage }) => [step_id, Number(advantage).toFixed(12)]));
    const wanted = { 'c0/0': Math.LN2 / 2, 'c1/0': most, 'c2/0': -most, 'c3/0': most };
    expect(targets).toEqual(Object.fromEntries(Object.entries(wanted).map(([id, value]) => [id, value.toFixed(12)])));
  });

  it('star-agents takes the sample of the widest gap, where the referee prefers it', async () => {
    const sample = (group: string, id: string, small: number, large: number, referee: string) =>
      played(id, { group, calls: [says('writer', id)], says: { ifd_small: small, ifd_large: large, referee } });
    const rows = await rowsOf(
      'star-agents',
      sample('a', 'wide', 0.9, 0.4, 'generated'),
      sample('a', 'narrow', 0.8, 0.7, 'generated'),
      sample('b', 'tied', 0.9, 0.4, 'tie'),
      sample('b', 'second', 0.7, 0.5, 'generated'),
    );
    expect(idsOf(rows)).toEqual(['wide c0/0']);
  });

  it('apigen-mt takes the answers of runs that reach the true state and say what was asked', async () => {
    const run = (id: string, state: Record<string, unknown>, answer: string) => [
      ...played(id, { task: 'order', answer, calls: [says('assistant', 'Sending.'), says('assistant', 'Done.')] }),
      event('environment.observed', { episode_id: id, kind: 'state', seq: 9, state }, { time: at(10) }),
    ];
    const rows = await rowsOf(
      'apigen-mt',
      [aTask('order', { reference: { state: { order: 'sent' }, outputs: ['54.04'] } })],
      run('right', { order: 'sent' }, '54.04'),
      run('other', { order: 'kept' }, '54.04'),
      run('silent', { order: 'sent' }, 'unknown'),
    );
    expect(idsOf(rows)).toEqual(['right c0/0', 'right c1/0']);
  });
});
