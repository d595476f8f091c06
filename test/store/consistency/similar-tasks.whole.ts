/** Costs are compared in processor time, over enough tasks to tell a cost that grows from one that does not. */
import { describe, expect, it } from 'vitest';
import { similarTasks } from '../../../store/evaluate/consistency/similar-tasks.ts';
import { aText } from './texts.ts';

describe('The cost of a task', () => {
  /** Of three runs the cheapest: a collection of the heap of other tests would fall into one. */
  const cost = (count: number, text: (i: number) => string) =>
    Array.from({ length: 3 }, () => costOnce(count, text)).reduce((a, b) => (b.perTask < a.perTask ? b : a));
  const costOnce = (count: number, text: (i: number) => string) => {
    const tasks = Array.from({ length: count }, (_, i) => ({ id: `t${i}`, text: text(i) }));
    const start = process.cpuUsage();
    const placed = similarTasks(tasks);
    const { user, system } = process.cpuUsage(start);
    return { perTask: (user + system) / count, found: new Set([...placed.values()].map((one) => one.cluster)).size };
  };
  const preamble = 'Read the question with care, think step by step, and put the final answer into a box. ';

  it.each([
    ['all equal', (_: number): string => preamble, 1],
    ['all nearly equal, in one bucket', (i: number): string => preamble.repeat(3) + i, 1],
    ['short, of one preamble and not near', (i: number): string => preamble + aText(i, 12).join(' '), null],
  ] as const)('does not grow with their number where they are %s', (_, text, clusters) => {
    const small = cost(500, text);
    const large = cost(4000, text);
    if (clusters !== null) expect([small.found, large.found]).toEqual([clusters, clusters]);
    else expect(large.found).toBeGreaterThan(3900);
    // A quadratic one would be 8 times as dear.
    expect(large.perTask / small.perTask).toBeLessThan(3);
  });
});
