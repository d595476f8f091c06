/** The rows that the tables would hold of these events, by the projections alone: the last version of each group of columns. */
import type { Event } from '../../../ingest/events/events.ts';
import { canonicalJson } from '../../../ingest/events/json.ts';
import { amended, type LoggedEvent } from '../../../store/projecting/amend.ts';
import { rowsOf } from '../../../store/tables/catalogue.ts';
import { effective } from '../../../store/tables/effective.ts';

/** What names the files that a run was read from, and not the run. */
const OF_FILES = new Set(['raw_artifact_id']);

/** A line for each row, sorted; without versions and original records, which tell one import from another. */
export function tablesOf(events: readonly Event[]): string[] {
  const amendments = events.filter(({ name }) => name === 'record.amended') as unknown as LoggedEvent[];
  const rows = new Map<string, { version: string; line: string }>();
  for (const event of events) {
    const now = amended(event as unknown as LoggedEvent, amendments);
    if (now === null) continue;
    for (const [target, found] of rowsOf(effective(now))) {
      if (target.name === 'bodies') continue;
      for (const row of found) {
        if (row.role === 'raw-record') continue;
        const key = `${target.name} ${canonicalJson(Object.keys(target.keys).map((name) => row[name]))}`;
        const version = target.version === null ? '' : String(row[target.version]);
        const shown = Object.entries(row).filter(([name]) => name !== target.version && !OF_FILES.has(name));
        const before = rows.get(key);
        if (!before || before.version <= version)
          rows.set(key, { version, line: `${key} ${canonicalJson(Object.fromEntries(shown))}` });
      }
    }
  }
  return [...rows.values()].map(({ line }) => line).sort();
}
