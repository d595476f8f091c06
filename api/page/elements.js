/** Elements of the page, and what asks the server. Data comes from agents and models, so it is only ever set as text, never parsed as HTML. */

export const status = document.querySelector('#status');
const main = document.querySelector('#main');
const SVG = 'http://www.w3.org/2000/svg';

/** An element with attributes and children; text children stay text. `on…` attributes are listeners. */
export function make(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}
export function draw(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}
function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? '' : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return element;
}

/** JSON of this server, of a POST where `body` is given; an error has the text of the problem document. */
export async function ask(path, signal, body) {
  const sent = body && { method: 'POST', body: JSON.stringify(body) };
  const headers = { accept: 'application/json', ...(body && { 'content-type': 'application/json' }) };
  let response;
  try {
    response = await fetch(path, { signal, headers, ...sent });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Error('The server does not respond. Is `troupe up` running?');
  }
  const answer = await response.json().catch(() => ({}));
  if (response.ok) return answer;
  throw new Error(
    [answer.detail ?? `The server responded with ${response.status}.`, answer.hint].filter(Boolean).join(' '),
  );
}

/** The first characters of a text, at most so many and none of them half. */
const start = (text, most) => text.slice(0, most).replace(/[\ud800-\udbff]$/, '');

/** Text of at most so many characters; one that is cut ends with "…". */
export const cut = (text, most) => (text.length <= most ? text : `${start(text, most - 1)}…`);

/** Text of at most so many characters, with the number of those that are left out: a browser takes seconds to lay out a line of 20 MB. */
export const beginning = (text, most) =>
  text.length <= most ? text : `${start(text, most)} … (${text.length - most} more characters)`;

/** Pixels that the page has for a drawing, at most so many: drawn as wide as it is shown, its text is as large as other text. */
export const room = (most) => Math.min(most, (main.clientWidth || most + PADDING) - PADDING);
/** Left and right of the page's content together. */
const PADDING = 40;

export const count = (value) =>
  value === null || value === undefined ? '–' : typeof value === 'number' ? value.toLocaleString('en') : String(value);
/** A number with its unit, as "1 call" and "2 calls"; "–" where the number is unknown. */
export const counted = (value, unit) => `${count(value)} ${unit}${value === 1 ? '' : 's'}`;
export const percent = (share) => (share === null || share === undefined ? '–' : `${(100 * share).toFixed(1)} %`);
/** Three decimals, and three digits of a number that they would cut. */
export const decimal = (value) => {
  if (Number.isInteger(value)) return String(value);
  return Math.abs(value) < 0.1 ? String(Number(value.toPrecision(3))) : value.toFixed(3);
};
export function when(time) {
  const date = time ? new Date(time) : null;
  if (!date || Number.isNaN(date.getTime())) return make('span', { class: 'quiet' }, 'unknown');
  return make('time', { datetime: time, title: time }, date.toLocaleString());
}
export const episodeLink = (id) => make('a', { href: `#/episodes/${encodeURIComponent(id)}` }, id);
export const notice = (...children) => make('p', { class: 'notice' }, ...children);

/** A column of numbers, for the head of a table. */
export const numbers = (label) => ({ label, numbers: true });

/**
 * A table in a region that scrolls. The first cell of a row is its head.
 * @param head names of the columns, or `numbers(name)`
 * @param rows a list of texts or elements for each
 */
export function tableOf({ label, caption, head, rows, body = make('tbody') }) {
  const columns = head.map((column) => (typeof column === 'string' ? { label: column, numbers: false } : column));
  body.append(...rows.map((cells) => rowOf(head, cells)));
  const names = columns.map((column) => make('th', { scope: 'col', class: column.numbers && 'number' }, column.label));
  return make(
    'div',
    { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': label },
    make('table', {}, caption ? make('caption', {}, caption) : null, make('thead', {}, make('tr', {}, names)), body),
  );
}

const rowOf = (head, cells) =>
  make(
    'tr',
    {},
    cells.map((cell, i) =>
      i === 0 ? make('th', { scope: 'row' }, cell) : make('td', { class: head[i]?.numbers && 'number' }, cell),
    ),
  );

/** Reads the next page when it is pressed; `read` shows it and returns what comes after, null at the end. */
export function moreButton(first, read) {
  let next = first;
  const press = async () => {
    button.disabled = true;
    try {
      next = await read(next);
      button.hidden = next === null;
    } catch (error) {
      if (error.name !== 'AbortError') status.textContent = error.message;
    } finally {
      button.disabled = false;
    }
  };
  const button = make('button', { type: 'button', hidden: first === null, onclick: press }, 'Show more');
  return button;
}
/**
 * A list of the server as a table that grows page by page.
 * @param first the first page, `{ items, next }`
 * @param page  reads the page after a place
 * @param row   the cells of an item
 */
export function pagedTable({ first, page, label, head, row }) {
  const body = make('tbody');
  const table = tableOf({ label, head, rows: first.items.map(row), body });
  const more = moreButton(first.next, async (after) => {
    const { items, next } = await page(after);
    const rows = items.map((item) => rowOf(head, row(item)));
    body.append(...rows);
    rows[0]?.querySelector('a')?.focus();
    status.textContent = `${body.childElementCount} rows shown`;
    return next;
  });
  return [table, more];
}
