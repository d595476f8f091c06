/** Reward against tokens of each combination of a sweep: as characters for a terminal, and as SVG. Both are pure. */
import type { Settings, SweepPoint } from '../../../trainer/loop/play/sweep.ts';

type PlotPoint = SweepPoint & { readonly reward: number; readonly tokens: number };

const WIDTH = 60;
const HEIGHT = 14;

/** Combinations that have both numbers; the others are in the table only. */
const placed = (points: readonly SweepPoint[]): PlotPoint[] =>
  points.filter((point): point is PlotPoint => point.reward !== null && point.tokens !== null);

/** A setting such as `agents=2 max_tokens=512`. */
export const settingsText = (params: Settings): string =>
  Object.entries(params)
    .map(([name, value]) => `${name}=${value}`)
    .join(' ');

const rangeOf = (values: readonly number[]): readonly [number, number] => {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  return least === most ? [least - 0.5, most + 0.5] : [least, most];
};
const shown = (value: number): string => String(Number(value.toPrecision(3)));
const mark = (i: number): string => (i < 26 ? String.fromCharCode(97 + i) : '*');

/** Letters stand for the combinations in the order of the table; null where fewer than two have both numbers. */
export function sweepText(points: readonly SweepPoint[]): string | null {
  const marked = points.map((point, i) => ({ point, mark: mark(i) }));
  const found = marked.filter(({ point }) => placed([point]).length > 0);
  if (found.length < 2) return null;
  const [low, high] = rangeOf(found.map(({ point }) => point.reward!));
  const [few, many] = rangeOf(found.map(({ point }) => point.tokens!));
  const grid = Array.from({ length: HEIGHT }, () => Array<string>(WIDTH).fill(' '));
  for (const { point, mark } of found) {
    const row = HEIGHT - 1 - Math.round(((point.reward! - low) / (high - low)) * (HEIGHT - 1));
    const column = Math.round(((point.tokens! - few) / (many - few)) * (WIDTH - 1));
    grid[row]![column] = grid[row]![column] === ' ' ? mark : '*';
  }
  const label = (row: number) => (row === 0 ? shown(high) : row === HEIGHT - 1 ? shown(low) : '').padStart(8);
  const isShared = grid.some((cells) => cells.includes('*'));
  return [
    'mean reward',
    ...grid.map((cells, row) => `${label(row)} |${cells.join('').trimEnd()}`),
    `${' '.repeat(9)}+${'-'.repeat(WIDTH)}`,
    `${' '.repeat(10)}${shown(few)}${shown(many).padStart(WIDTH - shown(few).length)} tokens of an episode`,
    ...(isShared ? ['* several settings, or one beyond z'] : []),
  ].join('\n');
}

const escaped = (text: string): string =>
  text.replace(/[&<>"]/g, (sign) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[sign]!);

/** The same as an SVG document, with the intervals of the rewards. */
export function sweepSvg(points: readonly SweepPoint[]): string {
  const found = placed(points);
  const ends = found.flatMap(({ reward, interval }) => [interval?.low ?? reward, interval?.high ?? reward]);
  const [low, high] = rangeOf(ends.length === 0 ? [0, 1] : ends);
  const [few, many] = rangeOf(found.length === 0 ? [0, 1] : found.map(({ tokens }) => tokens));
  const x = (tokens: number) => 70 + ((tokens - few) / (many - few)) * 480;
  const y = (reward: number) => 340 - ((reward - low) / (high - low)) * 300;
  const at = (value: number) => value.toFixed(1);
  const text = (left: number, top: number, words: string, anchor = 'start') =>
    `<text x="${at(left)}" y="${at(top)}" text-anchor="${anchor}">${escaped(words)}</text>`;
  return [
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 400" font-family="sans-serif" font-size="12">',
    '<rect width="720" height="400" fill="white"/>',
    '<path d="M70 40V340H550" fill="none" stroke="black"/>',
    text(64, 44, shown(high), 'end'),
    text(64, 344, shown(low), 'end'),
    text(70, 360, shown(few)),
    text(550, 360, shown(many), 'end'),
    text(310, 385, 'tokens of an episode', 'middle'),
    text(70, 28, 'mean reward'),
    ...found.flatMap(({ params, reward, tokens, interval }) => [
      ...(interval === null
        ? []
        : [`<path d="M${at(x(tokens))} ${at(y(interval.low))}V${at(y(interval.high))}" stroke="gray"/>`]),
      `<circle cx="${at(x(tokens))}" cy="${at(y(reward))}" r="4" fill="#1f77b4"/>`,
      text(x(tokens) + 7, y(reward) + 4, settingsText(params)),
    ]),
    '</svg>',
    '',
  ].join('\n');
}
