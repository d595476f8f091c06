/**
 * Sessions of GitHub Copilot CLI, `~/.copilot/session-state/<id>/events.jsonl`: events {type, id, parentId, timestamp, data}, read from the types
 * that github/copilot-sdk publishes (nodejs/src/generated/session-events.ts). What a sub-agent did names the call that started it.
 */
import { asText, given, isRecord, type JsonObject, put } from '../../events/json.ts';
import { writtenArguments } from '../../events/spelling.ts';
import { isIdentifier } from '../../events/text.ts';
import { type ChatMessage, toolCallsOf } from '../kit/chat-message.ts';
import { conversationTrace, type ListedMessage } from '../kit/message-list.ts';
import { format, Reader, unreadable } from '../kit/reader.ts';
import { timeOfText } from '../kit/run.ts';
import { usageOf } from '../kit/usage.ts';

const NAME = 'copilot-cli';
const MAIN = 'copilot';

type CopilotEvent = JsonObject & { readonly type: string; readonly data: JsonObject };

const isEvent = (one: unknown): one is CopilotEvent =>
  isRecord(one) &&
  /^(?:abort|[a-z_]+\.[a-z_]+)$/.test(asText(one.type)) &&
  isIdentifier(one.id) &&
  'parentId' in one &&
  'timestamp' in one &&
  isRecord(one.data);

/** Where the numbers of errors and of the first sub-agent begin, far behind the messages: they stay when a session grows. */
const [ERRORS, AGENTS] = [500_000, 1_000_000];

/** After these it is unknown what of the conversation the model was still shown. */
const CUTS = new Set([
  'session.compaction_complete',
  'session.truncation',
  'session.snapshot_rewind',
  'session.context_cleared',
]);

export const copilotCli = format({
  name: NAME,
  summary: 'Sessions of GitHub Copilot CLI, events.jsonl: {type, id, parentId, timestamp, data}',
  called: 'an event {type, id, parentId, timestamp, data}',
  recognises: isEvent,
  gathers: () => 'file',
  convert: () => unreadable('bad_shape', '', 'the events of a session', null),
  convertAll(lines, record) {
    const problems = new Reader({});
    const events = lines.flatMap((one, i) =>
      problems.attempt(() =>
        isEvent(one) ? one : unreadable('bad_shape', `[${i}]`, 'an event {type, id, parentId, timestamp, data}', one),
      ),
    );
    const start = new Reader(events.find(({ type }) => type === 'session.start')?.data ?? {});
    const end = events.find(({ type }) => type === 'session.shutdown')?.data;
    const of = (group: string) =>
      messagesOf(events.filter(({ data }) => asText(data.parentToolCallId ?? '') === group));
    const main = of('');
    const { trace, task, flags } = conversationTrace(NAME, record, main, {
      run: start.id('sessionId'),
      agentOf: () => MAIN,
      shown: !events.some(({ type }) => CUTS.has(type)),
    });
    trace.member(MAIN);
    let [errors, agents] = [0, 0];
    for (const { type, data } of events) {
      if (type === 'session.error') trace.observed(ERRORS + errors++, 'error', { content: data });
      const { toolCallId: id, agentName: name } = data;
      if (type !== 'subagent.started' || !isIdentifier(id) || !isIdentifier(name)) continue;
      const own = of(id);
      const seq = main.findIndex(({ message }) => toolCallsOf(message).some((call) => call.id === id));
      trace.handoff(Math.max(seq, 0), MAIN, trace.member(name), 'delegate', { tool_call_id: id });
      const known = new Map(own.map((one) => [one.message, one]));
      const first = AGENTS * ++agents;
      // The prompt of a sub-agent is in no event.
      trace.conversation(
        own.map(({ message }) => message),
        {
          ...{ agentOf: () => name, first, shown: false },
          about: (message) => ({ at: known.get(message)?.at ?? null, ...known.get(message)?.completed }),
        },
      );
    }
    const totals = isRecord(end?.modelMetrics) ? { modelMetrics: end.modelMetrics } : undefined;
    return trace.finish(
      {
        task,
        started: { native: { format: NAME, ids: start.these('sessionId') }, flags, unmapped: start.filledRest() },
        startedAt: timeOfText(start.native.startTime ?? events[0]?.timestamp),
        finished: {
          outcome: end?.shutdownType === 'error' ? 'error' : events.at(-1)?.type === 'abort' ? 'aborted' : 'unknown',
          totals,
        },
        finishedAt: timeOfText(events.at(-1)?.timestamp),
      },
      problems.problems,
    );
  },
});

/** The messages of one agent. Tools that the user started himself answer no call. */
function messagesOf(events: readonly CopilotEvent[]): ListedMessage[] {
  const listed: ListedMessage[] = [];
  const called = new Set<unknown>();
  for (const { type, data, timestamp } of events) {
    const at = timeOfText(timestamp);
    const last = listed.findLast(({ message }) => message.role === 'assistant');
    if (type === 'user.message')
      listed.push({ at, message: { role: 'user', content: asText(data.transformedContent ?? data.content ?? '') } });
    else if (type === 'system.message')
      listed.push({ at, message: { role: 'system', content: asText(data.content ?? '') } });
    else if (type === 'assistant.message') {
      const { content, reasoningText: thought, toolRequests, model, outputTokens } = data;
      const calls = (Array.isArray(toolRequests) ? toolRequests : []).filter(isRecord).map(callOf);
      for (const { id } of calls) called.add(id);
      const message: ChatMessage = {
        role: 'assistant',
        content: content === '' || content == null ? null : asText(content),
        ...(typeof thought === 'string' && thought !== '' ? { reasoning_content: thought } : {}),
        ...(calls.length > 0 ? { tool_calls: calls } : {}),
      };
      const usage = usageOf(typeof outputTokens === 'number' ? { output_tokens: outputTokens } : undefined);
      listed.push({
        at,
        message,
        completed: { ...given('response_model', isIdentifier(model) ? model : undefined), ...given('usage', usage) },
      });
    } else if (type === 'assistant.usage' && last) {
      const { inputTokens, outputTokens, cacheReadTokens, cacheWriteTokens, reasoningTokens } = data;
      const counts: Record<string, unknown> = {};
      const names = { input_tokens: inputTokens, output_tokens: outputTokens, cached_input_tokens: cacheReadTokens };
      for (const [name, count] of Object.entries({
        ...names,
        cache_write_input_tokens: cacheWriteTokens,
        reasoning_tokens: reasoningTokens,
      }))
        if (typeof count === 'number') put(counts, name, count);
      listed[listed.indexOf(last)] = { ...last, completed: { ...last.completed, ...given('usage', usageOf(counts)) } };
    } else if (type === 'tool.execution_complete' && called.has(data.toolCallId)) {
      const { result, error, success, toolCallId: id } = data;
      const told = isRecord(result) ? result.content : isRecord(error) ? error.message : (result ?? error);
      const content = typeof told === 'string' ? told : writtenArguments(told ?? null);
      listed.push({
        at,
        message: { role: 'tool', tool_call_id: id, content, ...(success === false ? { is_error: true } : {}) },
      });
    }
  }
  return listed;
}

function callOf({ toolCallId: id, name, type, arguments: input = {} }: JsonObject): JsonObject {
  if (type === 'custom') return { id, type, custom: { name, input } };
  return {
    id,
    type: 'function',
    function: { name, arguments: typeof input === 'string' ? input : writtenArguments(input) },
  };
}
