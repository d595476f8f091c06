/** Plots as SVG: lines over steps, and intervals around zero. Each has a sentence for those who cannot see it; a missing number is a gap, not 0. */
import { cut, draw, make } from './elements.js';

const [WIDE, LEFT, RIGHT, TOP, BOTTOM] = [760, 64, 12, 12, 34];

/**
 * Lines in one plot.
 * @param series `{ label, values }`, a value for each of `xs` or null
 * @param xs     places on the horizontal axis, ascending
 * @param about  what it shows, in a sentence
 * @param range  of the vertical axis; that of the values if left out
 * @param names  labels of the places, in place of their numbers
 * @param width  and height of the drawing, whose text has 12 units
 */
export function lines({ series, xs, about, range, format = short, names, width = WIDE, height = 300 }) {
  const [low, high] = range ?? rangeOf(series.flatMap(({ values }) => values));
  const x = (place) =>
    LEFT + ((place - xs[0]) * (width - LEFT - RIGHT)) / Math.max(xs.at(-1) - xs[0], Number.MIN_VALUE);
  const y = (value) => TOP + (1 - (value - low) / (high - low)) * (height - TOP - BOTTOM);
  const svg = draw('svg', { class: 'curve', viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': about });
  for (const part of [0, 0.25, 0.5, 0.75, 1]) {
    const value = low + part * (high - low);
    svg.append(
      draw('line', { class: 'grid', x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value) }),
      draw('text', { x: LEFT - 6, y: y(value) + 4, 'text-anchor': 'end' }, format(value)),
    );
  }
  const every = Math.ceil((xs.length * 84) / width);
  for (const [i, place] of xs.entries()) {
    if (i % every !== 0) continue;
    const anchor = i === 0 ? 'start' : i === xs.length - 1 ? 'end' : 'middle';
    svg.append(draw('text', { x: x(place), y: height - 12, 'text-anchor': anchor }, names?.[i] ?? String(place)));
  }
  for (const [k, { label, values }] of series.entries()) {
    let pen = 'M';
    const path = values.map((value, i) => {
      if (value === null) pen = 'M';
      const part = value === null ? '' : `${pen}${x(xs[i]).toFixed(1)} ${y(value).toFixed(1)}`;
      if (value !== null) pen = 'L';
      return part;
    });
    svg.append(draw('path', { class: `series s${k} d${k}`, d: path.join('') }));
    // Marks of many points would hide the line.
    if (xs.length > 60) continue;
    for (const [i, value] of values.entries()) {
      if (value === null) continue;
      const title = draw('title', {}, `${label}, ${names?.[i] ?? xs[i]}: ${format(value)}`);
      svg.append(draw('circle', { class: `mark s${k}`, cx: x(xs[i]), cy: y(value), r: 4 }, title));
    }
  }
  return make('figure', { class: 'scroll' }, svg, legend(series));
}

const legend = (series) =>
  make(
    'ul',
    { class: 'legend' },
    series.map(({ label }, k) =>
      make(
        'li',
        {},
        draw(
          'svg',
          { viewBox: '0 0 36 14', 'aria-hidden': 'true' },
          draw('path', { class: `series s${k} d${k}`, d: 'M0 7L36 7', fill: 'none', 'stroke-width': 2.5 }),
        ),
        label,
      ),
    ),
  );

/** The range of the numbers, with room where all are equal. */
function rangeOf(values) {
  const known = values.filter((value) => value !== null);
  const [low, high] = [Math.min(...known), Math.max(...known)];
  return low < high ? [low, high] : [low - 1, high + 1];
}

const short = (value) => (value === 0 ? '0' : String(Number(value.toPrecision(3))));

const ROW = 30;

/**
 * Differences with their intervals, one below the other, and a line at zero.
 * @param rows `{ label, low, high, value, limit, look, note }`; `limit` is what it must stay above, `look` is `pass` or `fail`
 */
export function intervals(rows, about) {
  const shown = rows.filter(({ low, high }) => low !== null && high !== null);
  if (shown.length === 0) return null;
  const widest = Math.max(...shown.flatMap(({ low, high, limit }) => [Math.abs(low), Math.abs(high), Math.abs(limit)]));
  const [names, end] = [190, WIDE - 20];
  const middle = (names + end) / 2;
  const x = (value) => middle + (value / (widest || 1)) * ((end - names) / 2);
  const bottom = TOP + shown.length * ROW;
  const svg = draw(
    'svg',
    { class: 'curve', viewBox: `0 0 ${WIDE} ${bottom + 26}`, role: 'img', 'aria-label': about },
    draw('line', { class: 'zero', x1: x(0), x2: x(0), y1: TOP, y2: bottom }),
    draw('text', { x: x(0), y: bottom + 18, 'text-anchor': 'middle' }, '0'),
    draw('text', { x: x(-widest), y: bottom + 18, 'text-anchor': 'start' }, `${short(-widest)} worse`),
    draw('text', { x: x(widest), y: bottom + 18, 'text-anchor': 'end' }, `better +${short(widest)}`),
  );
  for (const [i, { label, low, high, value, limit, look, note }] of shown.entries()) {
    const y = TOP + (i + 0.5) * ROW;
    const title = draw('title', {}, note);
    svg.append(
      draw('text', { x: 4, y: y + 4, 'text-anchor': 'start' }, cut(label, 26)),
      draw('line', { class: 'limit', x1: x(limit), x2: x(limit), y1: y - 10, y2: y + 10 }),
      draw('line', { class: `interval ${look}`, x1: x(low), x2: x(high), y1: y, y2: y }, title),
      draw('circle', { class: `interval ${look}`, cx: x(value), cy: y, r: 5 }, title.cloneNode?.(true)),
    );
  }
  return make('figure', { class: 'scroll' }, svg);
}
