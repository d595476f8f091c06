/** Two checkpoints, models or teams on the tasks that both tried: the difference with its interval, pass@k, and what it cost. */
import { ask, counted, decimal, make, notice, numbers, percent, tableOf } from './elements.js';
import { intervals } from './plots.js';

const SIDES = ['first', 'second'];

export async function compare(signal, query) {
  const chosen = Object.fromEntries(SIDES.map((side) => [side, query.get(side)?.trim() ?? '']));
  const { items } = await ask('/v1/checkpoints?limit=200&all=true', signal);
  const top = [make('h2', {}, 'Compare'), form(chosen, items)];
  if (!chosen.first || !chosen.second)
    return [
      top,
      notice(
        'Name two checkpoints, models or teams that played the same tasks. Differences are second minus first. ',
        make('a', { href: `#/sql?${new URLSearchParams({ q: PLAYED })}` }, 'What has been played, by weights'),
      ),
    ];
  try {
    return [top, comparison(await ask(`/v1/compare?${new URLSearchParams(chosen)}`, signal))];
  } catch (error) {
    // A name that nothing has stays in its box, to be mended.
    if (error.name === 'AbortError') throw error;
    return [top, make('div', { class: 'notice error', role: 'alert' }, error.message)];
  }
}

const PLAYED =
  'select coalesce(checkpoint_id, model) as weights, count(distinct episode_id) as episodes from traj.steps group by 1 order by 2 desc';

function form(chosen, checkpoints) {
  const fields = SIDES.map((name) =>
    make('label', {}, `${name} `, make('input', { name, value: chosen[name], size: 32, list: 'checkpoints' })),
  );
  const submit = (event) => {
    event.preventDefault();
    location.hash = `#/compare?${new URLSearchParams(new FormData(event.target))}`;
  };
  return make(
    'form',
    { onsubmit: submit, 'aria-label': 'Compare' },
    fields,
    make(
      'datalist',
      { id: 'checkpoints' },
      checkpoints.map(({ checkpoint_id, policy }) => make('option', { value: checkpoint_id, label: policy })),
    ),
    make('button', { type: 'submit' }, 'Compare'),
  );
}

const nameOf = ({ kind, id, name }) => `${kind} ${id}${name === null ? '' : ` (${name})`}`;
const points = (value) => `${value > 0 ? '+' : ''}${(100 * value).toFixed(1)}`;
const measured = ({ measure }) => (measure === 'episodes' ? 'episodes solved' : 'right candidates');

const LOOK_OF = { better: 'pass', worse: 'fail' };

function comparison({ first, second, mixed, level, measures, roles, without_outcome, families, pass_at_k: passes }) {
  const all = [
    ...measures.map((one) => ['all tasks', one]),
    ...roles.map((one) => [`role ${one.role}`, one]),
    ...families.map((one) => [one.family === null ? 'no domain' : `domain ${one.family}`, one]),
  ];
  const plotted = all.map(([over, one]) => ({
    label: measures.length > 1 ? `${over}, ${measured(one)}` : over,
    low: one.interval && 100 * one.interval.low,
    high: one.interval && 100 * one.interval.high,
    value: 100 * one.difference,
    limit: null,
    look: LOOK_OF[one.verdict] ?? 'open',
    note: `${over}, ${measured(one)}: ${one.interval ? `${points(one.interval.low)} to ${points(one.interval.high)}` : ''}`,
  }));
  const left = [
    mixed > 0 ? `Left out, since both generated them: ${counted(mixed, 'episode')}.` : null,
    ...measures.map((one) =>
      one.only_in_first + one.only_in_second > 0
        ? `By ${measured(one)}, left out: ${counted(one.only_in_first, 'task')} that only the first tried, ${counted(one.only_in_second, 'task')} that only the second tried.`
        : null,
    ),
    without_outcome.length === 0
      ? null
      : `Played in every episode, so that the outcome is that of all: ${without_outcome.map((role) => `role ${role}`).join(', ')}.`,
  ].filter(Boolean);
  return [
    tableOf({
      label: 'Sides',
      head: [
        'Side',
        'What',
        ...['Episodes', 'Solved', 'Result unknown', 'Tokens per solved', 'USD per solved'].map(numbers),
      ],
      rows: [
        ['first', first],
        ['second', second],
      ].map(([side, one]) => [
        side,
        nameOf(one),
        ...[one.episodes, one.solved, one.unknown].map(String),
        ...[one.tokens_per_solved, one.usd_per_solved].map((value) => (value === null ? '–' : decimal(value))),
      ]),
    }),
    left.length === 0 ? null : notice(left.join(' ')),
    make('h3', {}, 'Second less first'),
    make(
      'p',
      { class: 'quiet' },
      `Over the same tasks, in percentage points, with an interval of ${100 * level} %. The second is better or worse where the interval leaves out 0 and McNemar's p is below ${Number((1 - level).toFixed(6))}.${all.length > measures.length ? ` ${all.length} lines are compared; of lines without a difference one in ${Math.round(1 / (1 - level))} looks different by chance.` : ''}`,
    ),
    intervals(plotted, plotted.map(({ note }) => note).join('; '), 'second less first, points'),
    tableOf({
      label: 'Differences',
      head: [
        'Over',
        'Measure',
        ...['Tasks', 'First', 'Second', 'Difference'].map(numbers),
        'Interval',
        numbers('p (McNemar)'),
        'The second is',
      ],
      rows: all.map(([over, one]) => [
        over,
        measured(one),
        String(one.tasks),
        percent(one.first),
        percent(one.second),
        one.difference === null ? '–' : points(one.difference),
        one.interval === null ? 'too few tasks' : `${points(one.interval.low)} to ${points(one.interval.high)}`,
        one.mcnemar.mid_p < 0.001 ? '< 0.001' : one.mcnemar.mid_p.toFixed(3),
        one.verdict.replaceAll('_', ' '),
      ]),
    }),
    passes.length === 0
      ? null
      : tableOf({
          label: 'pass@k',
          head: ['pass@k', 'Measure', ...['Tasks', 'First', 'Second'].map(numbers)],
          rows: passes.map((one) => [
            String(one.first.k),
            measured(one),
            String(Math.min(one.first.tasks, one.second.tasks)),
            percent(one.first.value),
            percent(one.second.value),
          ]),
        }),
  ];
}
