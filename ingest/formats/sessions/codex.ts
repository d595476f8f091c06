/**
 * Rollouts of the Codex CLI, `~/.codex/sessions/<date>/rollout-<time>-<thread>.jsonl`: lines {timestamp, type, payload}. Read from
 * what version 0.169.0 (npm @openai/codex) writes against a scripted model server, and from openai/codex, codex-rs/protocol/src
 * (protocol.rs, models.rs) and codex-rs/rollout/src/policy.rs, commits 001cb8e and 0136a73. A sub-agent has a file of its own that
 * names the session and the thread that started it.
 */
import { isRecord, type JsonObject, without } from '../../events/json.ts';
import { writtenJson } from '../../events/spelling.ts';
import { isIdentifier } from '../../events/text.ts';
import { toolLedger } from '../kit/conversation.ts';
import type { Conversion, NativeRecord, NativeRefusal } from '../kit/format.ts';
import { lineFormat, readLines } from '../kit/lines.ts';
import { refusal, refused } from '../kit/native.ts';
import { taskOf, timeOfText } from '../kit/run.ts';
import { Trace } from '../kit/trace.ts';
import { inheritedLines } from './codex-inherited.ts';
import { badLine, isRolloutLine, type Line, promptOf } from './codex-items.ts';
import { addThread } from './codex-thread.ts';

const NAME = 'codex';
/** The agent that the person talks to. */
const MAIN = 'main';

export const codex = lineFormat({
  name: NAME,
  summary: 'Codex rollouts: lines of {timestamp, type: session_meta | response_item | event_msg …, payload}',
  isLine: isRolloutLine,
  joins: { names: namesOf, episodes: episodesOf, marks: codexMarks, timeOf: lineTime },
  convert,
});

function convert(list: readonly unknown[], record: NativeRecord): Conversion {
  const refusals: NativeRefusal[] = [];
  const lines = readLines(list, badLine, refusals).map(({ seq, fields }): Line => {
    const { type, timestamp, payload, ordinal } = fields as JsonObject & { type: string; payload: JsonObject };
    const number = Number.isSafeInteger(ordinal) ? { ordinal: ordinal as number } : {};
    return { seq, type, timestamp, payload, ...number };
  });
  const meta = lines.find(({ type }) => type === 'session_meta');
  if (!meta) return refused(...refusals, refusal('bad_shape', '', HEADLESS, list));
  return convertRollout(meta, lines, { ...record, canonical: writtenJson(list) }, refusals);
}

const HEADLESS =
  'a line session_meta, with which a rollout begins; of a rollout that was cut, import the first part before this one, or all parts in one command';

const payloadsOf = (lines: readonly unknown[]): JsonObject[] =>
  lines.flatMap((line) => (isRecord(line) && isRecord(line.payload) ? [line.payload] : []));

/** The thread: of its first line, else as later lines name it since 2026. */
function namesOf(lines: readonly unknown[]): string[] {
  const meta = lines.find((line) => isRecord(line) && line.type === 'session_meta') as JsonObject | undefined;
  const id = isRecord(meta?.payload) ? meta.payload.id : undefined;
  return [id, ...payloadsOf(lines).map((payload) => payload.thread_id)].filter(isIdentifier).slice(0, 1);
}

function episodesOf(lines: readonly unknown[]): string[] {
  const named = payloadsOf(lines).flatMap((payload) => [payload.session_id, parentOf(payload)]);
  return [...new Set([...named, ...namesOf(lines)].filter(isIdentifier))];
}

function codexMarks({ payload }: JsonObject) {
  const { id, call_id: call, turn_id: turn, type } = isRecord(payload) ? payload : {};
  const answers = typeof type === 'string' && /_output$|_end$/.test(type);
  return [
    [id, ...(answers ? [] : [call]), ...(type === 'task_started' ? [turn] : [])],
    [call, turn],
  ] as const;
}

/** Lines of one time are in the order of their numbers, which versions before 2026 did not write. */
function lineTime({ timestamp, ordinal, type }: JsonObject): string | null {
  const time = timeOfText(timestamp);
  if (time === null) return null;
  const number = Number.isSafeInteger(ordinal) ? (ordinal as number) : type === 'session_meta' ? 0 : 1;
  return `${time} ${String(number).padStart(9, '0')}`;
}

