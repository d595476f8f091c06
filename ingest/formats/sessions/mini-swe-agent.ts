/**
 * Trajectories of mini-swe-agent, `<instance>.traj.json`: `{trajectory_format: "mini-swe-agent-1.1", info, messages, instance_id?}`. Read
 * from what version 2.4.6 (PyPI) writes with each of its three models (calls of tools, actions in text, Responses API) against a
 * scripted model server, and from the writer of version 1.17.3, whose files (`mini-swe-agent-1`) hold no actions beside the answers.
 */
import type { Draft, Message } from '../../events/events.ts';
import { asText, given, isRecord, type JsonObject, without } from '../../events/json.ts';
import {
  badMessage,
  type ChatMessage,
  type ChatToolCall,
  textIn,
  toMessage,
  toolCallsOf,
} from '../kit/chat-message.ts';
import { APPARENT_ERROR, toolLedger } from '../kit/conversation.ts';
import { finishReasonIn } from '../kit/finish-reason.ts';
import type { Conversion, Format, NativeRecord, NativeRefusal } from '../kit/format.ts';
import { badIdentifier, emitterFor, recordId, refusal, refused } from '../kit/native.ts';
import { calledIn, responseContent, responseInput } from '../kit/openai-responses.ts';
import { NO_TOKEN_IDS, patchDraft, runDrafts, taskOf, timeOfSeconds } from '../kit/run.ts';
import { usageOf } from '../kit/usage.ts';

const NAME = 'mini-swe-agent';
const AGENT = 'agent';
const emit = emitterFor(NAME);

const fieldsOf = (value: unknown): JsonObject => (isRecord(value) ? value : {});
export const isTrajectory = (record: unknown): record is JsonObject =>
  isRecord(record) && asText(record.trajectory_format).startsWith('mini-swe-agent-') && 'messages' in record;

export const miniSweAgent: Format = {
  name: NAME,
  summary: 'Trajectories of mini-swe-agent: {trajectory_format: "mini-swe-agent-1.1", info, messages}',
  recognises: ({ records }) => records.some(isTrajectory),
  convert,
  restates: new Set(['task.defined']),
};

function convert(record: NativeRecord): Conversion {
  if (!isTrajectory(record.value)) return refused(refusal('bad_shape', '', 'a trajectory', record.value));
  const { messages, info: about, instance_id: instance, trajectory_format: version, ...more } = record.value;
  if (!Array.isArray(messages) || messages.length === 0)
    return refused(refusal('bad_type', 'messages', 'a list of messages', messages));
  const info = fieldsOf(about);
  const { exit_status: status, submission, model_stats: stats, ...facts } = info;
  const episodeId = recordId(NAME, record);
  const refusals: NativeRefusal[] = [];
  const entries = messages.flatMap((native: unknown, seq): [number, JsonObject][] => {
    const bad = badEntry(native, `messages[${seq}]`);
    if (bad) refusals.push(bad);
    return bad ? [] : [[seq, native as JsonObject]];
  });
  const patch = typeof submission === 'string' && submission !== '' ? submission : null;
  const model = fieldsOf(fieldsOf(info.config).model).model_name;
  const asked = entries.find(([, { role }]) => role === 'user');
  return {
    drafts: runDrafts(emit, {
      format: NAME,
      episodeId,
      canonical: record.canonical,
      task: taskOf(NAME, textIn(asked?.[1].content), {}, instance),
      started: {
        native: { format: NAME, ...given('version', facts.mini_version) },
        flags: [NO_TOKEN_IDS, ...(refusals.length > 0 ? ['incomplete'] : [])],
        ...given('unmapped', without({ ...more, ...without(facts, 'mini_version') })),
      },
      startedAt: timeOf(entries[0]?.[1]),
      agents: [{ agent_id: AGENT, ...(typeof model === 'string' ? { model } : {}) }],
      events: [
        ...messageDrafts(entries, episodeId, version === 'mini-swe-agent-1'),
        ...(patch === null ? [] : [patchDraft(emit, episodeId, patch)]),
      ],
      finished: {
        outcome: outcomeOf(status),
        ...(patch === null ? {} : { answer: patch }),
        ...(typeof status === 'string' && status !== '' ? { exit_status: status } : {}),
        ...(isRecord(stats) ? { totals: stats } : {}),
      },
      finishedAt: entries.map(([, native]) => timeOf(native)).findLast((time) => time !== null) ?? null,
    }),
    refusals,
    raw: record.canonical,
    ...(patch === null ? {} : { bodies: [patch] }),
  };
}

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

