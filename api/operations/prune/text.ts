/** What was pruned, and what came back, as text for people. */
import { countText } from '../../../errors.ts';
import { bytesText } from '../bytes.ts';
import type { OutputOf, Printer } from '../operation.ts';
import type * as run from './run.ts';

type PruneOutput = OutputOf<typeof run.start>;

const what = ({ episodes, groups, archived, events }: PruneOutput): string =>
  `${countText(episodes, 'episode')} of ${countText(groups, 'group')}${archived === 0 ? '' : ` (in archives already: ${archived})`}, ${countText(events, 'event')}`;

export const question = (plan: PruneOutput): string | null =>
  plan.groups === 0 ? null : `This moves ${what(plan)}, ${bytesText(plan.bytes)} out of the database.`;

export function pruned(done: PruneOutput, { say }: Printer): string {
  if (done.dry_run) return `It would prune ${what(done)}, ${bytesText(done.bytes)}.`;
  if (done.changed > 0) say(`Changed while archived, and so not pruned: ${countText(done.changed, 'group')}.`);
  if (done.episodes === 0) return 'Nothing to prune: no closed group was silent for so long.';
  return [
    `Pruned: ${what(done)}, ${countText(done.artifacts, 'artifact')}.`,
    ...done.archives.map(({ uri, bytes, files }) => `${uri}: ${countText(files.length, 'file')}, ${bytesText(bytes)}`),
  ].join('\n');
}

export const restored = ({ archives }: OutputOf<typeof run.restore>): string =>
  [
    ...archives.map(
      ({ uri, episodes, events, left_out }) =>
        `${uri}: ${countText(episodes, 'episode')}, ${countText(events, 'event')}${left_out > 0 ? `; left out, being back or erased: ${countText(left_out, 'key')}` : ''}`,
    ),
    'Restored. What was refused meanwhile can be replayed: troupe deadletters replay --code pruned',
  ].join('\n');
