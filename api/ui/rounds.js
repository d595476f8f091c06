/** Releases in order, with the curve of their metrics. */
import { ask, decimal, make, notice, numbers, percent, tableOf, when } from './elements.js';
import { lines } from './plots.js';

/** The series that are drawn if present, and their names; precision is never shown without the true-negative rate. */
const CURVES = [
  ['pass_at_1', 'pass@1'],
  ['best_of_n', 'best of n'],
  ['verifier_precision', 'verifier precision'],
  ['rejection_rate', 'rejection rate'],
  ['majority', 'majority'],
  ['hard_pass_at_1', 'pass@1, hard'],
];

export async function rounds(signal) {
  const { items } = await ask('/v1/rounds', signal);
  if (items.length === 0) {
    return [
      make('h2', {}, 'Rounds'),
      notice(
        'Nothing has been released yet. A round appears here once a policy is released, for instance by ',
        make('code', {}, 'troupe demo'),
        '.',
      ),
    ];
  }
  const runs = runsOf(items);
  return [
    make('h2', {}, 'Rounds'),
    ...runs.reverse().flatMap(([name, run]) => [make('h3', {}, name), ...roundsOf(run)]),
  ];
}

/** Releases of one run follow each other; where their own numbering begins again, or somebody else releases, another run begins. */
function runsOf(items) {
  const runs = [];
  let last = null;
  for (const item of items) {
    const policies = Object.keys(item.policies).sort().join(', ');
    const number = item.metrics.round;
    const goesOn =
      last && last.policies === policies && last.by === item.by && !(number !== undefined && number <= last.number);
    if (!goesOn) runs.push([`Policy ${policies}${item.by ? `, released by ${item.by}` : ''}`, []]);
    runs.at(-1)[1].push(item);
    last = { policies, by: item.by, number: number ?? -1 };
  }
  return runs;
}

function roundsOf(run) {
  const known = CURVES.filter(([metric]) => run.some(({ metrics }) => isShare(metrics[metric])));
  const others = [...new Set(run.flatMap(({ metrics }) => Object.keys(metrics)))].filter(
    (metric) => metric !== 'round' && !CURVES.some(([name]) => name === metric),
  );
  const shares = others.filter((metric) =>
    run.every(({ metrics }) => metrics[metric] === undefined || isShare(metrics[metric])),
  );
  const series = (known.length > 0 ? known : shares.map((metric) => [metric, metric])).slice(0, 6);
  return [
    series.length > 0 && run.length > 1 ? curve(run, series) : null,
    table(run, known, known.length > 0 ? [] : others),
  ];
}
const isShare = (value) => typeof value === 'number' && value >= 0 && value <= 1;

function curve(run, series) {
  const share = (value) => (isShare(value) ? value : null);
  const change = ([metric, label]) => {
    const values = run.map(({ metrics }) => metrics[metric]).filter(isShare);
    return `${label} from ${percent(values[0])} to ${percent(values.at(-1))}`;
  };
  return lines({
    about: `${run.length} rounds: ${series.map(change).join('; ')}. The table has every number.`,
    series: series.map(([metric, label]) => ({ label, values: run.map(({ metrics }) => share(metrics[metric])) })),
    xs: run.map((_, i) => i),
    names: run.map(({ name, round }) => (name ?? `round ${round}`).slice(0, 14)),
    range: [0, 1],
    format: percent,
  });
}

const table = (run, known, others) =>
  tableOf({
    label: 'Rounds as a table',
    caption: 'Held-out results of each release, with its checkpoint.',
    head: ['Round', ...[...known.map(([, label]) => label), ...others].map(numbers), 'Checkpoint', 'Released'],
    rows: run.map(({ name, release_id, metrics, policies, released_at }) => [
      name ?? release_id,
      ...known.map(([metric]) => percent(metrics[metric])),
      ...others.map((metric) => (metrics[metric] === undefined ? '–' : decimal(metrics[metric]))),
      Object.entries(policies).map(([policy, checkpoint]) =>
        make('div', { title: checkpoint }, `${policy}: ${checkpoint.slice(0, 16)}`),
      ),
      when(released_at),
    ]),
  });
