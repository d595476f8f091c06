/** Plans and their runs as text for people. */
import { countText } from '../../../errors.ts';
import { isRecord } from '../../../ingest/events/json.ts';
import type { Spending } from '../../../store/loop/play/budget.ts';
import { rolloutText } from '../../../trainer/loop/plan/plan-rollout.ts';
import type { PlanResult } from '../../../trainer/loop/plan/round.ts';
import { bytesText } from '../bytes.ts';
import type { OutputOf, Printer } from '../operation.ts';
import type * as does from './run.ts';
import type { endRun } from './run-end.ts';

export function runEndText(ended: OutputOf<typeof endRun>): string {
  const { run } = ended;
  if (ended.state === 'running') return `Run ${run} is in the queue; troupe plan show ${run} follows it.`;
  if ('rounds' in ended) return resultText(run, ended);
  const { decision, waits_for } = ended as { readonly decision: string; readonly waits_for: string };
  return waits_for === 'canary'
    ? `Run ${run} waits for the canary ${decision}. \`troupe up\`, or \`troupe run work\`, ends it and continues the run; troupe gate show ${run} has its numbers.`
    : `Run ${run} waits for a decision. Look at the candidates with troupe plan show ${run}, then run troupe gate accept ${run} or troupe gate refuse ${run}.`;
}

const resultText = (run: string, { rounds, ended_early, nothing_to_learn }: PlanResult): string =>
  [
    ...rounds.flatMap(({ round, candidates, teams, passed, reason, rollout }) => {
      const trained = Object.entries({ ...candidates, ...teams }).map(([name, id]) => `${name} ${id}`);
      return [
        `Round ${round}: ${trained.join(', ')} ${passed ? 'released' : 'kept, not released'}. ${reason}`,
        ...(rollout ? [rolloutText(rollout)] : []),
      ];
    }),
    ...[ended_early, nothing_to_learn].filter((why) => why !== null),
    ...(rounds.length > 0 ? [`troupe gate show ${run} has the report.`] : []),
  ].join('\n');

export function checked(
  { plan, stages, rounds, budget, policies, team, rollout, gate, problems, notes }: OutputOf<typeof does.check>,
  { table }: Printer,
): string {
  const lines = [`Plan ${plan}: ${countText(rounds, 'round')} of ${stages.join(', ')}, release.\n`];
  if (budget !== null) lines.push(`Budget of ${countText(rounds, 'round')}: ${budgetText(budget)}.\n`);
  if (team !== null)
    lines.push(
      `Team ${team.name}: ${team.incumbent ?? 'nothing yet'} → ${team.candidate ?? 'what pruning leaves of it'}`,
    );
  else
    lines.push(
      table(
        [
          ...['policy', 'method', 'starts with', 'rows to train on', 'held out', 'tokens a round', 'minutes a round'],
          ...['memory', 'a checkpoint'],
        ],
        Object.entries(policies).map(
          ([name, { method, start, rows, tokens, minutes, adapter, memory_bytes, checkpoint_bytes }]) => [
            name,
            adapter === null ? method : `${method}, adapter r=${adapter.r}`,
            start?.directory ?? null,
            rows?.train ?? null,
            rows?.held_out ?? null,
            tokens,
            minutes === null ? null : Number(minutes.toPrecision(2)),
            memory_bytes === null ? null : bytesText(memory_bytes),
            checkpoint_bytes === null ? null : bytesText(checkpoint_bytes),
          ],
        ),
      ),
    );
  if (rollout !== null) {
    const { runner, tasks_of_round, samples, iterations, attempts, attempts_at_most } = rollout;
    const times = iterations === 1 ? '' : ` × ${iterations} iterations`;
    const most = attempts_at_most === null ? '' : `, at most ${attempts_at_most} with those that are tried again`;
    lines.push(
      `\nRollout by ${runner}: ${tasks_of_round} of ${countText(rollout.tasks, 'task')} × ${countText(samples, 'sample')}${times} a round: ${countText(attempts, 'attempt')}${most}.`,
    );
  }
  if (gate.played !== null) {
    const { runner, tasks_of_round, samples, attempts, attempts_at_most } = gate.played;
    const most = attempts_at_most === null ? '' : `, at most ${attempts_at_most} with those that are tried again`;
    lines.push(
      `\nGate played by ${runner}: ${tasks_of_round} of ${countText(gate.played.tasks, 'task')} × ${countText(samples, 'sample')} × 2 sides: ${countText(attempts, 'attempt')}${most}.`,
    );
  }
  const tasks = gate.tasks === null ? '' : `: ${countText(gate.tasks, 'task')}`;
  lines.push(`\nGate ${gate.kind}${tasks}${gate.tasks_wanted === null ? '' : `, ${gate.tasks_wanted} wanted`}.`);
  for (const note of notes) lines.push(`Note: ${note}`);
  for (const problem of problems) lines.push(`Problem: ${problem}`);
  return lines.join('\n');
}

