/** Feedback that steps, agents and episodes got by name chooses rows: in filters, in recipes and in weights. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freeze } from '../../store/datasets/freeze.ts';
import { openDataset } from '../../store/datasets/read.ts';
import { filterText } from '../../store/filter/filter-text.ts';
import { parseFilter } from '../../store/filter/select.ts';
import { type JudgedDatabase, judgedDatabase } from './judging/support/judged.ts';
import { at, event } from './support/events.ts';

type Target = { readonly kind: 'step' | 'agent' | 'episode'; readonly id: string };

describe('feedback by its name', () => {
  let base: JudgedDatabase;
  let folder: string;
  let clock = 100;
  const says = (episode_id: string, target: Target, name: string, value: unknown) =>
    event(
      'feedback.recorded',
      { feedback_id: `f${clock}`, target: { ...target, episode_id }, kind: 'reward', name, value } as never,
      { time: at(clock++) },
    );
  const call = (episode_id: string, id: string, agent_id: string, n: number) => [
    event(
      'generation.requested',
      { episode_id, call_id: id, agent_id, input: [{ role: 'user', content: `${id}?` }] },
      { time: at(n) },
    ),
    event(
      'generation.completed',
      { episode_id, call_id: id, choices: [{ index: 0, content: `said ${id}` }] },
      { time: at(n) },
    ),
  ];
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'feedback-'));
    base = await judgedDatabase();
    const episode = (id: string, from: number) => [
      event('episode.started', { episode_id: id }, { time: at(from) }),
      ...call(id, `${id}-1`, 'router', from + 1),
      ...call(id, `${id}-2`, 'worker', from + 2),
      event('episode.finished', { episode_id: id, outcome: 'success' }, { time: at(from + 3) }),
    ];
    await base.load([
      ...episode('a', 0),
      ...episode('b', 10),
      // On step a-1 the last word counts; it is a truth value.
      says('a', { kind: 'step', id: 'a-1/0' }, 'local', 0),
      says('a', { kind: 'step', id: 'a-1/0' }, 'local', true),
      says('a', { kind: 'step', id: 'a-2/0' }, 'local', 0.5),
      says('b', { kind: 'step', id: 'b-1/0' }, 'local', 2),
      says('b', { kind: 'step', id: 'b-1/0' }, 'local', 'a text, which is no number'),
      says('a', { kind: 'agent', id: 'worker' }, 'effort', 3),
      says('b', { kind: 'episode', id: 'b' }, 'tests that pass', 7),
    ]);
  });
  afterAll(async () => {
    await base.close();
    await rm(folder, { recursive: true, force: true });
  });
  let homes = 0;
  const frozen = async (recipe: object) => {
    const options = { directory: join(folder, `${homes++}`), codeVersion: 'test', allowEmpty: true };
    const { directory, warnings } = await freeze(base.db, { name: 'f', ...recipe }, options);
    return { rows: [...(await openDataset(directory)).rows()], warnings };
  };
  const stepsOf = async (where: string) => (await frozen({ where })).rows.map(({ step_id }) => step_id);

  it('chooses the steps that have it, and none of another name, of another target or without a number', async () => {
    expect(await stepsOf('feedback(local) >= 1')).toEqual(['a-1/0', 'b-1/0']);
    expect(await stepsOf('feedback(local) < 1')).toEqual(['a-2/0']);
    expect(await stepsOf('feedback(local) is null')).toEqual(['b-2/0']);
  });

  it('of an agent chooses the steps of that agent, and of an episode all its steps', async () => {
    expect(await stepsOf('agent.feedback(effort) = 3')).toEqual(['a-2/0']);
    expect(await stepsOf("episode.feedback('tests that pass') > 5")).toEqual(['b-1/0', 'b-2/0']);
  });

  it('weighs rows', async () => {
    const weight = [
      { where: 'feedback(local) >= 1', weight: 4 },
      { where: 'agent.feedback(effort) > 1', weight: 2 },
    ];
    const { rows } = await frozen({ weight });
    expect(rows.map(({ step_id, weight }) => [step_id, weight])).toEqual([
      ['a-1/0', 4],
      ['a-2/0', 2],
      ['b-1/0', 4],
      ['b-2/0', 1],
    ]);
  });

  it('that nothing has is said, with where it is recorded or the nearest name', async () => {
    const warned = async (where: string) =>
      (await frozen({ where })).warnings.filter((one) => one.includes('feedback'));
    expect(await warned('feedback(locl) >= 1')).toEqual([
      'Nothing has feedback(locl): no step has feedback "locl" that is a number. Did you mean local?',
    ]);
    expect(await warned('feedback(effort) >= 1')).toEqual([
      'Nothing has feedback(effort): no step has feedback "effort" that is a number. It is recorded on the agent.',
    ]);
    expect(await warned('feedback(local) >= 1')).toEqual([]);
  });

  it('is no reward of a method: a name that no method has is refused, with what reads feedback', async () => {
    await expect(frozen({ where: 'reward(local) >= 1' })).rejects.toThrow(
      /there is no method named "local".*feedback\(local\)/,
    );
    await expect(frozen({ weight: [{ where: 'reward(local) >= 1', weight: 2 }] })).rejects.toThrow(/no method named/);
  });

  it('has one spelling, which is read again as it was', () => {
    for (const [written, spelt] of [
      ['feedback("local") >= 1', 'feedback(local) >= 1'],
      ['episode.feedback( "tests that pass" ) > 5', "episode.feedback('tests that pass') > 5"],
    ] as const) {
      const filter = parseFilter(written);
      expect(filterText(filter)).toBe(spelt);
      expect(parseFilter(spelt)).toEqual(filter);
      expect(parseFilter(JSON.parse(JSON.stringify(filter)))).toEqual(filter);
    }
  });
});
