/** A box for one SQL query over the views, its rows as a table, and a plot where the rows are numbers over a first column. */
import { ask, beginning, make, notice, numbers, tableOf } from './elements.js';
import { lines } from './plots.js';

export const ROLLOUTS =
  "select job_id as rollout, state, outcome, result -> 'attempts' as attempts, requested_at, finished_at - started_at as took from traj.jobs where kind = 'rollout' order by requested_at desc limit 100";
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
    'Tokens and time',
    'select coalesce(checkpoint_id, response_model, model) as weights, count(*) as calls, sum(input_tokens) as input_tokens, sum(output_tokens) as output_tokens, percentile_cont(0.5) within group (order by latency_ms) as median_ms, percentile_cont(0.95) within group (order by latency_ms) as p95_ms from traj.steps where candidate = 0 group by 1 order by 2 desc',
  ],
  [
    'Credits',
    'select method, count(*) as steps, avg(value) as mean, stddev(value) as deviation from traj.credits group by 1 order by 1',
  ],
  ['Rollouts', ROLLOUTS],
  ['Releases', 'select * from traj.releases order by released_at desc nulls last limit 20'],
  [
    'Views',
    "select c.relnamespace::regnamespace || '.' || c.relname as view, obj_description(c.oid) as about from pg_catalog.pg_class c where c.relnamespace::regnamespace::text in ('traj', 'report') and c.relkind = 'v' order by c.relnamespace::regnamespace::text desc, 1",
  ],
];
const ROWS = 500;
/** Of the rows together, and the characters of a cell that are shown. */
const BYTES = 4 * 1024 * 1024;
const CELL = 2000;

export async function sql(signal, query) {
  const result = make('div', { 'aria-live': 'polite' });
  const box = make('textarea', { name: 'sql', rows: 6, spellcheck: 'false', 'aria-label': 'SQL query' });
  box.value = query.get('q') ?? EXAMPLES[0][1];
  let running = null;
  const read = async () => {
    // The server ends a query whose client has gone.
    running?.abort();
    running = new AbortController();
    result.replaceChildren(make('p', { class: 'quiet' }, 'Running …'));
    try {
      const until = AbortSignal.any([signal, running.signal]);
      const answer = await ask('/v1/sql', until, { sql: box.value, limit: ROWS, max_bytes: BYTES });
      result.replaceChildren(...shown(answer));
    } catch (error) {
      if (error.name !== 'AbortError')
        result.replaceChildren(make('div', { class: 'notice error', role: 'alert' }, error.message));
    }
  };
  /** The query is in the address: it can be reloaded, kept and passed on. */
  const run = () => {
    history.pushState(null, '', `#/sql?${new URLSearchParams({ q: box.value })}`);
    return read();
  };
  const submit = (event) => {
    event.preventDefault();
    return run();
  };
  box.addEventListener('keydown', (event) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) submit(event);
  });
  if (query.get('q')) read();
  const examples = EXAMPLES.map(([name, text]) =>
    make(
      'button',
      {
        type: 'button',
        onclick: () => {
          box.value = text;
          return run();
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
        make('span', { class: 'quiet' }, '(Ctrl+Enter), or '),
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
  return lines({
    about: `${series.map(({ label }) => label).join(', ')} over ${columns[0].name}`,
    series,
    xs,
    along: columns[0].name,
  });
}

const text = (value) =>
  value === null ? '–' : beginning(typeof value === 'object' ? JSON.stringify(value) : String(value), CELL);
