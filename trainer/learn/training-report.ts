/**
 * What a run looked like, as one SVG that stands alone: a panel for each curve, readable on light and dark ground, the same bytes for the
 * same numbers. No library: lines, ticks and text are all there is.
 */
import type { Curves } from './run-state.ts';

export type ReportInput = {
  readonly title: string;
  readonly curves: Curves;
  /** Of each step; null where it was not measured. */
  readonly tokensPerSecond?: readonly (number | null)[];
};

type Point = readonly [step: number, value: number];
type CurveLine = {
  readonly name: string;
  readonly kind: 'raw' | 'smooth' | 'held-out';
  readonly points: readonly Point[];
};
type Panel = { readonly title: string; readonly lines: readonly CurveLine[] };

const WIDTH = 420;
const HEIGHT = 240;
const MARGIN = { left: 62, right: 14, top: 34, bottom: 34 } as const;
const COLUMNS = 2;
const TITLE_HEIGHT = 44;
/** More points than pixels are not seen, and a file of a long run should stay small. */
const MOST_POINTS = 400;

const STYLE = `
  .ground { fill: #ffffff } text { fill: #1f2328; font: 12px system-ui, sans-serif } .title { font-weight: 600; font-size: 13px }
  .tick { fill: #59636e; font-size: 11px } .axis { stroke: #d1d9e0 } .raw { stroke: #8fb8ee; stroke-width: 1 }
  .smooth { stroke: #0b57d0; stroke-width: 2 } .held-out { stroke: #bc4c00; stroke-width: 2; stroke-dasharray: 5 3 } polyline { fill: none }
  @media (prefers-color-scheme: dark) { .ground { fill: #0d1117 } text { fill: #e6edf3 } .tick { fill: #9198a1 } .axis { stroke: #3d444d }
    .raw { stroke: #2f5a95 } .smooth { stroke: #79b8ff } .held-out { stroke: #ffa657 } }`;