function convertRollout(meta: Line, lines: readonly Line[], record: NativeRecord, refusals: readonly NativeRefusal[]) {
  const { payload } = meta;
  const id = payload.id as string;
  const parent = parentOf(payload);
  const episodeId = isIdentifier(payload.session_id) ? payload.session_id : (parent ?? id);
  const agentId = parent === null ? MAIN : id;
  const base = payload.base_instructions;
  const instructions = isRecord(base) && typeof base.text === 'string' && base.text !== '' ? base.text : undefined;
  const asker = parent === null ? 'user' : parent === episodeId ? MAIN : parent;
  const forked = payload.forked_from_id;
  const inherited = inheritedLines(meta, lines, parent !== null);
  const origin = parent === null && isIdentifier(forked) ? forked : asker === 'user' ? MAIN : asker;
  const spawn = spawnOf(payload);
  const nickname = payload.agent_nickname ?? spawn.agent_nickname;
  const role = payload.agent_role ?? spawn.agent_role;
  const member = {
    agent_id: agentId,
    name: isIdentifier(nickname) ? nickname : agentId,
    role: isIdentifier(role) ? role : undefined,
    parent_agent_id: parent === null ? undefined : asker,
    depth: Number.isSafeInteger(spawn.depth) ? (spawn.depth as number) : undefined,
    system_instructions: instructions,
    tools: Array.isArray(payload.dynamic_tools) ? payload.dynamic_tools : undefined,
  };
  const startedAt = timeOfText(payload.timestamp) ?? timeOfText(meta.timestamp);
  const trace = Trace.revised(NAME, record, episodeId, toolLedger(`${agentId}/`));
  // The file of a sub-agent: its session begins and ends in the file of the main agent.
  if (parent !== null) trace.add('agent.defined', [agentId], member, startedAt);
  addThread(trace, lines, { agentId, instructions, asker, inherited, origin });
  if (parent !== null) return { drafts: trace.part(), refusals, raw: record.canonical };
  const prompts = lines.map((line) => (line.type === 'response_item' ? promptOf(line.payload) : null));
  const first = prompts.findIndex((text) => text !== null);
  const isCut = hasGap(lines.slice(0, first + 1));
  const copied = inherited > 0 || isIdentifier(forked);
  const end = lines
    .slice(inherited)
    .findLast(({ type, payload: { type: name } }) => type === 'event_msg' && ENDS.has(name as string))?.payload;
  const { cwd, cli_version: version, originator, model_provider: provider, git } = payload;
  return trace.finish(
    {
      // The first prompt behind a gap is not what the session began with.
      task: taskOf(NAME, isCut ? undefined : prompts[first]),
      incomplete: isCut,
      flags: copied ? ['copied_context'] : [],
      started: {
        session_id: episodeId,
        parent_episode_id: isIdentifier(forked) ? forked : undefined,
        tags: without({ cwd, version, originator, provider, git }),
      },
      startedAt,
      agents: [member],
      finished: {
        outcome: end?.type === 'turn_aborted' ? 'aborted' : 'unknown',
        answer: typeof end?.last_agent_message === 'string' ? end.last_agent_message : undefined,
        stop_reason: isIdentifier(end?.type) ? end.type : 'log_ended',
      },
      finishedAt: timeOfText(lines.at(-1)!.timestamp),
    },
    refusals,
  );
}

/** Whether lines are missing among these: each has the number after the one before it, in versions since 2026. */
function hasGap(lines: readonly Line[]): boolean {
  return lines.some(({ ordinal }, i) => {
    const before = lines[i - 1]?.ordinal;
    return ordinal !== undefined && before !== undefined && ordinal > before + 1;
  });
}

const ENDS = new Set(['task_complete', 'turn_aborted']);

/** The thread that started this one; null for the thread of a person. */
function parentOf(payload: JsonObject): string | null {
  const parent = payload.parent_thread_id ?? spawnOf(payload).parent_thread_id;
  return isIdentifier(parent) ? parent : null;
}

function spawnOf({ source }: JsonObject): JsonObject {
  const subagent = isRecord(source) && isRecord(source.subagent) ? source.subagent : {};
  return isRecord(subagent.thread_spawn) ? subagent.thread_spawn : {};
}
