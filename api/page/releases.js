/** Releases in order, with the curve of what was measured of them. */
import { ask, decimal, make, notice, numbers, percent, tableOf, when } from './elements.js';
import { lines } from './plots.js';

export async function releases(signal) {
  const { items } = await ask('/v1/rounds', signal);
  if (items.length === 0) {
    return [
      make('h2', {}, 'Releases'),
      notice(
        'Nothing has been released yet. A release appears here once a policy is released, for instance by ',
        make('code', {}, 'troupe demo'),
        '.',
      ),
    ];
  }
  const runs = runsOf(items);
  return [
    make('h2', {}, 'Releases'),
    ...runs.reverse().flatMap(([name, run]) => [make('h3', {}, name), ...releasesOf(run, name)]),
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

function releasesOf(run, name) {
  const measured = [...new Set(run.flatMap(({ metrics }) => Object.keys(metrics)))].filter((name) => name !== 'round');
  const shares = measured.filter((name) => run.every(({ metrics }) => !(name in metrics) || isShare(metrics[name])));
  return [shares.length > 0 && run.length > 1 ? curve(run, shares.slice(0, 6)) : null, table(run, measured, name)];
}
const isShare = (value) => typeof value === 'number' && value >= 0 && value <= 1;

function curve(run, names) {
  const share = (value) => (isShare(value) ? value : null);
  const change = (name) => {
    const values = run.map(({ metrics }) => metrics[name]).filter(isShare);
    return `${name} from ${percent(values[0])} to ${percent(values.at(-1))}`;
  };
  return lines({
    about: `${run.length} releases: ${names.map(change).join('; ')}. The table has every number.`,
    series: names.map((name) => ({ label: name, values: run.map(({ metrics }) => share(metrics[name])) })),
    xs: run.map((_, i) => i),
    names: run.map(({ release_id }) => release_id.slice(-14)),
    along: 'release',
    range: [0, 1],
    format: percent,
  });
}

const table = (run, measured, name) =>
  tableOf({
    label: `Releases: ${name}`,
    caption:
      'What was measured of each release: candidate and incumbent of its gate, and the candidate by what the guardrails look at.',
    head: ['Release', ...measured.map(numbers), 'Checkpoint', 'Released', 'Why'],
    rows: run.map(({ name, release_id, metrics, policies, released_at }, i) => [
      release_id,
      ...measured.map((one) => numberOf(metrics[one])),
      Object.entries(policies).map(([policy, checkpoint]) =>
        make(
          'div',
          { title: checkpoint },
          `${policy}: ${checkpoint.startsWith('upstream:') ? checkpoint : checkpoint.slice(0, 16)} `,
          compareLink(run[i - 1]?.policies[policy], checkpoint),
        ),
      ),
      when(released_at),
      name ?? '',
    ]),
  });
/** To the comparison with the checkpoint of the release before, where it is another. */
const compareLink = (before, after) =>
  before === undefined || before === after
    ? null
    : make(
        'a',
        { href: `#/compare?${new URLSearchParams({ first: before, second: after })}` },
        'compare with the one before',
      );
const numberOf = (value) => (value === undefined ? '–' : decimal(value));
