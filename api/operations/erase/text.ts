/** An erasure as text for people. */
import { countText } from '../../../errors.ts';
import type { OutputOf, Printer } from '../operation.ts';
import type { erase } from './run.ts';

type Output = OutputOf<typeof erase>;

function sentence({ events, episodes, letters, archives, archived_events, datasets, checkpoints }: Output): string {
  const lying =
    archives.length === 0 ? '' : `, ${countText(archived_events, 'event')} in ${countText(archives.length, 'archive')}`;
  return `${countText(events, 'event')} of ${countText(episodes.length, 'episode')}, ${countText(letters.length, 'dead letter')}${lying}; used by ${countText(datasets.length, 'dataset')} and ${countText(checkpoints.length, 'checkpoint')}`;
}

/** Of what nothing belongs to, the erasure itself says so. */
export const question = (plan: Output): string | null =>
  plan.events + plan.letters.length + plan.archives.length === 0
    ? null
    : `This erases ${sentence(plan)}. It cannot be undone.`;

export function erased(output: Output, { say }: Printer): string {
  const { erasure_id, bodies, datasets, checkpoints, archives } = output;
  if (erasure_id === null) return `It would erase ${sentence(output)}.`;
  for (const { uri, rewritten, why } of archives)
    if (!rewritten)
      say(`archive ${uri}: NOT erased, its files still hold it. ${why} Put it back and erase again, or remove it.`);
  return [
    `Erased: ${sentence(output)}, ${bodies} artifacts. It is noted as ${erasure_id} in traj.erasures.`,
    ...datasets.map(
      ({ dataset_id, removed }) =>
        `dataset ${dataset_id}: ${removed ? 'its files are gone' : 'marked; its files are still there'}`,
    ),
    ...checkpoints.map((id) => `checkpoint ${id}: marked; its weights were trained on it`),
    ...archives.filter(({ rewritten }) => rewritten).map(({ uri }) => `archive ${uri}: written anew without it`),
  ].join('\n');
}
