/** The events that make a frozen dataset known to the log, read from its files part by part: a million rows are some two hundred of them. */
import type { Draft } from '../../ingest/events/events.ts';
import { isWhole } from './columns.ts';
import type { Lineage } from './lineage.ts';
import { lineageLines } from './lineage-lines.ts';
import { type CompactRow, type DraftOptions, datasetDraft, type Manifest } from './manifest.ts';

/** Characters of the ids in one event, about: so few that what is made of them is gone before it is old. */
const PART = 128 * 1024;

/** The first has the id of the dataset alone. */
export async function* announcements(
  directory: string,
  manifest: Manifest,
  options: DraftOptions,
): AsyncGenerator<Draft<'artifact.attached'>, void, undefined> {
  let [part, number] = [rowPart(manifest), 0];
  for await (const line of lineageLines(directory, manifest)) {
    if (part.size() >= PART) {
      yield datasetDraft(manifest, part.rows, options, number++);
      part = rowPart(manifest);
    }
    part.add(line);
  }
  yield datasetDraft(manifest, part.rows, options, number);
}

type AnnouncedRow = [string, string | null, (number | null)[], number?];

function rowPart({ recipe: { unit }, rows: counts }: Manifest) {
  const rows: Record<string, CompactRow[]> = {};
  for (const split of Object.keys(counts)) {
    rows[split] = [];
    if (unit === 'pair') rows[`${split}.rejected`] = [];
  }
  let size = 0;
  return {
    rows,
    size: () => size,
    add({ split, row, with: others = [], ...first }: Lineage): void {
      for (const [i, { episode_id, call_id, candidate }] of [first, ...others].entries()) {
        const name = i === 0 ? split : unit === 'pair' ? `${split}.rejected` : `${split}.earlier-${i}`;
        rows[name] ??= [];
        const entries = rows[name] as AnnouncedRow[];
        const last = entries.at(-1);
        // Not every branch has so many answers.
        const numbered = (unit === 'branch' && i > 0) || (entries.length === 0 && row > 0);
        if (!numbered && !isWhole(unit) && last?.[0] === episode_id && last[1] === call_id) last[2].push(candidate);
        else {
          entries.push([episode_id, call_id, [candidate], ...(numbered ? [row] : [])] as AnnouncedRow);
          size += episode_id.length + (call_id?.length ?? 0);
        }
      }
    },
  };
}
