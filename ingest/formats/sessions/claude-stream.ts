/**
 * What `claude -p --output-format stream-json` and the Agent SDK print, a message a line: {type: "system" | "assistant" | "user" | "result",
 * session_id, uuid}. Harbor keeps it as `agent/claude-code.txt`. Read from sdk.d.ts of @anthropic-ai/claude-agent-sdk 0.3.332. The prompt
 * is printed only where the program was asked to repeat it, so that the input of most calls is unknown.
 */
import { asText, isRecord, type JsonObject, without } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import type { Conversion, NativeRecord } from '../kit/format.ts';
import { lineFormat } from '../kit/lines.ts';
import { convertSessions } from './claude-code.ts';
import { blocksOf, type Line } from './claude-code-lines.ts';

const NAME = 'claude-stream';

/** A message of the conversation, or what the program says of the session at its begin and at its end. */
const isStreamed = (record: unknown): record is JsonObject =>
  isRecord(record) &&
  typeof record.session_id === 'string' &&
  (((record.type === 'assistant' || record.type === 'user') && 'parent_tool_use_id' in record && isSaid(record)) ||
    (record.type === 'system' && record.subtype === 'init' && 'tools' in record) ||
    (record.type === 'result' && 'num_turns' in record));

const isSaid = ({ message }: JsonObject): boolean => isRecord(message) && 'content' in message;

export const claudeStream = lineFormat({
  name: NAME,
  summary: 'Output of Claude Code and its Agent SDK as stream-json: lines of {type, message, session_id, uuid}',
  isLine: isStreamed,
  // Neither times nor references: the parts of a stream are known, their order is not. A file grows, and is read again whole.
  joins: { names: sessionsIn },
  restatesRunsOf: ['claude-code'],
  convert,
});

function sessionsIn(lines: readonly unknown[]): string[] {
  return [
    ...new Set(lines.flatMap((line) => (isRecord(line) && isIdentifier(line.session_id) ? [line.session_id] : []))),
  ];
}

function convert(list: readonly unknown[], record: NativeRecord): Conversion {
  const facts = { ends: endsIn(list), agents: agentsIn(list) };
  /** The line before, by session and agent. */
  const before = new Map<string, string>();
  return convertSessions(
    NAME,
    list,
    record,
    (native, seq) => {
      const fields = sessionLine(native, seq, facts, list[seq + 1]);
      if (!isRecord(fields)) return [{ seq, fields: fields as never }];
      const { sessionId, uuid, agentId, type } = fields;
      const thread = JSON.stringify([sessionId, agentId]);
      // What an answer at the begin of a file was asked is not in it.
      const parentUuid = before.get(thread) ?? (type === 'assistant' ? `${asText(uuid)}/prompt` : undefined);
      if (type === 'assistant' || type === 'user') before.set(thread, asText(uuid));
      return [{ seq, fields: { ...fields, parentUuid }, isPlaced: true }];
    },
    (session, lines) => aroundOf(list, session, lines),
  );
}

/** A message as a line of a session. */
function sessionLine(
  native: unknown,
  seq: number,
  { ends, agents }: { readonly ends: ReturnType<typeof endsIn>; readonly agents: ReturnType<typeof agentsIn> },
  next: unknown,
): unknown {
  if (!isRecord(native) || typeof native.type !== 'string') return native;
  const { session_id: sessionId, uuid = `m${seq}`, parent_tool_use_id: by, agent_id: agent, ...rest } = native;
  const { message, isSynthetic, tool_use_result: result, subagent_type: kind, aborted, request_id, ...line } = rest;
  const own = { ...line, sessionId, uuid };
  // What is not of the conversation says nothing that is read here.
  if (native.type !== 'assistant' && native.type !== 'user')
    return native.subtype === 'compact_boundary' ? own : { type: native.type };
  const agentId = [agent, agents.get(by), by].find(isIdentifier);
  const end = isRecord(message) ? (ends.get(message.id) ?? restIn(message, next)) : undefined;
  return {
    ...own,
    message: isRecord(message)
      ? { ...message, ...end, ...(aborted === true ? { stop_reason: 'aborted' } : {}) }
      : message,
    agentId,
    isSidechain: agentId === undefined ? undefined : true,
    startedBy: by ?? undefined,
    attributionAgent: kind,
    requestId: request_id,
    isMeta: isSynthetic === true && agentId === undefined ? true : undefined,
    toolUseResult: result,
  };
}

