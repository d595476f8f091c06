/** Rollouts as text for people. */
import { countText } from '../../../errors.ts';
import { asText } from '../../../ingest/events/json.ts';
import type { RolloutResult } from '../../../trainer/loop/play/handler.ts';
import type { SweepPoint } from '../../../trainer/loop/play/sweep.ts';
import type { OutputOf, Printer } from '../operation.ts';
import { errorLine } from './error-line.ts';
import type * as run from './run.ts';
import { settingsText, sweepText } from './sweep-plot.ts';

export const started = (ended: OutputOf<typeof run.start>, printer: Printer): string =>
  'groups' in ended
    ? summary(ended, printer)
    : `Rollout ${ended.rollout_id} is in the queue; troupe rollout show ${ended.rollout_id} follows it.`;

export const shown = (
  { rollout_id, state, outcome, attempts, result, error }: OutputOf<typeof run.show>,
  printer: Printer,
): string =>
  outcome === 'done'
    ? summary(result as RolloutResult, printer)
    : [
        `Rollout ${rollout_id}: ${outcome ?? state}.`,
        `Attempts: ${Object.entries(attempts)
          .map(([name, count]) => `${count} ${name}`)
          .join(', ')}.`,
        ...(error === null ? [] : [errorLine(asText((error as { readonly message?: unknown }).message))]),
      ].join('\n');

export const swept = ({ sweep, rollouts, points }: OutputOf<typeof run.sweep>, printer: Printer): string =>
  points === null
    ? `Sweep ${sweep} is in the queue as the rollouts ${rollouts.join(', ')}.`
    : sweepSummary(points, printer);

/** The table of a sweep, and its plot where two combinations have reward and tokens. Pure. */
export function sweepSummary(points: readonly SweepPoint[], { table }: Pick<Printer, 'table'>): string {
  const rounded = (value: number | null) => (value === null ? null : Number(value.toPrecision(4)));
  const rows = points.map(({ rollout_id, params, episodes, reward, interval, tokens, without_reward }, i) => [
    String.fromCharCode(97 + (i % 26)),
    settingsText(params),
    episodes,
    rounded(reward),
    interval === null ? null : `${rounded(interval.low)} to ${rounded(interval.high)}`,
    rounded(tokens),
    without_reward,
    rollout_id,
  ]);
  const head = ['', 'settings', 'episodes', 'mean reward', '95 % interval', 'tokens', 'without reward', 'rollout'];
  const plot = sweepText(points);
  const left_out = Math.max(0, ...points.map((point) => point.left_out));
  const note = `Left out under every setting: ${left_out} of ${countText(left_out + (points[0]?.tasks ?? 0), 'task')}, of which a sample is missing under one of them.`;
  return [table(head, rows), ...(left_out === 0 ? [] : [note]), ...(plot === null ? [] : ['', plot])].join('\n');
}

/** The end of a rollout in words. Pure. */
export function summary(result: RolloutResult, { table }: Pick<Printer, 'table'>): string {
  const { rollout_id, groups, partial, attempts, tokens, usd, staleness, seconds } = result;
  const { without_reward, reward_failed, equal_rewards, replayed_calls } = result;
  const lines = [
    `Rollout ${rollout_id}: ${countText(attempts.done, 'episode')} done in ${seconds.toFixed(1)} s; ${countText(attempts.failed, 'attempt')} failed, tried again ${attempts.retried}, late ${attempts.late}; ${tokens === null ? 'tokens unknown' : countText(tokens, 'token')}${usd === null ? '' : `, ${Number(usd.toPrecision(6))} USD`}.`,
    `Groups: ${groups.complete} complete, ${groups.partial} partial.`,
    ...(replayed_calls === undefined
      ? []
      : [`Answered from the record, without sampling: ${countText(replayed_calls, 'call')}.`]),
  ];
  if (partial.length > 0)
    lines.push(
      'Partial groups are left out of the result, so nothing trains on them:',
      table(
        ['task', 'done', 'of', 'missing', 'why'],
        partial.flatMap(({ task_id, done, of, why }) =>
          why.map(({ code, message, samples }) => [task_id, done, of, samples, `${code}: ${errorLine(message)}`]),
        ),
      ),
    );
  const behind = Object.entries(staleness.behind).filter(([releases]) => releases !== '0');
  if (behind.some(([releases]) => releases !== 'unknown') || staleness.withheld.length > 0)
    lines.push(
      `Releases that the weights are behind: ${behind.map(([releases, episodes]) => `${releases} (${countText(episodes, 'episode')})`).join(', ')}; withheld: ${countText(staleness.withheld.length, 'episode')}.`,
    );
  if (without_reward > 0) {
    const why =
      reward_failed === undefined
        ? 'the team recorded none, and the runner names no other source'
        : 'the source of the runner gave none';
    lines.push(
      `Without a reward: ${countText(without_reward, 'episode')}; ${why}. Unknown is not 0; no credit is computed from them.`,
      ...Object.entries(reward_failed ?? {}).map(([reason, episodes]) => `  ${episodes}: ${reason}`),
    );
  }
  if (equal_rewards > 0)
    lines.push(
      `All rewards are equal in ${countText(equal_rewards, 'complete group')}, so comparing their members gives no signal.`,
    );
  return lines.join('\n');
}

export const leased = ({ attempts }: OutputOf<typeof run.lease>, { table }: Printer): string =>
  attempts.length === 0
    ? 'No attempt waits.'
    : table(
        ['attempt', 'token', 'seconds'],
        attempts.map(({ attempt_id, token, lease_s }) => [attempt_id, token, lease_s]),
      );

export const held = ({ lease_s, seconds_left }: OutputOf<typeof run.heartbeat>): string =>
  `It is held for ${lease_s} s; its deadline is in ${seconds_left} s.`;

export const finished = ({ attempts }: OutputOf<typeof run.finish>, { table }: Printer): string =>
  table(
    ['attempt', 'report', 'outcome', 'why'],
    attempts.map(({ attempt_id, state, outcome, why }) => [attempt_id, state, outcome, why]),
  );
