/** Plots as SVG: lines and points over steps, entries by agent, and intervals around zero. Each has a sentence for those who cannot see it; a missing number is a gap, not 0. */
import { cut, draw, make, room } from './elements.js';

const [WIDE, LEFT, RIGHT, TOP, BOTTOM] = [760, 64, 12, 12, 44];
/** Pixels of a character of the labels, and those that a label of an axis takes with its distance to the next. */
const [CHARACTER, LABEL] = [7, 84];

/**
 * Axes with their labels.
 * @param xs    places on the horizontal axis, ascending
 * @param along what the horizontal axis counts
 * @param range of the vertical axis; that of `values` if left out
 * @param names labels of the places, in place of their numbers
 * @returns the drawing, and the functions from numbers to its units
 */
function axes({ xs, along, values, range, names, format = short, about, width, height }) {
  const [least, most] = range ?? rangeOf(values);
  const levels = ticks(least, most, 5);
  const [low, high] = range ?? [levels[0], levels.at(-1)];
  const x = (place) =>
    LEFT + ((place - xs[0]) * (width - LEFT - RIGHT)) / Math.max(xs.at(-1) - xs[0], Number.MIN_VALUE);
  const y = (value) => TOP + (1 - (value - low) / (high - low)) * (height - TOP - BOTTOM);
  const svg = draw('svg', { class: 'curve', viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': about });
  for (const value of levels)
    svg.append(
      draw('line', {
        class: value === 0 && low < 0 ? 'zero' : 'grid',
        x1: LEFT,
        x2: width - RIGHT,
        y1: y(value),
        y2: y(value),
      }),
      draw('text', { x: LEFT - 6, y: y(value) + 4, 'text-anchor': 'end' }, format(value)),
    );
  const room = (width - LEFT - RIGHT) / (LABEL + (names ? LABEL / 2 : 0));
  const every = Math.ceil(xs.length / room);
  const places = names
    ? xs.filter((_, i) => i % every === 0)
    : ticks(xs[0], xs.at(-1), room).filter((place) => place >= xs[0] && place <= xs.at(-1) && Number.isInteger(place));
  for (const place of places) {
    const anchor = x(place) < LEFT + LABEL / 2 && names ? 'start' : x(place) > width - LABEL / 2 ? 'end' : 'middle';
    svg.append(
      draw('line', { class: 'grid', x1: x(place), x2: x(place), y1: height - BOTTOM, y2: height - BOTTOM + 4 }),
      draw(
        'text',
        { x: x(place), y: height - BOTTOM + 17, 'text-anchor': anchor },
        names?.[xs.indexOf(place)] ?? short(place),
      ),
    );
  }
  svg.append(draw('text', { x: (LEFT + width - RIGHT) / 2, y: height - 8, 'text-anchor': 'middle' }, along));
  return { svg, x, y, format };
}

/**
 * Lines in one plot.
 * @param series list of `{ label, values }`, with a value for each of `xs`: null is a gap, undefined a place that the line passes by
 * @param links  where a click on the point at each of `xs` leads, if anywhere
 * The other parameters are those of {@link axes}.
 */
export function lines({ series, xs, names, links = [], width = WIDE, height = 300, ...others }) {
  const values = series.flatMap((one) => one.values);
  const { svg, x, y, format } = axes({ xs, names, values, width: room(width), height, ...others });
  for (const [k, { label, values }] of series.entries()) {
    let pen = 'M';
    const path = values.map((value, i) => {
      if (value === null) pen = 'M';
      const part = value == null ? '' : `${pen}${x(xs[i]).toFixed(1)} ${y(value).toFixed(1)}`;
      if (value != null) pen = 'L';
      return part;
    });
    svg.append(draw('path', { class: `series s${k} d${k}`, d: path.join('') }));
    // Marks of many points would hide the line.
    if (xs.length > 60) continue;
    for (const [i, value] of values.entries()) {
      if (value == null) continue;
      const title = draw('title', {}, `${label}, ${names?.[i] ?? xs[i]}: ${format(value)}`);
      const mark = draw('circle', { class: `mark s${k}`, cx: x(xs[i]), cy: y(value), r: 4 }, title);
      svg.append(links[i] === undefined ? mark : draw('a', { href: links[i] }, mark));
    }
  }
  const key = (k) => draw('path', { class: `series s${k} d${k}`, d: 'M0 7L36 7' });
  return make('figure', { class: 'scroll' }, legend(series, key), svg);
}

/** Points in one plot: `series` is a list of `{ label, points }`, a point is `{ x, y, title }`. The other parameters are those of {@link axes}. */
export function dots({ series, width = WIDE, height = 220, ...others }) {
  const values = series.flatMap(({ points }) => points.map((point) => point.y));
  const { svg, x, y } = axes({ values, width: room(width), height, ...others });
  for (const [k, { points }] of series.entries())
    for (const point of points)
      svg.append(
        draw('circle', { class: `mark s${k}`, cx: x(point.x), cy: y(point.y), r: 4 }, draw('title', {}, point.title)),
      );
  return make(
    'figure',
    { class: 'scroll' },
    legend(series, (k) => draw('circle', { class: `mark s${k}`, cx: 18, cy: 7, r: 5 })),
    svg,
  );
}

const legend = (series, key) =>
  make(
    'ul',
    { class: 'legend' },
    series.map(({ label }, k) =>
      make('li', {}, draw('svg', { viewBox: '0 0 36 14', 'aria-hidden': 'true' }, key(k)), label),
    ),
  );

/** The range of the numbers, with room where all are equal. */
function rangeOf(values) {
  const known = values.filter((value) => value != null);
  const [low, high] = known.reduce(([a, b], value) => [Math.min(a, value), Math.max(b, value)], [Infinity, -Infinity]);
  return low < high ? [low, high] : [low - 1, high + 1];
}

/** Round numbers, some `about` of them, the first at or below `low` and the last at or above `high`. */
function ticks(low, high, about) {
  if (!(high > low)) return [low];
  const rough = (high - low) / Math.max(1, about);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999);
  const [from, to] = [Math.floor(low / step + 1e-9), Math.ceil(high / step - 1e-9)];
  return Array.from({ length: to - from + 1 }, (_, i) => Number(((from + i) * step).toPrecision(12)));
}

const short = (value) =>
  Math.abs(value) >= 1000
    ? value.toLocaleString('en', { maximumFractionDigits: 2 })
    : String(Number(value.toPrecision(4)));

const LANE = 22;

/**
 * Marks in lanes: what each agent did, one after another.
 * @param lanes names, from above
 * @param marks `{ x, lane, look, title, href }`: its place from 0, the number of its lane, and a class
 * @param along what the horizontal axis counts
 */
export function lanes({ lanes, marks, along, about }) {
  const width = room(1120);
  const names = Math.min(160, width * 0.3);
  const bottom = TOP + lanes.length * LANE;
  const end = marks.reduce((most, { x }) => Math.max(most, x), 0) + 1;
  const unit = (width - names - RIGHT) / end;
  const svg = draw('svg', {
    class: 'curve lanes',
    viewBox: `0 0 ${width} ${bottom + 36}`,
    role: 'group',
    'aria-label': about,
  });
  for (const [i, name] of lanes.entries()) {
    const y = TOP + (i + 0.5) * LANE;
    svg.append(
      draw('line', { class: 'grid', x1: names, x2: width - RIGHT, y1: y, y2: y }),
      draw(
        'text',
        { x: names - 8, y: y + 4, 'text-anchor': 'end' },
        cut(name, Math.floor(names / CHARACTER)),
        draw('title', {}, name),
      ),
    );
  }
  for (const { x, lane, look, title, href } of marks) {
    const size = Math.max(2, Math.min(14, unit * 0.8));
    const box = { x: names + (x + 0.5) * unit - size / 2, y: TOP + (lane + 0.5) * LANE - 7, width: size, height: 14 };
    // The list below has the same entries for the keyboard.
    svg.append(
      draw(
        'a',
        { href, tabindex: -1, 'aria-hidden': 'true' },
        draw('rect', { class: look, ...box }, draw('title', {}, title)),
      ),
    );
  }
  for (const place of ticks(0, end, (width - names) / LABEL).filter((place) => place < end && Number.isInteger(place)))
    svg.append(
      draw('text', { x: names + (place + 0.5) * unit, y: bottom + 14, 'text-anchor': 'middle' }, String(place)),
    );
  svg.append(draw('text', { x: (names + width) / 2, y: bottom + 32, 'text-anchor': 'middle' }, along));
  return make('figure', { class: 'scroll' }, svg);
}

const ROW = 30;

/**
 * Differences with their intervals, one below the other, and a line at zero.
 * @param rows `{ label, low, high, value, limit, look, note }`; `limit` is what it must stay above, or null; `look` is `pass`, `fail` or `open`
 * @param along what the horizontal axis measures
 */
export function intervals(rows, about, along) {
  const shown = rows.filter(({ low, high }) => low !== null && high !== null);
  if (shown.length === 0) return null;
  const widest = Math.max(
    ...shown.flatMap(({ low, high, limit }) => [Math.abs(low), Math.abs(high), Math.abs(limit ?? 0)]),
  );
  const width = room(WIDE);
  const [names, end] = [Math.min(190, width * 0.34), width - 30];
  const middle = (names + end) / 2;
  const x = (value) => middle + (value / (widest || 1)) * ((end - names) / 2);
  const bottom = TOP + shown.length * ROW;
  const svg = draw('svg', { class: 'curve', viewBox: `0 0 ${width} ${bottom + 42}`, role: 'img', 'aria-label': about });
  for (const value of ticks(-(widest || 1), widest || 1, (end - names) / LABEL).filter(
    (value) => Math.abs(value) <= (widest || 1),
  ))
    svg.append(
      draw('line', { class: value === 0 ? 'zero' : 'grid', x1: x(value), x2: x(value), y1: TOP, y2: bottom }),
      draw('text', { x: x(value), y: bottom + 16, 'text-anchor': 'middle' }, `${value > 0 ? '+' : ''}${short(value)}`),
    );
  svg.append(
    draw('text', { x: names, y: bottom + 34, 'text-anchor': 'start' }, '← worse'),
    // On a telephone there is no room for it; the sentence above the plot has it too.
    end - names < (along.length + 20) * CHARACTER
      ? ''
      : draw('text', { x: middle, y: bottom + 34, 'text-anchor': 'middle' }, along),
    draw('text', { x: end, y: bottom + 34, 'text-anchor': 'end' }, 'better →'),
  );
  for (const [i, { label, low, high, value, limit, look, note }] of shown.entries()) {
    const y = TOP + (i + 0.5) * ROW;
    const title = () => draw('title', {}, note);
    svg.append(
      draw(
        'text',
        { x: 4, y: y + 4, 'text-anchor': 'start' },
        cut(label, Math.floor(names / CHARACTER)),
        draw('title', {}, label),
      ),
      ...(limit === null ? [] : [draw('line', { class: 'limit', x1: x(limit), x2: x(limit), y1: y - 10, y2: y + 10 })]),
      draw('line', { class: `interval ${look}`, x1: x(low), x2: x(high), y1: y, y2: y }, title()),
      draw('circle', { class: `interval ${look}`, cx: x(value), cy: y, r: 5 }, title()),
    );
  }
  return make('figure', { class: 'scroll' }, svg);
}
