/** Schedules: when each starts next, why it is paused, what it did; and the buttons that run, pause and resume it. */
import { ask, make, notice, status, tableOf, when } from './elements.js';

export async function schedules(signal) {
  const { items } = await ask('/v1/schedules', signal);
  const all = await Promise.all(items.map(({ name }) => ask(`/v1/schedules/${encodeURIComponent(name)}`, signal)));
  const none = notice(
    'No schedule yet: ',
    make('code', {}, 'troupe schedule add nightly --cron "0 3 * * *" --plan plan.yaml'),
    '.',
  );
  return [make('h2', {}, 'Schedules'), all.length === 0 ? none : all.map((one) => scheduleOf(one))];
}

/** A time in the largest unit that it has a whole number of. */
function inUnits(seconds) {
  const [unit, name] = [
    [86_400, 'd'],
    [3600, 'h'],
    [60, 'min'],
    [1, 's'],
  ].find(([size]) => seconds % size === 0) ?? [1, 's'];
  return `${seconds / unit} ${name}`;
}

function scheduleOf({ name, definition, paused, next, runs, skipped }) {
  const { cron, zone, every_seconds, job, when: condition } = definition;
  const rule = cron ? `at ${cron} (${zone})` : `every ${inUnits(every_seconds)}`;
  const press = (action, body) => async (event) => {
    event.target.disabled = true;
    try {
      await ask(`/v1/schedules/${encodeURIComponent(name)}/${action}`, undefined, body);
      // A disabled button has lost the focus, which its successor takes over.
      event.target.disabled = false;
      event.target.focus();
      dispatchEvent(new Event('again'));
    } catch (error) {
      status.textContent = error.message;
      event.target.disabled = false;
    }
  };
  const button = (label, action, body = {}) => make('button', { type: 'button', onclick: press(action, body) }, label);
  return make(
    'section',
    {},
    make('h3', {}, name),
    make('p', {}, `A job of kind ${job.kind}, ${rule}${condition ? `, if ${JSON.stringify(condition)}` : ''}.`),
    paused
      ? notice(`Paused by ${paused.by}: ${paused.reason} (`, when(paused.at), ')')
      : make(
          'p',
          {},
          'Next: ',
          next.length === 0 ? 'no time known' : next.flatMap((time) => [when(time), ' · ']).slice(0, -1),
        ),
    make(
      'p',
      { class: 'buttons' },
      button('Run now', 'run'),
      paused ? button('Resume', 'resume') : button('Pause', 'pause', { reason: 'paused on the page' }),
    ),
    runs.length === 0
      ? null
      : tableOf({
          label: `Jobs of ${name}`,
          head: ['Job', 'Due', 'State', 'Result'],
          rows: runs
            .slice(0, 10)
            .map((run) => [
              job.kind === 'plan'
                ? make('a', { href: `#/runs/${encodeURIComponent(run.job_id)}` }, run.job_id)
                : run.job_id,
              when(run.due_at),
              run.outcome ?? run.state,
              run.error?.message ??
                (run.result?.released === undefined ? '–' : run.result.released ? 'released' : 'not released'),
            ]),
        }),
    skipped.length === 0
      ? null
      : tableOf({
          label: `Skipped ticks of ${name}`,
          head: ['Skipped', 'Why'],
          rows: skipped
            .slice(0, 10)
            .map(({ due_at, reason, detail }) => [when(due_at), [reason, detail].filter(Boolean).join(': ')]),
        }),
  );
}
