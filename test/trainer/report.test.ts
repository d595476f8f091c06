import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { smooth, ticksOf, trainingReport } from '../../trainer/learn/training-report.ts';

const curves = (steps: number) => ({
  loss: Array.from({ length: steps }, (_, i) => 3 / (1 + i / 10)),
  gradientNorm: Array.from({ length: steps }, (_, i) => 1 + Math.sin(i)),
  learningRate: Array.from({ length: steps }, () => 1e-4),
  metrics: { entropy: Array.from({ length: steps }, (_, i) => (i === 0 ? null : 2)) },
  heldOut: [
    { step: Math.ceil(steps / 2), loss: 2, metrics: { accuracy: 0.3 } },
    { step: steps, loss: 1.5, metrics: { accuracy: 0.5 } },
  ],
});

describe('the report of a run', () => {
  it('is one SVG of its own with a panel for each curve that has a number, the same bytes each time', () => {
    const input = { title: 'sft · a <model> & "more"', curves: curves(60), tokensPerSecond: [null, 100, 120] };
    const svg = trainingReport(input);
    expect(trainingReport(structuredClone(input))).toBe(svg);
    expect(svg.startsWith('<svg xmlns="http://www.w3.org/2000/svg"')).toBe(true);
    for (const title of ['Loss', 'Gradient norm', 'Learning rate', 'Entropy, nats', 'Tokens a second', 'held-out']) {
      expect(svg).toContain(`>${title}</text>`);
    }
    expect(svg).not.toContain('Divergence');
    expect(svg).toContain('a &lt;model&gt; &amp; &quot;more&quot;');
    expect(svg).toContain('prefers-color-scheme: dark');
    expect(svg).not.toMatch(/https?:\/\/(?!www\.w3\.org\/2000\/svg)|NaN|Infinity|undefined/);
  });

  it('is sound for a run of any length and any numbers, and stays small', () => {
    const value = fc.double({ noNaN: true, min: -1e6, max: 1e6 });
    fc.assert(
      fc.property(fc.array(value, { minLength: 1, maxLength: 40 }), (loss) => {
        const flat = { loss, gradientNorm: loss, learningRate: loss.map(() => 0), metrics: {}, heldOut: [] };
        expect(trainingReport({ title: 't', curves: flat })).not.toMatch(/NaN|Infinity|undefined/);
      }),
    );
    expect(trainingReport({ title: 't', curves: curves(100_000) }).length).toBeLessThan(60_000);
    const empty = { loss: [], gradientNorm: [], learningRate: [], metrics: {}, heldOut: [] };
    expect(trainingReport({ title: 't', curves: empty })).toContain('</svg>');
  });

  it('ticks enclose the values and are few', () => {
    fc.assert(
      fc.property(
        fc.double({ noNaN: true, min: -1e9, max: 1e9 }),
        fc.double({ noNaN: true, min: 1e-6, max: 1e9 }),
        (low, span) => {
          const high = low + span;
          const ticks = ticksOf(low, high);
          expect(ticks[0]).toBeLessThanOrEqual(low + 1e-6 * (span + Math.abs(low)));
          expect(ticks.at(-1)).toBeGreaterThanOrEqual(high - 1e-6 * (span + Math.abs(high)));
          expect(ticks.length).toBeGreaterThan(1);
          expect(ticks.length).toBeLessThan(9);
        },
      ),
    );
  });

  it('smoothing keeps a constant and begins at the first value', () => {
    expect(
      smooth([
        [1, 5],
        [2, 5],
        [3, 5],
      ]).map(([, value]) => value),
    ).toEqual([5, 5, 5].map((x) => expect.closeTo(x, 9)));
    expect(
      smooth([
        [1, 2],
        [2, 9],
      ])[0]![1],
    ).toBeCloseTo(2, 9);
  });
});
