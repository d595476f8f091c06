/** Episodes as text for people. */
import { countText } from '../../../errors.ts';
import { NO_TOKEN_IDS } from '../../../ingest/formats/kit/run.ts';
import type { OutputOf, Printer } from '../operation.ts';
import type { list } from './run.ts';

/** The flags that are shown, such as incomplete. The flag of sources without token ids is left out: most have it. */
export const shownFlags = ({ flags }: { readonly flags?: unknown }): readonly string[] =>
  (Array.isArray(flags) ? flags.map(String) : []).filter((flag) => flag !== NO_TOKEN_IDS);

export function listed(
  { items, total, next, warnings, waiting_events }: OutputOf<typeof list>,
  { say, table }: Printer,
): string {
  if (waiting_events > 0)
    say(
      `In the log and not in the tables yet: ${countText(waiting_events, 'event')}. If no projector is running (troupe up), a command was interrupted: rerun it.`,
    );
  if (items.length === 0)
    return (warnings ?? []).length > 0 || waiting_events > 0
      ? ''
      : 'There is no such episode; `troupe import FILE` records some.';
  if (next !== null)
    say(
      `${items.length} of ${countText(total, 'episode')} are listed; --limit N lists more, --after ${next} those that follow.`,
    );
  const flags = items.map((row) => shownFlags(row).join(', '));
  const hasFlags = flags.some((text) => text !== '');
  const heads = ['episode', 'task', 'outcome', 'reward', 'agents', 'calls', 'steps', 'tools'];
  return table(
    hasFlags ? [...heads, 'flags'] : heads,
    items.map((r, i) => [
      ...[r.episode_id, r.task_id, r.outcome, r.reward, r.agents, r.calls, r.steps, r.tool_calls],
      ...(hasFlags ? [flags[i]] : []),
    ]),
  );
}