function messageDrafts(
  entries: readonly (readonly [number, JsonObject])[],
  episodeId: string,
  isFirst: boolean,
): Draft[] {
  const drafts: Draft[] = [];
  const before: Message[] = [];
  const ledger = toolLedger();
  /** Actions in text whose output has not come: it has no id. */
  const open: string[] = [];
  let turn = 0;

  const answered = (seq: number, native: JsonObject, extra: JsonObject): Message => {
    const { message, calls } = answerOf(native);
    const response = isResponse(native) ? native : fieldsOf(extra.response);
    const call = { episode_id: episodeId, seq, call_id: `m${seq}`, agent_id: AGENT, turn: turn++ };
    const time = timeOf(native);
    const usage = usageOf({ ...fieldsOf(response.usage), cost: extra.cost });
    const choice = Array.isArray(response.choices) ? fieldsOf(response.choices[0]) : {};
    drafts.push(
      emit.event('generation.requested', [episodeId, seq], { ...call, input: [...before] }),
      emit.event(
        'generation.completed',
        [episodeId, seq],
        {
          ...call,
          choices: [
            {
              index: 0,
              ...given('content', message.content),
              ...given('finish_reason', finishReasonIn(choice, response)),
            },
          ],
          ...(typeof response.model === 'string' ? { response_model: response.model } : {}),
          usage,
          unmapped: usage?.cost_usd === undefined ? without({ cost: extra.cost }) : undefined,
        },
        time,
      ),
    );
    const actions = (calls.length > 0 ? [] : actionsOf(native, extra, isFirst)).map((command, i) => ({
      id: `m${seq}/${i}`,
      name: 'bash',
      type: 'code',
      arguments: { command },
      arguments_raw: null,
      parse_error: null,
    }));
    open.push(...actions.map(({ id }) => id));
    const asked = [...calls, ...actions];
    for (const [index, { id, ...what }] of asked.entries()) {
      const own = { ...call, tool_call_id: ledger.call(id), index, ...what, native: { tool_call_id: id } };
      drafts.push(emit.event('tool.called', [episodeId, seq, index], own, time));
    }
    return message;
  };

  for (const [seq, native] of entries) {
    const extra = fieldsOf(native.extra);
    if (native.role === 'exit') continue;
    if (native.role === 'assistant' || isResponse(native)) {
      open.length = 0;
      before.push(answered(seq, native, extra));
      continue;
    }
    const shown = shownOf(native);
    const isResult = 'returncode' in extra || (isFirst && native.role === 'user');
    const id =
      native.role === 'tool'
        ? native.tool_call_id
        : isOutput(native)
          ? native.call_id
          : isResult
            ? open.shift()
            : undefined;
    const time = timeOf(native);
    const about = { episode_id: episodeId, seq };
    if (typeof id === 'string') {
      const text = textIn(native.content ?? native.output) ?? '';
      const code = extra.returncode ?? /^<returncode>(-?\d+)</.exec(text)?.[1];
      const failed = typeof extra.exception_info === 'string' && extra.exception_info !== '';
      const returned = {
        ...about,
        tool_call_id: ledger.result(id),
        status: failed ? ('error' as const) : ('ok' as const),
        ...given('output', shown.content),
        ...(!failed && code !== undefined && code !== null && Number(code) !== 0 ? { flags: [APPARENT_ERROR] } : {}),
        native: { tool_call_id: id },
        ...given(
          'unmapped',
          without({ returncode: extra.returncode, exception_info: failed ? extra.exception_info : undefined }),
        ),
      };
      drafts.push(emit.event('tool.returned', [episodeId, seq], returned, time));
    } else {
      // The answer that could not be read stands beside the words about it alone; the model is not shown it again.
      const unread = fieldsOf(extra.response);
      const choice = Array.isArray(unread.choices) ? fieldsOf(unread.choices[0]).message : unread;
      if (extra.interrupt_type === 'FormatError' && badEntry(choice, '') === null && isRecord(choice))
        answered(seq, choice, extra);
      const { role, content } = shown;
      const data = { ...about, message_id: `m${seq}`, from: role, role, ...given('content', content) };
      drafts.push(emit.event('message.sent', [episodeId, seq], data, time));
    }
    before.push(shown);
  }
  return drafts;
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
