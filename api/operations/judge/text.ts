/** A judging as text for people. */

import { countText } from '../../../errors.ts';
import type { ComparedEpisodes } from '../../../store/evaluate/judging/compared.ts';
import { unreadText } from '../../../store/evaluate/judging/unread-rewards.ts';
import type { OutputOf } from '../operation.ts';
import type { judge } from './run.ts';

export function judged(judging: OutputOf<typeof judge>): string {
  const { episodes, rows, without_value, silent, unread, close_after } = judging;
  const compared = comparedText(judging, close_after);
  if (episodes === 0)
    return ['Nothing to judge: no closed episode of a complete group changed since.', ...compared].join('\n');
  const counts = Object.entries(rows).map(([table, count]) => {
    const without = without_value[table] ?? 0;
    return `${count} ${table}${without === 0 ? '' : ` (${without} without a value, with the reason why)`}`;
  });
  return [
    `${countText(episodes, 'episode')} judged: ${counts.join(', ') || 'no results'}.`,
    ...unread.map(unreadText),
    ...silent.map(
      (name) =>
        `${name} has no result: these episodes lack what it judges. \`troupe method show ${name}\` shows what that is.`,
    ),
    ...compared,
  ].join('\n');
}

/** What could not be compared, and why; nothing where everything could. */
export function comparedText(
  { groups, of_one, partial, open, waiting }: ComparedEpisodes,
  closeAfter: number,
): string[] {
  const ones = of_one.alone + of_one.unplaced;
  const opens = open.unfinished + open.reopened;
  return [
    ...(ones === 0
      ? []
      : [
          `Groups with one episode: ${ones} of ${groups} (${reasons([
            [of_one.unplaced, 'without task and group'],
            [of_one.alone, 'the only episode of its task or group'],
          ])}). Methods that compare the episodes of a group have nothing to compare there.`,
        ]),
    ...(partial === 0
      ? []
      : [
          `Groups with fewer closed members than announced: ${partial} of ${groups}; the reason of their credits is partial_group.`,
        ]),
    ...(opens === 0
      ? []
      : [
          `Open and not judged: ${countText(opens, 'episode')} (${reasons([
            [
              open.unfinished,
              `without episode.finished, which the program that records sends (\`troupe run work\` closes them after ${closeAfter} s without events)`,
            ],
            [open.reopened, 'with an event after its episode.finished'],
          ])}).`,
        ]),
    ...(waiting === 0
      ? []
      : [`Waiting for open or missing members of their group: ${countText(waiting, 'closed episode')}.`]),
  ];
}

const reasons = (counted: readonly (readonly [count: number, why: string])[]): string =>
  counted
    .filter(([count]) => count > 0)
    .map(([count, why]) => `${count} ${why}`)
    .join(', ');
