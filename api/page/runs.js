/** Runs of plans: the list, and one run with its stages, the reports of its gates, and the curves of its training. */
import { ask, counted, decimal, make, notice, numbers, pagedTable, tableOf, when } from './elements.js';
import { intervals, lines } from './plots.js';
import { ROLLOUTS } from './query.js';

/** Milliseconds after which a run that is under way is read again. */
const AGAIN = 3000;

const runLink = (id) => make('a', { href: `#/runs/${encodeURIComponent(id)}` }, id);

export async function runs(signal) {
  const path = '/v1/jobs?kind=plan';
  const first = await ask(path, signal);
  const list = pagedTable({
    first,
    page: (after) => ask(`${path}&${new URLSearchParams({ after })}`, signal),
    label: 'Runs of plans',
    head: ['Run', 'State', 'Made', numbers('Took'), 'Requested', 'Why it failed'],
    row: (job) => [
      runLink(job.job_id),
      stateOf(job),
      job.made ?? '–',
      took(job),
      when(job.requested_at),
      job.error?.message ?? '',
    ],
  });
  const none = notice('No plan has been run yet: ', make('code', {}, 'troupe plan run plan.yaml'), '.');
  const rollouts = make('a', { href: `#/sql?${new URLSearchParams({ q: ROLLOUTS })}` }, 'Rollouts');
  return [
    make('h2', {}, 'Runs of plans'),
    first.items.length === 0 ? none : list,
    make('p', {}, rollouts, ' are listed by SQL.'),
  ];
}

export async function run(signal, _query, id) {
  const { run: whole, stages } = await ask(`/v1/plans/${encodeURIComponent(id)}`, signal);
  const gates = stages.filter(({ gate }) => gate);
  const learning = await ask(`/v1/plans/${encodeURIComponent(id)}/learning`, signal);
  // A finished run does not change any more.
  if (whole.state !== 'finished') again(signal);
  return [
    make('h2', {}, `Run ${id}`),
    make('p', {}, `${stateOf(whole)}, requested `, when(whole.requested_at), `, took ${took(whole)}.`),
    whole.error ? notice(whole.error.message) : null,
    learningOf(learning),
    gates.map((stage) => gateOf(stage, id)),
    make('h3', {}, 'Stages'),
    tableOf({
      label: 'Stages',
      head: ['Stage', 'Kind', 'State', numbers('Took'), 'Made'],
      rows: stages.map((job) => [
        below(job, id),
        job.kind,
        stateOf(job),
        took(job),
        job.error?.message ?? job.made ?? '–',
      ]),
    }),
  ];
}

const below = ({ job_id }, run) => job_id.slice(run.length + 1);
const stateOf = ({ state, outcome }) => outcome ?? state;

/** Time from its start to its end, or to now. */
function took({ started_at, requested_at, finished_at, state }) {
  const [from, to] = [
    started_at ?? requested_at,
    finished_at ?? (state === 'finished' ? null : new Date().toISOString()),
  ];
  if (!from || !to) return '–';
  const seconds = Math.round((new Date(to) - new Date(from)) / 1000);
  if (seconds < 1) return '< 1 s';
  return seconds < 100 ? `${seconds} s` : `${Math.round(seconds / 60)} min`;
}

function again(signal) {
  const timer = setTimeout(() => dispatchEvent(new Event('again')), AGAIN);
  signal.addEventListener('abort', () => clearTimeout(timer));
}

