/**
 * Trajectories of mini-swe-agent, `<instance>.traj.json`: `{trajectory_format: "mini-swe-agent-1.1", info, messages, instance_id?}`. Read
 * from what version 2.4.6 (PyPI) writes with each of its three models (calls of tools, actions in text, Responses API) against a
 * scripted model server, and from the writer of version 1.17.3, whose files (`mini-swe-agent-1`) hold no actions beside the answers.
 */
import type { Message } from '../../events/events.ts';
import { asText, given, isRecord, type JsonObject, without } from '../../events/json.ts';
import {
  badMessage,
  type ChatMessage,
  type ChatToolCall,
  textIn,
  toMessage,
  toolCallsOf,
} from '../kit/chat-message.ts';
import { APPARENT_ERROR } from '../kit/conversation.ts';
import { finishReasonIn } from '../kit/finish-reason.ts';
import type { NativeRefusal } from '../kit/format.ts';
import { badIdentifier, refusal } from '../kit/native.ts';
import { calledIn, responseContent, responseInput } from '../kit/openai-responses.ts';
import { format, unreadable } from '../kit/reader.ts';
import { taskOf, timeOfSeconds } from '../kit/run.ts';
import { Trace } from '../kit/trace.ts';
import { usageOf } from '../kit/usage.ts';

const NAME = 'mini-swe-agent';
const AGENT = 'agent';

const fieldsOf = (value: unknown): JsonObject => (isRecord(value) ? value : {});
export const isTrajectory = (record: unknown): record is JsonObject =>
  isRecord(record) && asText(record.trajectory_format).startsWith('mini-swe-agent-') && 'messages' in record;

export const miniSweAgent = format({
  name: NAME,
  summary: 'Trajectories of mini-swe-agent: {trajectory_format: "mini-swe-agent-1.1", info, messages}',
  called: 'a trajectory',
  recognises: isTrajectory,
  convert({ native, problems }, record) {
    const { messages, info: about, instance_id: instance, trajectory_format: version, ...more } = native;
    if (!Array.isArray(messages) || messages.length === 0)
      return unreadable('bad_type', 'messages', 'a list of messages', messages);
    const { exit_status: status, submission, model_stats: stats, mini_version, ...facts } = fieldsOf(about);
    const entries = messages.flatMap((message: unknown, seq): [number, JsonObject][] => {
      const bad = badEntry(message, `messages[${seq}]`);
      if (bad) problems.push(bad);
      return bad ? [] : [[seq, message as JsonObject]];
    });
    const patch = typeof submission === 'string' && submission !== '' ? submission : undefined;
    const model = fieldsOf(fieldsOf(facts.config).model).model_name;
    const asked = entries.find(([, { role }]) => role === 'user');
    const trace = Trace.of(NAME, record);
    addMessages(trace, entries, version === 'mini-swe-agent-1');
    trace.patch(patch);
    const run = {
      task: taskOf(NAME, textIn(asked?.[1].content), {}, instance),
      started: {
        native: { format: NAME, ...given('version', mini_version) },
        unmapped: without({ ...more, ...facts }),
      },
      startedAt: timeOf(entries[0]?.[1]),
      agents: [{ agent_id: AGENT, model: typeof model === 'string' ? model : undefined }],
      finished: {
        outcome: outcomeOf(status),
        answer: patch,
        exit_status: typeof status === 'string' && status !== '' ? status : undefined,
        totals: isRecord(stats) ? stats : undefined,
      },
      finishedAt: entries.map(([, message]) => timeOf(message)).findLast((time) => time !== null) ?? null,
    };
    return trace.finish(run, problems);
  },
});

/** Version 1 notes the time of every message, version 2 those of answers and results. */
const timeOf = (native: JsonObject | undefined): string | null =>
  timeOfSeconds(fieldsOf(native?.extra).timestamp ?? native?.timestamp);
const isResponse = (native: JsonObject): boolean => native.object === 'response';
const isOutput = (native: JsonObject): boolean => native.type === 'function_call_output';

/** Why an entry is not read; null where it is. `exit` says how the run ended, and is shown to nobody. */
function badEntry(native: unknown, field: string): NativeRefusal | null {
  if (!isRecord(native)) return refusal('bad_type', field, 'a message object', native);
  if (isOutput(native)) return badIdentifier(native.call_id, `${field}.call_id`);
  if (isResponse(native)) {
    const isItem = (item: unknown): boolean => isRecord(item) && typeof item.type === 'string';
    const isList = Array.isArray(native.output) && native.output.every(isItem);
    return isList ? null : refusal('bad_type', `${field}.output`, 'a list of items with a type', native.output);
  }
  if (native.role === 'exit') return null;
  const bad = native.role === 'tool' ? badIdentifier(native.tool_call_id, `${field}.tool_call_id`) : null;
  return bad ?? badMessage(native, field);
}

/** What the model server answered, as a message, and the tool calls in it. */
function answerOf(native: JsonObject): { readonly message: Message; readonly calls: readonly ChatToolCall[] } {
  if (isResponse(native)) {
    const output = native.output as readonly unknown[];
    const calls = output.flatMap((item) => (isRecord(item) ? (calledIn(item) ?? []) : []));
    return { message: { role: 'assistant', content: responseContent(output) } as Message, calls };
  }
  const { content, reasoning_content: thought, tool_calls: asked } = native;
  const message = {
    role: 'assistant',
    content,
    ...(typeof thought === 'string' ? { reasoning_content: thought } : {}),
    ...(Array.isArray(asked) ? { tool_calls: asked } : {}),
  } as ChatMessage;
  return { message: toMessage(message), calls: toolCallsOf(message) };
}

/**
 * The commands of an answer in text. Version 1 finds them as blocks (`bash` or `mswea_bash_command`, a line break, the command, a line
 * break), unless its configuration has another pattern, and keeps the answer alone.
 */