/** The sub-agents, by the calls that started them: their own lines name them in newer versions alone. */
function agentsIn(list: readonly unknown[]) {
  const agents = new Map<unknown, unknown>();
  for (const one of list) {
    if (!isRecord(one)) continue;
    if (one.subtype === 'task_started' && one.task_type === 'local_agent') agents.set(one.tool_use_id, one.task_id);
    const [block] = blocksOf(one);
    const { tool_use_result: result } = one;
    if (isRecord(result) && isIdentifier(result.agentId)) agents.set(block?.tool_use_id, result.agentId);
  }
  return agents;
}

/** Qwen Code prints the words of an answer as a message of their own, billed with nothing; its calls of tools follow with another id. */
function restIn({ role, stop_reason: reason, usage }: JsonObject, next: unknown): JsonObject | undefined {
  if (role !== 'assistant' || reason || !isRecord(usage) || usage.input_tokens !== 0 || usage.output_tokens !== 0)
    return undefined;
  return isRecord(next) && next.type === 'assistant' && isRecord(next.message) ? { id: next.message.id } : undefined;
}

/** How answers ended, and what they were billed, by their ids: events of the Messages API say it, the answers only how they began. */
function endsIn(list: readonly unknown[]) {
  const ends = new Map<unknown, JsonObject>();
  const open = new Map<unknown, JsonObject>();
  for (const one of list) {
    if (!isRecord(one) || one.type !== 'stream_event' || !isRecord(one.event)) continue;
    const { event, parent_tool_use_id: by } = one;
    if (event.type === 'message_start' && isRecord(event.message)) open.set(by, event.message);
    if (event.type !== 'message_delta' || !open.has(by)) continue;
    const { id, usage: begun } = open.get(by)!;
    const stop_reason = isRecord(event.delta) ? event.delta.stop_reason : undefined;
    ends.set(id, { usage: { ...(begun as object), ...(event.usage as object) }, stop_reason: stop_reason ?? null });
  }
  return ends;
}

/** What the first and the last line say of a session. */
function aroundOf(list: readonly unknown[], session: string, lines: readonly Line[]) {
  const own = list.filter((one): one is JsonObject => isRecord(one) && one.session_id === session);
  const begin = own.find(({ type, subtype }) => type === 'system' && subtype === 'init') ?? {};
  const end = own.findLast(({ type }) => type === 'result');
  const { cwd, claude_code_version: version, permissionMode: permissions, model } = begin;
  const {
    subtype,
    result,
    is_error: failed,
    stop_reason: reason,
    usage,
    total_cost_usd,
    num_turns,
    modelUsage,
  } = end ?? {};
  const known = ['type', 'subtype', 'session_id', 'uuid', 'cwd', 'claude_code_version', 'permissionMode', 'model'];
  const answers = lines.filter(({ fields }) => fields.type === 'assistant' && fields.agentId === undefined);
  const outputs = new Map(answers.map(({ fields }) => [(fields.message as JsonObject).id, outputIn(fields.message)]));
  const billed = isRecord(usage) ? usage.output_tokens : undefined;
  const isWhole = billed === undefined || [...outputs.values()].reduce((sum, count) => sum + count, 0) === billed;
  return {
    // Without the events of the API an answer has the usage with which it began.
    flags: isWhole ? [] : ['usage_incomplete'],
    model: typeof model === 'string' ? model : undefined,
    started: { tags: without({ cwd, version, permissions }), unmapped: without(begin, ...known) },
    finished:
      end === undefined
        ? null
        : {
            outcome: failed === true || asText(subtype).startsWith('error') ? ('error' as const) : ('unknown' as const),
            answer: typeof result === 'string' ? result : undefined,
            stop_reason: [subtype === 'success' ? reason : subtype].find((one) => typeof one === 'string'),
            totals: without({
              total_cost_usd,
              num_turns,
              usage,
              model_usage: modelUsage,
              duration_ms: end.duration_ms,
            }),
            unmapped: without(
              end,
              'result',
              'usage',
              'total_cost_usd',
              'num_turns',
              'modelUsage',
              'duration_ms',
              'stop_reason',
              ...known,
              'is_error',
            ),
          },
  };
}

const outputIn = (message: unknown): number => {
  const usage = isRecord(message) && isRecord(message.usage) ? message.usage : {};
  return typeof usage.output_tokens === 'number' ? usage.output_tokens : 0;
};