/** The report of a run; a curve without a number gets no panel. */
export function trainingReport({ title, curves, tokensPerSecond = [] }: ReportInput): string {
  const panels = panelsOf(curves, tokensPerSecond);
  const rows = Math.max(1, Math.ceil(panels.length / COLUMNS));
  const [width, height] = [WIDTH * COLUMNS, TITLE_HEIGHT + rows * HEIGHT];
  const steps = curves.loss.length;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-label="${escaped(title)}">`,
    `<title>${escaped(title)}</title><style>${STYLE}\n</style><rect class="ground" width="${width}" height="${height}"/>`,
    `<text class="title" x="16" y="27">${escaped(title)} · ${steps} ${steps === 1 ? 'step' : 'steps'}</text>`,
    ...panels.map((panel, i) =>
      drawn(panel, (i % COLUMNS) * WIDTH, TITLE_HEIGHT + Math.floor(i / COLUMNS) * HEIGHT, steps),
    ),
    '</svg>\n',
  ].join('\n');
}

function panelsOf(curves: Curves, tokensPerSecond: readonly (number | null)[]): Panel[] {
  const named = Object.keys(curves.metrics).sort();
  const heldOut = (name: string): CurveLine => ({
    name: 'held-out',
    kind: 'held-out',
    points: curves.heldOut.flatMap(({ step, loss, metrics }): Point[] => {
      const value = name === 'loss' ? loss : metrics[name];
      return value === undefined ? [] : [[step, value]];
    }),
  });
  const panels: Panel[] = [
    { title: 'Loss', lines: [...trained(curves.loss), heldOut('loss')] },
    { title: 'Gradient norm', lines: trained(curves.gradientNorm) },
    { title: 'Learning rate', lines: trained(curves.learningRate, false) },
    ...named.map((name) => ({ title: titleOf(name), lines: [...trained(curves.metrics[name] ?? []), heldOut(name)] })),
    { title: 'Tokens a second', lines: trained(tokensPerSecond) },
  ];
  return panels
    .map(({ title, lines }) => ({ title, lines: lines.filter(({ points }) => points.length > 0) }))
    .filter(({ lines }) => lines.length > 0);
}

const TITLES: Readonly<Record<string, string>> = {
  accuracy: 'Accuracy',
  clip_share: 'Share of tokens clipped',
  entropy: 'Entropy, nats',
  kl: 'Divergence to the reference, nats',
  ratio: 'Ratio to the policy that sampled',
  reward_margin: 'Reward margin',
};
const titleOf = (name: string): string => TITLES[name] ?? name.replaceAll('_', ' ');

/** The values as they are and, where they would hide the trend, smoothed. */
function trained(values: readonly (number | null)[], smoothed = true): CurveLine[] {
  const points = values.flatMap((value, i): Point[] =>
    value === null || !Number.isFinite(value) ? [] : [[i + 1, value]],
  );
  if (!smoothed || points.length < 8) return [{ name: 'train', kind: 'smooth', points: thinned(points) }];
  return [
    { name: 'train', kind: 'raw', points: thinned(points) },
    { name: 'smoothed', kind: 'smooth', points: thinned(smooth(points)) },
  ];
}

/** Exponential mean over about a 25th of the run and no less than 5 steps, begun without a bias to 0. */
export function smooth(points: readonly Point[]): Point[] {
  const keep = 1 - 1 / Math.max(5, points.length / 25);
  let mean = 0;
  let weight = 0;
  return points.map(([step, value]) => {
    mean = keep * mean + (1 - keep) * value;
    weight = keep * weight + (1 - keep);
    return [step, mean / weight];
  });
}

/** Every k-th point, and the last. */
function thinned(points: readonly Point[]): readonly Point[] {
  const every = Math.ceil(points.length / MOST_POINTS);
  return every <= 1 ? points : points.filter((_, i) => i % every === 0 || i === points.length - 1);
}

function drawn({ title, lines }: Panel, left: number, top: number, steps: number): string {
  const values = lines.flatMap(({ points }) => points.map(([, value]) => value));
  const ticks = ticksOf(Math.min(...values), Math.max(...values));
  const [low, high] = [ticks[0]!, ticks.at(-1)!];
  const [inner, tall] = [WIDTH - MARGIN.left - MARGIN.right, HEIGHT - MARGIN.top - MARGIN.bottom];
  const x = (step: number) => MARGIN.left + (steps <= 1 ? inner / 2 : ((step - 1) / (steps - 1)) * inner);
  const y = (value: number) => MARGIN.top + tall - ((value - low) / (high - low)) * tall;
  const grid = ticks.map((tick) => {
    const at = short(y(tick));
    return `<line class="axis" x1="${MARGIN.left}" x2="${WIDTH - MARGIN.right}" y1="${at}" y2="${at}"/><text class="tick" text-anchor="end" x="${MARGIN.left - 6}" y="${short(y(tick) + 4)}">${label(tick)}</text>`;
  });
  const below = [...new Set(steps <= 1 ? [1] : [1, Math.round((1 + steps) / 2), steps])].map(
    (step) =>
      `<text class="tick" text-anchor="middle" x="${short(x(step))}" y="${HEIGHT - MARGIN.bottom + 16}">${step}</text>`,
  );
  const legend = lines.length > 1 ? lines.map((line, i) => legendOf(line, lines, i)) : [];
  const curves = lines.map(({ kind, points }) =>
    points.length === 1
      ? `<circle class="${kind}" cx="${short(x(points[0]![0]))}" cy="${short(y(points[0]![1]))}" r="2.5" fill="none"/>`
      : `<polyline class="${kind}" points="${points.map(([step, value]) => `${short(x(step))},${short(y(value))}`).join(' ')}"/>`,
  );
  const text = `<text class="title" x="16" y="16">${escaped(title)}</text><text class="tick" text-anchor="end" x="${WIDTH - MARGIN.right}" y="${HEIGHT - 4}">step</text>`;
  return `<g transform="translate(${left} ${top})">${[text, ...legend, ...grid, ...below, ...curves].join('')}</g>`;
}

function legendOf({ name, kind }: CurveLine, lines: readonly CurveLine[], index: number): string {
  const at = WIDTH - MARGIN.right - (lines.length - index) * 86;
  return `<line class="${kind}" x1="${at}" x2="${at + 18}" y1="12" y2="12"/><text class="tick" x="${at + 22}" y="16">${escaped(name)}</text>`;
}

/** Round numbers that enclose the values, about five of them. */
export function ticksOf(low: number, high: number): number[] {
  // Numbers that differ only in their last digits are drawn as equal: ticks between them could not be distinguished.
  const equal = high - low <= 1e-9 * Math.max(Math.abs(low), Math.abs(high), 1e-3);
  const span = equal ? Math.max(Math.abs(high), 1e-3) : high - low;
  const rough = span / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 2.5, 5, 10].find((factor) => factor * power >= rough) ?? 10);
  const first = Math.floor(low / step);
  const last = Math.max(first + 1, Math.ceil(high / step));
  return Array.from({ length: last - first + 1 }, (_, i) => (first + i) * step);
}

const short = (value: number): string => String(Number(value.toFixed(1)));

function label(value: number): string {
  if (value === 0) return '0';
  const size = Math.abs(value);
  return size >= 1e5 || size < 1e-4 ? value.toExponential(1).replace('e+', 'e') : String(Number(value.toPrecision(4)));
}

const ENTITIES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };
const escaped = (text: string): string =>
  text.replaceAll(/[&<>"]/g, (one) => ENTITIES[one]!).replaceAll(/\p{Cc}/gu, ' ');