function commandsIn(text: string): string[] {
  const opening = /```(?:bash|mswea_bash_command)(\s*\n)/g;
  const found: string[] = [];
  for (let block = opening.exec(text); block; block = opening.exec(text)) {
    const from = opening.lastIndex;
    const to = text.indexOf('\n```', from);
    if (to < 0) {
      // Of a block of line breaks alone the last one ends it.
      const isBlank = text.startsWith('```', from) && block[1]!.split('\n').length > 2;
      return isBlank ? [...found, ''] : found;
    }
    found.push(text.slice(from, to).trim());
    opening.lastIndex = to + 4;
  }
  return found;
}

/** Adds one answer of the model with its tool calls; what it is in a conversation. Actions in text have no id and stay `open`. */
function addAnswer(
  trace: Trace,
  [seq, turn]: readonly [number, number],
  native: JsonObject,
  extra: JsonObject,
  input: Message[],
  isFirst: boolean,
) {
  const { message, calls } = answerOf(native);
  const response = isResponse(native) ? native : fieldsOf(extra.response);
  const call = { seq, call_id: `m${seq}`, agent_id: AGENT, turn };
  const time = timeOf(native);
  const usage = usageOf({ ...fieldsOf(response.usage), cost: extra.cost });
  const choice = Array.isArray(response.choices) ? fieldsOf(response.choices[0]) : {};
  trace.add('generation.requested', [seq], { ...call, input });
  trace.add(
    'generation.completed',
    [seq],
    {
      ...call,
      choices: [{ index: 0, content: message.content, finish_reason: finishReasonIn(choice, response) }],
      response_model: typeof response.model === 'string' ? response.model : undefined,
      usage,
      unmapped: usage?.cost_usd === undefined ? without({ cost: extra.cost }) : undefined,
    },
    time,
  );
  const actions = (calls.length > 0 ? [] : actionsOf(native, extra, isFirst)).map((command, i) => ({
    ...{ id: `m${seq}/${i}`, name: 'bash', type: 'code', arguments: { command } },
    ...{ arguments_raw: null, parse_error: null },
  }));
  for (const [index, { id, ...asked }] of [...calls, ...actions].entries())
    trace.tool(seq, index, id, { ...call, ...asked }, time);
  return { message, open: actions.map(({ id }) => id) };
}

function addMessages(trace: Trace, entries: readonly (readonly [number, JsonObject])[], isFirst: boolean): void {
  const before: Message[] = [];
  /** Actions in text whose output has not come. */
  let open: string[] = [];
  let turn = 0;
  for (const [seq, native] of entries) {
    const extra = fieldsOf(native.extra);
    if (native.role === 'exit') continue;
    if (native.role === 'assistant' || isResponse(native)) {
      const answer = addAnswer(trace, [seq, turn++], native, extra, [...before], isFirst);
      open = answer.open;
      before.push(answer.message);
      continue;
    }
    const shown = shownOf(native);
    const isResult = 'returncode' in extra || (isFirst && native.role === 'user');
    const ofAction = (): string | undefined => (isResult ? open.shift() : undefined);
    const id = native.role === 'tool' ? native.tool_call_id : isOutput(native) ? native.call_id : ofAction();
    const time = timeOf(native);
    if (typeof id === 'string') {
      const text = textIn(native.content ?? native.output) ?? '';
      const code = extra.returncode ?? /^<returncode>(-?\d+)</.exec(text)?.[1];
      const failed = typeof extra.exception_info === 'string' && extra.exception_info !== '';
      const isBad = !failed && code !== undefined && code !== null && Number(code) !== 0;
      const { returncode, exception_info } = extra;
      const returned = {
        status: failed ? 'error' : 'ok',
        output: shown.content,
        flags: isBad ? [APPARENT_ERROR] : undefined,
        unmapped: without({ returncode, exception_info: failed ? exception_info : undefined }),
      } as const;
      trace.result(seq, id, returned, time);
    } else {
      // The answer that could not be read stands beside the words about it alone; the model is not shown it again.
      const unread = fieldsOf(extra.response);
      const choice = Array.isArray(unread.choices) ? fieldsOf(unread.choices[0]).message : unread;
      if (extra.interrupt_type === 'FormatError' && badEntry(choice, '') === null && isRecord(choice))
        open.push(...addAnswer(trace, [seq, turn++], choice, extra, [...before], isFirst).open);
      const { role, content } = shown;
      trace.add('message.sent', [seq], { seq, message_id: `m${seq}`, from: role, role, content }, time);
    }
    before.push(shown);
  }
}

/** The commands of an answer in text: those that the program read, in the first version the only one there is. */
function actionsOf(native: JsonObject, extra: JsonObject, isFirst: boolean): unknown[] {
  if (Array.isArray(extra.actions)) return extra.actions.map((action) => fieldsOf(action).command ?? action);
  const found = isFirst ? commandsIn(String(textIn(native.content) ?? '')) : [];
  return found.length === 1 ? found : [];
}

/** A message as later calls are shown it: what the program notes of it (`extra`) is not. */
function shownOf(native: JsonObject): Message {
  const { extra, timestamp, ...shown } = native;
  return isOutput(native) || native.type === 'message' ? responseInput([shown])[0]! : toMessage(shown as ChatMessage);
}

/** How a run ended does not show whether its patch is right. */
function outcomeOf(status: unknown) {
  if (typeof status !== 'string' || status === '' || status === 'Submitted') return 'unknown' as const;
  if (/Time/.test(status)) return 'timeout' as const;
  return /^(LimitsExceeded|UserInterruption|RepeatedFormatError)$/.test(status)
    ? ('aborted' as const)
    : ('error' as const);
}