const budgetText = ({ minutes, tokens, usd }: NonNullable<OutputOf<typeof does.check>['budget']>): string =>
  [
    ...(tokens === undefined ? [] : [countText(tokens, 'token')]),
    ...(usd === undefined ? [] : [`${usd} USD`]),
    ...(minutes === undefined ? [] : [countText(minutes, 'minute')]),
  ].join(', ');

/** What a run has used of its budget. What is unknown is shown as unknown, not as 0; US dollars not where nothing has a price. Pure. */
export function spentText(
  { tokens, usd, uncounted, unpriced, untold, minutes }: Spending & { readonly minutes: number | null },
  budget: NonNullable<OutputOf<typeof does.check>['budget']>,
): string {
  const of = (most: number | undefined) => (most === undefined ? '' : ` of ${most}`);
  const less = (calls: number, what: string, trainings: number) =>
    (calls === 0 ? '' : `, without ${countText(calls, 'call')} of unknown ${what}`) +
    (trainings === 0 ? '' : `, without ${countText(trainings, 'training')} by a program that reported none`);
  const hasPrice = usd !== null || budget.usd !== undefined || unpriced > 0 || (untold?.usd ?? 0) > 0;
  return [
    `tokens ${tokens ?? 'unknown'}${of(budget.tokens)}${less(uncounted, 'length', untold?.tokens ?? 0)}`,
    ...(hasPrice
      ? [
          `USD ${usd === null ? 'unknown' : Number(usd.toPrecision(4))}${of(budget.usd)}${less(unpriced, 'price', untold?.usd ?? 0)}`,
        ]
      : []),
    `minutes ${minutes === null ? 'unknown' : minutes.toFixed(1)}${of(budget.minutes)}`,
  ].join(' · ');
}

export const listed = ({ items }: OutputOf<typeof does.list>, { table }: Printer): string =>
  items.length === 0
    ? 'No runs of plans yet.'
    : table(
        ['run', 'state', 'outcome', 'released', 'requested', 'error'],
        items.map(({ run, state, outcome, released, requested_at, error }) => [
          run,
          state,
          outcome,
          released === null ? null : released ? 'yes' : 'no',
          requested_at,
          error,
        ]),
      );

export function shown({ run, set, budget, spent, stages }: OutputOf<typeof does.show>, { table }: Printer): string {
  const { job_id: id } = run;
  const values = Object.entries(set).map(([path, value]) => `${path}=${JSON.stringify(value)}`);
  return [
    `Run ${id}: ${run.outcome ?? run.state}.${run.error === null ? '' : ` ${run.why}`}`,
    ...(values.length === 0 ? [] : [`Set: ${values.join(', ')}.`]),
    `Used: ${spentText(spent, budget ?? {})}.`,
    // Those of a gate are rollouts too, below its own id.
    ...(stages.some(({ job_id }) => /^\d+(\/\d+)?\/rollout$/.test(job_id!.slice(id!.length + 1)))
      ? ['The recipes of a round take only the complete groups of its rollout.']
      : []),
    table(
      ['stage', 'kind', 'state', 'outcome', 'result'],
      stages.map(({ job_id, kind, state, outcome, made, why }) => [
        job_id!.slice(id!.length + 1),
        kind,
        state,
        outcome,
        why ?? made,
      ]),
    ),
    ...(isRecord(run.result) ? [resultText(id!, run.result as unknown as PlanResult)] : []),
  ].join('\n');
}

export const learnt = ({ rollouts, curves }: OutputOf<typeof does.learning>, { table }: Printer): string =>
  curves.length === 0
    ? 'Nothing has been played or trained yet.'
    : [
        ...(rollouts.length === 0
          ? []
          : [`${countText(rollouts.length, 'iteration')} played; iteration 1 is ${rollouts[0]}.`]),
        table(
          ['of', 'number', 'along', 'points', 'first', 'last', 'course'],
          curves.map(({ policy, role, name, along, at, values }) => {
            const known = values.filter((value) => value !== null);
            return [
              [policy, role].filter((part) => part !== null).join(' ') || 'episodes',
              ...[name, along, at.length],
              ...[known[0], known.at(-1)].map((value) => (value === undefined ? null : Number(value.toPrecision(3)))),
              courseOf(values),
            ];
          }),
        ),
      ].join('\n');

/** Columns that a course takes at most. */
const COURSE = 32;
const LEVELS = '▁▂▃▄▅▆▇█';

/** The values as a line of bars from their least to their greatest; a blank where one is unknown. */
function courseOf(values: readonly (number | null)[]): string {
  const every = Math.ceil(values.length / COURSE);
  const shown = values.filter((_, i) => (values.length - 1 - i) % every === 0);
  const known = shown.filter((value) => value !== null);
  const [least, most] = [Math.min(...known), Math.max(...known)];
  const level = (value: number) => (most === least ? 0 : Math.round(((value - least) / (most - least)) * 7));
  return shown.map((value) => (value === null ? ' ' : LEVELS[level(value)])).join('');
}
