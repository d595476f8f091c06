/** The log file of a crew (`output_log_file`): who began and ended which task, one list a run, without models, tools and time zone. */
import { hashId, isRecord } from '../json.ts';
import type { Converted, NativeRecord, NativeRefusal } from './format.ts';
import { type Emitter, given, isIdentifier, refusal, refused, without } from './native.ts';
import { NO_TOKEN_IDS, runDrafts, taskOf } from './run.ts';

export const isCrewLogEntry = (value: unknown): boolean =>
  isRecord(value) && 'status' in value && 'agent' in value && 'task' in value && 'timestamp' in value;

type Entry = { readonly seq: number; readonly native: Readonly<Record<string, unknown>>; readonly agent: string };

/** The name of the run that these entries begin with. */
export function logsIn(format: string, entries: readonly unknown[]): string[] {
  const first = entries.find((entry) => isRecord(entry) && isIdentifier(agentOf(entry)));
  return first === undefined ? [] : [hashId(format, 'log', first)];
}

const agentOf = ({ agent }: Readonly<Record<string, unknown>>): unknown =>
  typeof agent === 'string' ? agent.trim() : agent;

/** The run is named by its first entry, so that a log that has grown is the same run. */
export function convertCrewLog(emit: Emitter, format: string, record: NativeRecord): Converted {
  const refusals: NativeRefusal[] = [];
  const entries = (record.value as unknown[]).flatMap((native, at): Entry[] => {
    if (!isRecord(native)) refusals.push({ ...refusal('bad_type', '', 'an entry object', native), at });
    else {
      const agent = agentOf(native);
      if (isIdentifier(agent)) return [{ seq: at, native, agent }];
      refusals.push({ ...refusal('bad_identifier', 'agent', 'the role of an agent', native.agent), at });
    }
    return [];
  });
  const [first] = entries;
  if (!first)
    return refused(...(refusals.length > 0 ? refusals : [refusal('bad_shape', '', 'at least one entry', [])]));
  const episodeId = hashId(format, 'log', first.native);
  const drafts = entries.map(({ seq, native, agent }) => {
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
          kind: status === 'started' ? 'assign' : String(status),
          decision: { ...without({ task, task_name: name, output }), agent },
        });
  });
  return {
    drafts: runDrafts(emit, {
      format,
      episodeId,
      canonical: record.canonical,
      task: taskOf(format, first.native.task),
      // A run begins with a task that is given out.
      ...(first.native.status === 'started' ? {} : { started: { flags: [NO_TOKEN_IDS, 'incomplete'] } }),
      agents: new Set(entries.map(({ agent }) => agent)),
      events: drafts,
      finished: { outcome: 'unknown', seq: entries.length },
    }),
    refusals,
    raw: record.canonical,
    repeated: record.ordinal > 0,
  };
}
