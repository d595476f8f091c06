/** The log file of a crew (`output_log_file`): who began and ended which task, without models, tools and time zone. */
import { asText, canonicalJson, hashId, isRecord, type JsonObject, without } from '../../events/json.ts';
import { writtenJson } from '../../events/spelling.ts';
import { isIdentifier } from '../../events/text.ts';
import type { Conversion, NativeRecord, NativeRefusal } from '../kit/format.ts';
import { refusal, refused } from '../kit/native.ts';
import { taskOf } from '../kit/run.ts';
import { Trace } from '../kit/trace.ts';

export const isCrewLogEntry = (value: unknown): boolean =>
  isRecord(value) &&
  'status' in value &&
  'agent' in value &&
  'task_name' in value &&
  'task' in value &&
  'timestamp' in value;

type Entry = { readonly native: JsonObject; readonly agent: string };

/** The names of the runs that these entries hold. */
export const logsIn = (format: string, entries: readonly unknown[]): string[] =>
  runsIn(format, entriesIn(entries)).map(({ episodeId }) => episodeId);

function entriesIn(list: readonly unknown[], refusals: NativeRefusal[] = []): Entry[] {
  return list.flatMap((native, at): Entry[] => {
    const agent = isRecord(native) && typeof native.agent === 'string' ? native.agent.trim() : null;
    if (isRecord(native) && isIdentifier(agent)) return [{ native, agent }];
    const refused = isRecord(native)
      ? refusal('bad_identifier', 'agent', 'the role of an agent', native.agent)
      : refusal('bad_type', '', 'an entry object', native);
    refusals.push({ ...refused, at });
    return [];
  });
}

/**
 * Each kickoff appends to the file, and nothing stands between two of them: a run ends where a task of it is given out again. It is named
 * by its first entry, so that a log that has grown holds the same runs; of equal ones, within a second, by their number.
 */
function runsIn(format: string, entries: readonly Entry[]) {
  const runs: { readonly episodeId: string; readonly entries: Entry[] }[] = [];
  const equal = new Map<string, number>();
  let begun = new Set<string>();
  for (const entry of entries) {
    const { task_name: name, task, status } = entry.native;
    const key = canonicalJson([name ?? task ?? null, entry.agent]);
    if (runs.length === 0 || (status === 'started' && begun.has(key))) {
      const first = hashId(format, 'log', entry.native);
      const number = equal.get(first) ?? 0;
      equal.set(first, number + 1);
      runs.push({ episodeId: number === 0 ? first : hashId(format, 'log', entry.native, number), entries: [] });
      begun = new Set();
    }
    runs.at(-1)!.entries.push(entry);
    if (status === 'started') begun.add(key);
  }
  return runs;
}

export function convertCrewLog(format: string, list: readonly unknown[], record: NativeRecord): Conversion {
  const refusals: NativeRefusal[] = [];
  const runs = runsIn(format, entriesIn(list, refusals));
  if (runs.length === 0)
    return refused(...(refusals.length > 0 ? refusals : [refusal('bad_shape', '', 'at least one entry', [])]));
  const bodies = runs.map(({ entries }) => writtenJson(entries.map(({ native }) => native)));
  const drafts = runs.flatMap(({ episodeId, entries }, i) => {
    const trace = Trace.revised(format, record, episodeId);
    for (const [seq, entry] of entries.entries()) addEntry(trace, seq, entry);
    // A run begins with a task that is given out.
    const { task, status } = entries[0]!.native;
    const begins = status === 'started';
    return trace.finish({
      canonical: bodies[i]!,
      task: taskOf(format, begins ? task : undefined),
      incomplete: !begins,
      finished: { outcome: 'unknown', seq: entries.length },
    }).drafts;
  });
  return { drafts, refusals, raw: null, bodies, repeated: record.ordinal > 0 };
}

function addEntry(trace: Trace, seq: number, { native, agent }: Entry): void {
  const { agent: _, timestamp, output, task, task_name: name, status, ...rest } = native;
  const about = { native: { timestamp }, unmapped: without(rest) };
  if (typeof output === 'string') trace.answer(seq, agent, output, about);
  else {
    const kind = status === 'started' ? 'assign' : asText(status);
    trace.decided(seq, kind, { task, task_name: name, output, agent: trace.member(agent) }, about);
  }
}
