/** The log file of a crew (`output_log_file`): who began and ended which task, without models, tools and time zone. */
import type { Draft } from '../../events/events.ts';
import { asText, canonicalJson, given, hashId, isRecord, without } from '../../events/json.ts';
import { writtenJson } from '../../events/spelling.ts';
import { isIdentifier } from '../../events/text.ts';
import type { Conversion, NativeRecord, NativeRefusal } from '../kit/format.ts';
import { type Emitter, refusal, refused } from '../kit/native.ts';
import { NO_TOKEN_IDS, runDrafts, taskOf } from '../kit/run.ts';

export const isCrewLogEntry = (value: unknown): boolean =>
  isRecord(value) &&
  'status' in value &&
  'agent' in value &&
  'task_name' in value &&
  'task' in value &&
  'timestamp' in value;

type Entry = { readonly native: Readonly<Record<string, unknown>>; readonly agent: string };
type CrewRun = { readonly episodeId: string; readonly entries: readonly Entry[] };

/** The names of the runs that these entries hold. */
export const logsIn = (format: string, entries: readonly unknown[]): string[] =>
  runsIn(format, entriesIn(entries)).map(({ episodeId }) => episodeId);

const agentOf = ({ agent }: Readonly<Record<string, unknown>>): unknown =>
  typeof agent === 'string' ? agent.trim() : agent;

function entriesIn(list: readonly unknown[], refusals: NativeRefusal[] = []): Entry[] {
  return list.flatMap((native, at): Entry[] => {
    const agent = isRecord(native) ? agentOf(native) : null;
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
function runsIn(format: string, entries: readonly Entry[]): CrewRun[] {
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

export function convertCrewLog(emit: Emitter, format: string, record: NativeRecord): Conversion {
  const refusals: NativeRefusal[] = [];
  const runs = runsIn(format, entriesIn(record.value as unknown[], refusals));
  if (runs.length === 0)
    return refused(...(refusals.length > 0 ? refusals : [refusal('bad_shape', '', 'at least one entry', [])]));
  const bodies = runs.map(({ entries }) => writtenJson(entries.map(({ native }) => native)));
  const drafts = runs.flatMap((run, i) => logDrafts(emit, format, run, bodies[i]!));
  return { drafts, refusals, raw: null, bodies, repeated: record.ordinal > 0 };
}

function logDrafts(emit: Emitter, format: string, { episodeId, entries }: CrewRun, canonical: string): Draft[] {
  const [first] = entries as readonly [Entry];
  const events = entries.map(({ native, agent }, seq) => {
    const about = {
      episode_id: episodeId,
      seq,
      native: given('timestamp', native.timestamp),
      ...given('unmapped', without(native, 'agent', 'timestamp', 'output', 'task', 'task_name', 'status')),
    };
    const { task, task_name: name, status, output } = native;
    return typeof output === 'string'
      ? emit.event('generation.completed', [episodeId, seq], {
          ...about,
          call_id: `m${seq}`,
          agent_id: agent,
          choices: [{ index: 0, content: output }],
        })
      : emit.event('decision.made', [episodeId, seq], {
          ...about,
          kind: status === 'started' ? 'assign' : asText(status),
          decision: { ...without({ task, task_name: name, output }), agent },
        });
  });
  // A run begins with a task that is given out.
  const begins = first.native.status === 'started';
  return runDrafts(emit, {
    format,
    episodeId,
    canonical,
    task: taskOf(format, begins ? first.native.task : undefined),
    ...(begins ? {} : { started: { flags: [NO_TOKEN_IDS, 'incomplete'] } }),
    agents: new Set(entries.map(({ agent }) => agent)),
    events,
    finished: { outcome: 'unknown', seq: entries.length },
  });
}