/** The comparisons of a gate as intervals around zero, and as numbers. */
function gateOf({ gate, job_id }, run) {
  const title = `Gate of ${below({ job_id }, run)
    .replace(/\/gate$/, '')
    .replace(/^/, 'round ')}`;
  const state = gate.canary?.state === 'running' ? 'under way' : gate.passed ? 'passed' : 'not passed';
  const head = [make('h3', {}, `${title}: ${state}`), make('p', {}, gate.reason)];
  if (!gate.main) return head;
  const all = [gate.main, ...gate.guardrails];
  const plotted = all.map((one) => ({
    label: one.of,
    low: one.interval?.low ?? null,
    high: one.interval?.high ?? null,
    value: one.difference,
    limit: one === gate.main ? (gate.rules.accept === 'better' ? 0 : -gate.rules.margin) : limitOf(one.of, gate.rules),
    look: one.passed ? 'pass' : 'fail',
    note: `${one.of}: ${one.outcome}`,
  }));
  const weights = Object.entries(gate.models ?? {}).map(([policy, { candidate, incumbent }]) =>
    make('p', {}, `${policy}: candidate ${candidate}, incumbent ${incumbent}`),
  );
  return [
    head,
    weights,
    make(
      'p',
      { class: 'quiet' },
      `Candidate less incumbent in ${gate.measure}, in ${gate.unit}, over the same tasks, with an interval of ${100 * gate.rules.level} %. The whole interval has to lie right of its mark.`,
    ),
    intervals(
      plotted,
      all.map((one) => `${one.of}: ${one.outcome}`).join('; '),
      `candidate less incumbent, ${gate.unit}`,
    ),
    tableOf({
      label: title,
      head: [
        'Over',
        ...['Tasks', 'Incumbent', 'Candidate', 'Difference'].map(numbers),
        'Interval',
        'Outcome',
        'Passed',
      ],
      rows: all.map((one) => [
        one.of,
        String(one.tasks),
        ...[one.incumbent, one.candidate, one.difference].map(number),
        one.interval ? `${number(one.interval.low)} to ${number(one.interval.high)}` : 'too few tasks',
        one.outcome.replace('_', ' '),
        one.passed ? 'yes' : 'no',
      ]),
    }),
  ];
}

/** How much worse a guarded part may be; tokens and latency are differences to their limit already. */
const limitOf = (of, { guardrails }) => {
  if (of.startsWith('role ')) return -(guardrails.roles ?? 0);
  if (of.startsWith('family ')) return -(guardrails.families ?? 0);
  return 0;
};
const number = (value) => (value === null ? '–' : String(Number(value.toPrecision(4))));

/** Reward first, then what says whether training goes well, then the rest by name. */
const FIRST = ['reward', 'groups_with_signal', 'loss', 'held_out_loss', 'kl', 'entropy'];
const placeOf = (name) => {
  const place = FIRST.findIndex((first) => name === first || name.startsWith(`${first} `));
  return place < 0 ? FIRST.length : place;
};

/** The plots of the episodes by iteration, then those of each policy by step. A point of an iteration leads to its episodes. */
function learningOf({ rollouts, curves }) {
  const links = rollouts.map((job) => `#/episodes?${new URLSearchParams({ 'tag.rollout': job })}`);
  return groupsOf(curves, ({ policy }) => policy).map((of) => {
    const [{ policy }] = of;
    const plots = groupsOf(of, ({ name }) => name).sort(
      ([a], [b]) => placeOf(a.name) - placeOf(b.name) || a.name.localeCompare(b.name),
    );
    return [
      make('h3', {}, policy === null ? 'Episodes by iteration' : `Training of ${policy}`),
      make(
        'div',
        { class: 'plots' },
        plots.map((same) => plotOf(same, policy === null ? links : [])),
      ),
    ];
  });
}

/** One number, with a line for each role. */
function plotOf(curves, links) {
  const [{ name, along, policy }] = curves;
  const xs = [...new Set(curves.flatMap(({ at }) => at))].sort((a, b) => a - b);
  const last = curves.map(({ role, values }) => {
    const value = values.findLast((one) => one !== null);
    return `${role ?? 'all'} ${value === undefined ? 'unknown' : decimal(value)}`;
  });
  return lines({
    about: `${name} of ${policy ?? 'the episodes'} over ${counted(xs.length, along)}; last: ${last.join(', ')}`,
    series: curves.map(({ role, at, values }) => {
      const known = new Map(at.map((x, i) => [x, values[i]]));
      return { label: role === null ? name : `${name}: ${role}`, values: xs.map((x) => known.get(x)) };
    }),
    ...{ xs, along, links, width: 440, height: 220 },
  });
}

/** The items with one key, in the order in which the keys come. */
function groupsOf(items, keyOf) {
  const groups = new Map();
  for (const item of items) groups.set(keyOf(item), [...(groups.get(keyOf(item)) ?? []), item]);
  return [...groups.values()];
}
