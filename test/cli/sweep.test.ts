import { expect, it } from 'vitest';
import { sweepSvg, sweepText } from '../../api/operations/rollout/sweep-plot.ts';
import { sweepSummary } from '../../api/operations/rollout/text.ts';
import { table } from '../../cli/output.ts';
import { combinations, type SweepPoint } from '../../trainer/loop/play/sweep.ts';

it('Every combination of the values comes once', () => {
  expect(combinations({ agents: [1, 2], style: ['short', 'long'] })).toEqual([
    { agents: 1, style: 'short' },
    { agents: 1, style: 'long' },
    { agents: 2, style: 'short' },
    { agents: 2, style: 'long' },
  ]);
  expect(combinations({})).toEqual([{}]);
});

const point = (agents: number, reward: number | null, tokens: number | null): SweepPoint => ({
  rollout_id: `sweep.${agents}`,
  params: { agents },
  episodes: 8,
  tasks: 4,
  left_out: 0,
  without_reward: reward === null ? 8 : 0,
  reward,
  interval: reward === null ? null : { low: reward - 0.1, high: reward + 0.1 },
  tokens,
});

it('The plot places more reward higher and more tokens to the right', () => {
  const lines = sweepText([point(1, 0.25, 100), point(2, 0.75, 400)])!.split('\n');
  const row = (mark: string) => lines.findIndex((line) => line.includes(`|`) && line.split('|')[1]!.includes(mark));
  expect(row('b')).toBeLessThan(row('a'));
  expect(lines[row('b')]!.indexOf('b')).toBeGreaterThan(lines[row('a')]!.indexOf('a'));
});

it('The plot says what a star is where settings share a place', () => {
  expect(sweepText([point(1, 0.25, 100), point(2, 0.25, 100)])).toContain('* several settings');
  expect(sweepText([point(1, 0.25, 100), point(2, 0.75, 400)])).not.toContain('*');
});

it('A combination without a reward or tokens is in the table as unknown, and not in the plot', () => {
  const points = [point(1, 0.25, 100), point(2, null, 400), point(4, 0.5, null)];
  expect(sweepText(points)).toBeNull();
  const text = sweepSummary(points, { table });
  expect(text).toMatch(/a +agents=1 +8 +0\.25 +0\.15 to 0\.35 +100 +0 +sweep\.1/);
  expect(text).toMatch(/b +agents=2 +8 +\S* +\S* +400 +8 +sweep\.2/);
  const svg = sweepSvg(points);
  expect(svg.match(/<circle/g)).toHaveLength(1);
  expect(svg).toContain('agents=1');
  expect(svg).not.toContain('agents=2');
});

it('The tasks that are left out are listed below the table', () => {
  const points = [point(1, 0.25, 100), point(2, 0.5, 400)];
  expect(sweepSummary(points, { table })).not.toContain('Left out');
  expect(
    sweepSummary(
      points.map((one) => ({ ...one, left_out: 2 })),
      { table },
    ),
  ).toContain('Left out under every setting: 2 of 6');
});

it('Names in the SVG are escaped', () => {
  const svg = sweepSvg([{ ...point(1, 0.5, 1), params: { style: '<b>&' } }, point(2, 0.5, 1)]);
  expect(svg).toContain('style=&lt;b&gt;&amp;');
  expect(svg).not.toContain('NaN');
});
