import { describe, expect, it } from 'vitest';
import type { AttemptErrorCode, AttemptRow } from '../../../store/loop/play/attempts.ts';
import { episodeId, groupId } from '../../../store/loop/play/ids.ts';
import { checkedRolloutId, groupsOf, readTasks, rolloutSpec, seedOf } from '../../../store/loop/play/rollout.ts';
import { nextAttempts, tally } from '../../../trainer/loop/play/plan.ts';

const spec = { tasks: [{ task_id: 'a' }, { task_id: 'b' }], samples: 2 };
const row = (
  task: number,
  sample: number,
  attempt: number,
  how: 'done' | 'waiting' | AttemptErrorCode,
): AttemptRow => ({
  id: episodeId(groupId('r', spec.tasks[task]!.task_id, task), sample, attempt),
  spec: { rollout: 'r', task, sample, attempt },
  state: how === 'waiting' ? 'waiting' : 'finished',
  outcome: how === 'waiting' ? null : how === 'done' ? 'done' : 'failed',
  result: null,
  error: how === 'waiting' || how === 'done' ? null : { code: how, message: `it was ${how}` },
  startedAt: null,
});
const ids = (rows: readonly AttemptRow[], retries = 1) => nextAttempts('r', spec, rows, retries).map(({ id }) => id);

describe('the next attempts', () => {
  it('begin with every sample, task after task', () => {
    expect(ids([])).toEqual(['r/a/0', 'r/a/1', 'r/b/0', 'r/b/1']);
  });

  it('follow a failure as often as the runner says, under an id of their own', () => {
    const others = [row(0, 1, 0, 'done'), row(1, 0, 0, 'waiting'), row(1, 1, 0, 'done')];
    expect(ids([row(0, 0, 0, 'exit'), ...others])).toEqual(['r/a/0/a1']);
    expect(ids([row(0, 0, 0, 'exit'), row(0, 0, 1, 'timeout'), ...others])).toEqual([]);
    expect(ids([row(0, 0, 0, 'exit'), ...others], 0)).toEqual([]);
  });

  it('do not count what the end of our own process broke off', () => {
    const others = [row(0, 1, 0, 'done'), row(1, 0, 0, 'done'), row(1, 1, 0, 'done')];
    const tried = [row(0, 0, 0, 'stopped'), row(0, 0, 1, 'exit'), row(0, 0, 2, 'stopped')];
    expect(ids([...tried, ...others])).toEqual(['r/a/0/a3']);
  });
});

it('a rollout adds up to complete groups, and to partial ones with what their missing samples failed at', () => {
  const rows = [
    row(0, 0, 0, 'exit'),
    row(0, 0, 1, 'done'),
    row(0, 1, 0, 'done'),
    row(1, 0, 0, 'done'),
    row(1, 1, 0, 'exit'),
    row(1, 1, 1, 'timeout'),
  ];
  expect(tally('r', spec, rows)).toEqual({
    episodes: ['r/a/0/a1', 'r/a/1'],
    groups: { complete: 1, partial: 1 },
    partial: [
      {
        group_id: 'r/b',
        task_id: 'b',
        done: 1,
        of: 2,
        why: [{ code: 'timeout', message: 'it was timeout', samples: 1 }],
      },
    ],
    attempts: { done: 3, failed: 3, late: 0, retried: 2 },
  });
});

describe('ids and tasks', () => {
  it('no two attempts have one id, whatever the tasks are called', () => {
    const named = ['a', 'a/0', 'a/0/a1', 'a/1'].flatMap((task) =>
      [0, 1].flatMap((sample) => [0, 1].map((attempt) => episodeId(groupId('r', task, 0), sample, attempt))),
    );
    expect(new Set(named).size).toBe(16);
  });

  it('of a rollout that is part of a run are short, and those of another rollout are others', () => {
    const rollouts = ['run-1/1/1/rollout', 'run-1/1/2/rollout', 'run-1/1/gate/candidate', 'run-2/1/1/rollout'];
    const groups = rollouts.flatMap((rollout) => groupsOf(rollout, spec).map(({ group_id }) => group_id));
    expect(new Set(groups).size).toBe(8);
    for (const id of groups) expect(id).toMatch(/^_[0-9a-z]{1,12}\/[01]$/);
    expect(groupsOf(rollouts[0]!, spec).map(({ group_id }) => group_id)).toEqual(groups.slice(0, 2));
  });

  it('tasks are read line by line, and one without an id gets the same one each time', () => {
    const text = '{"task_id":"a","prompt":"1+1?","answer":2}\n\n{"prompt":"2+2?"}\n';
    const tasks = readTasks(text, 'tasks.jsonl');
    expect(tasks[0]).toEqual({ task_id: 'a', prompt: '1+1?', answer: 2 });
    expect(tasks[1]!.task_id).toMatch(/^task-[0-9a-f]{32}$/);
    expect(readTasks(text, 'other.jsonl')).toEqual(tasks);
  });

  it.each([
    ['{"task_id":"a"}\nnonsense', /Line 2 of t should be a JSON object, but it is "nonsense"/],
    ['{"task_id":7}', /Line 1 of t: task_id should be a text of 1 to 512 bytes, but it is 7/],
    ['{"task_id":"a"}\n\n{"task_id":"a"}', /The task "a" stands twice in t, in lines 1 and 3; each task_id should/],
    ['{"prompt":"x"}\n{"prompt":"x"}', /Line 2 of t is the same task as line 1, and neither has a task_id/],
    ['\n', /t holds no tasks/],
  ])('%j is refused', (text, sentence) => {
    expect(() => readTasks(text, 't')).toThrow(sentence);
  });

  it('a task that stands twice, an id that is too long and a rollout with a slash are refused', () => {
    const with_ = (...task_ids: string[]) => ({
      runner: 'x',
      samples: 1,
      tasks: task_ids.map((task_id) => ({ task_id })),
    });
    expect(() => rolloutSpec('r', with_('a', 'b', 'a'))).toThrow(/The task "a" stands twice/);
    expect(() => rolloutSpec('r', with_('x'.repeat(500)))).toThrow(/too long/);
    expect(() => rolloutSpec('r', { ...with_('a'), smaples: 2 })).toThrow(/does not fit/);
    expect(() => checkedRolloutId('a/b')).toThrow(/but it is "a\/b"/);
  });

  it('each sample has a seed of 31 bits of its own, the same each time', () => {
    const seeds = [0, 1, 2].flatMap((seed) => ['a', 'b'].flatMap((task) => [0, 1].map((n) => seedOf(seed, task, n))));
    expect(new Set(seeds).size).toBe(12);
    for (const seed of seeds) expect(seed).toBeLessThan(2 ** 31);
    expect(seedOf(1, 'a', 1)).toBe(seedOf(1, 'a', 1));
  });
});
