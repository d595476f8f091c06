/** A box for one SQL query over the views, its rows as a table, and a plot where the rows are numbers over a first column. */
import { ask, beginning, make, notice, numbers, tableOf } from './elements.js';
import { lines } from './plots.js';

const EXAMPLES = [
  [
    'Outcomes',
    "select coalesce(outcome, 'open') as outcome, count(*) as episodes, avg(reward) as reward from traj.episodes group by 1 order by 2 desc",
  ],
  [
    'Roles',
    'select role, count(*) as steps, count(*) filter (where trainable) as trainable, avg(cardinality(token_ids)) as tokens from traj.steps group by 1 order by 2 desc',
  ],
  [
    'Credits',
    'select method, count(*) as steps, avg(value) as mean, stddev(value) as deviation from traj.credits group by 1 order by 1',
  ],
  ['Releases', 'select * from traj.releases order by released_at desc nulls last limit 20'],
  [
    'Views',
    "select c.relname as view, obj_description(c.oid) as about from pg_catalog.pg_class c where c.relnamespace = 'traj'::regnamespace and c.relkind = 'v' order by 1",
  ],
];
const ROWS = 500;
/** Of the rows together, and the characters of a cell that are shown. */
const BYTES = 4 * 1024 * 1024;
const CELL = 2000;

export async function sql(_signal, query) {
  const result = make('div', { 'aria-live': 'polite' });
  const box = make('textarea', { name: 'sql', rows: 6, spellcheck: 'false', 'aria-label': 'SQL query' });
  box.value = query.get('q') ?? EXAMPLES[0][1];
  const read = async () => {
    result.replaceChildren(make('p', { class: 'quiet' }, 'Running …'));
    try {
      const answer = await ask('/v1/sql', undefined, { sql: box.value, limit: ROWS, max_bytes: BYTES });
      result.replaceChildren(...shown(answer));
    } catch (error) {
      result.replaceChildren(make('div', { class: 'notice error', role: 'alert' }, error.message));
    }
  };
  const submit = (event) => {
    event.preventDefault();
    return read();
  };
  const examples = EXAMPLES.map(([name, text]) =>
    make(
      'button',
      {
        type: 'button',
        onclick: () => {
          box.value = text;
          return read();
        },
      },
      name,
    ),
  );
  return [
    make('h2', {}, 'SQL'),
    make(
      'form',
      { class: 'sql', onsubmit: submit },
      box,
      make(
        'p',
        { class: 'buttons' },
        make('button', { type: 'submit' }, 'Run'),
        make('span', { class: 'quiet' }, ' or '),
        examples,
      ),
    ),
    result,
  ];
}

const NUMBER = /int|numeric|double|real|float|decimal/;

function shown({ columns, rows, truncated }) {
  if (rows.length === 0) return [notice('The query returned no rows.')];
  const head = columns.map(({ name, type }) => (NUMBER.test(type) ? numbers(name) : name));
  const table = tableOf({ label: 'Rows', head, rows: rows.map((row) => row.map(text)) });
  return [
    truncated ? notice(`Only the first ${rows.length} rows are shown.`) : null,
    plotOf(columns, rows),
    table,
  ].filter(Boolean);
}

/** Numbers over a first column of ascending numbers. */
function plotOf(columns, rows) {
  const xs = rows.map(([first]) => first);
  const isAxis = xs.length > 1 && xs.every((x, i) => typeof x === 'number' && (i === 0 || x > xs[i - 1]));
  const series = columns
    .map(({ name, type }, i) => ({ label: name, type, values: rows.map((row) => row[i]) }))
    .slice(1)
    .filter(
      ({ type, values }) =>
        NUMBER.test(type) &&
        values.every((value) => value === null || typeof value === 'number') &&
        values.some((value) => value !== null),
    )
    .slice(0, 6);
  if (!isAxis || series.length === 0) return null;
  return lines({ about: `${series.map(({ label }) => label).join(', ')} over ${columns[0].name}`, series, xs });
}

const text = (value) =>
  value === null ? '–' : beginning(typeof value === 'object' ? JSON.stringify(value) : String(value), CELL);
