/** The messages of one session of opencode as events. */
import type { Draft, Message, Part } from '../../events/events.ts';
import { given, isRecord, type JsonObject, without } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import { resultFlags } from '../kit/conversation.ts';
import type { Emitter } from '../kit/native.ts';
import { timeOfSeconds } from '../kit/run.ts';
import { usageOf } from '../kit/usage.ts';
import type { SessionMessage } from './opencode-records.ts';

export type Thread = {
  readonly episodeId: string;
  readonly agentId: string;
  /** Who asks: the user, or the agent that gave the task. */
  readonly asker: string;
};

/** One call of the model: an answer of several steps is one message in versions before 2026. */
type Step = { readonly parts: readonly JsonObject[]; readonly number: number; readonly isLast: boolean };

/** The events of a session. A call's input is the messages before it, from the last compaction that completed. */
export function threadDrafts(emit: Emitter, messages: readonly SessionMessage[], thread: Thread): Draft[] {
  const drafts: Draft[] = [];
  let context: { readonly id: string; readonly shown: Message }[] = [];
  let compaction: SessionMessage | null = null;
  for (const [seq, message] of messages.entries()) {
    const { id } = message.info;
    if (message.info.role === 'user') {
      if (message.parts.some(({ type }) => type === 'compaction')) compaction = message;
      const shown = { role: 'user', content: message.parts.filter(({ ignored }) => ignored !== true).map(partOf) };
      drafts.push(sentDraft(emit, message, seq, thread));
      context = [...context, { id, shown }];
      continue;
    }
    for (const step of stepsOf(message.parts)) {
      const input = context.map(({ shown }) => shown);
      drafts.push(...stepDrafts(emit, message, step, input, seq, thread));
      const results = step.parts.filter(({ type }) => type === 'tool').flatMap(resultShown);
      // An answer that failed is not shown to later calls.
      const failed = message.info.error !== undefined && step.isLast;
      if (!failed) {
        const answer = { role: 'assistant', content: step.parts.flatMap(answerPart) };
        context = [...context, ...[answer, ...results].map((shown) => ({ id, shown }))];
      }
    }
    if (message.info.summary === true && message.info.error === undefined && compaction) {
      const { id: from, tail } = { id: compaction.info.id, tail: tailOf(compaction) };
      const at = context.findIndex((one) => one.id === from);
      const kept = tail === null ? -1 : context.findIndex((one) => one.id === tail);
      context = [...context.slice(at), ...(kept < 0 ? [] : context.slice(kept, at))];
    }
  }
  return drafts;
}

const tailOf = ({ parts }: SessionMessage): string | null => {
  const tail = parts.find(({ type }) => type === 'compaction')?.tail_start_id;
  return isIdentifier(tail) ? tail : null;
};

function stepsOf(parts: readonly JsonObject[]): Step[] {
  const lists: JsonObject[][] = [[]];
  for (const part of parts) {
    if (part.type === 'step-start' && lists.at(-1)!.some(({ type }) => type === 'step-finish')) lists.push([]);
    lists.at(-1)!.push(part);
  }
  return lists.map((own, i) => ({ parts: own, number: i + 1, isLast: i === lists.length - 1 }));
}

const timeOfMs = (milliseconds: unknown): string | null =>
  typeof milliseconds === 'number' ? timeOfSeconds(milliseconds / 1000) : null;
const timesOf = (part: JsonObject): JsonObject => {
  const of = part.type === 'tool' ? stateOf(part).time : part.time;
  return isRecord(of) ? of : {};
};
const stateOf = ({ state }: JsonObject): JsonObject => state as JsonObject;

/** Sessions of one run stand beside each other, so that times order them; the place does where there is no time. */
const placeOf = ({ episodeId }: Thread, seq: number, time: string | null) => ({
  episode_id: episodeId,
  ...(time === null ? { seq } : {}),
});

function sentDraft(emit: Emitter, { info, parts }: SessionMessage, seq: number, thread: Thread): Draft {
  const time = timeOfMs(isRecord(info.time) ? info.time.created : undefined);
  return emit.event(
    'message.sent',
    [thread.episodeId, info.id],
    {
      ...placeOf(thread, seq, time),
      message_id: info.id,
      from: thread.asker,
      to: [thread.agentId],
      role: 'user',
      content: parts.map(partOf),
      ...given('unmapped', without(info, 'id', 'sessionID', 'role', 'time')),
    },
    time,
  );
}

function stepDrafts(
  emit: Emitter,
  message: SessionMessage,
  step: Step,
  input: Message[],
  seq: number,
  thread: Thread,
): Draft[] {
  const { info } = message;
  const { parts, number, isLast } = step;
  const id = number === 1 ? info.id : `${info.id}/${number}`;
  const time: JsonObject = isRecord(info.time) ? info.time : {};
  const tools = parts.filter(({ type }) => type === 'tool');
  // The message ends when its tools have; the model had answered when the first of them began.
  const began = tools.map((part) => timesOf(part).start).filter((start) => typeof start === 'number');
  const ended = parts.map((part) => timesOf(part).end).filter((end) => typeof end === 'number');
  const answeredAt =
    began.length > 0 ? Math.min(...began) : isLast ? time.completed : Math.max(...ended, 0) || undefined;
  const [asked, answered] = [number === 1 ? timeOfMs(time.created) : null, timeOfMs(answeredAt)];
  const finish = parts.find(({ type }) => type === 'step-finish');
  const about = { call_id: id, agent_id: thread.agentId };
  const model = typeof info.modelID === 'string' ? info.modelID : undefined;
  const content = parts.flatMap(answerPart);
  const error = isLast ? info.error : undefined;
  const reason = finish?.reason ?? (isLast ? info.finish : undefined) ?? cutBy(error);
  const other = without(
    { ...info, cost: finish?.cost },
    ...['id', 'sessionID', 'role', 'time', 'parentID', 'modelID', 'tokens', 'finish', 'error', 'agent', 'path'],
  );
  return [
    emit.event(
      'generation.requested',
      [thread.episodeId, id],
      { ...placeOf(thread, seq, asked), ...about, ...given('model', model), input },
      asked,
    ),
    emit.event(
      'generation.completed',
      [thread.episodeId, id],
      {
        ...placeOf(thread, seq, answered),
        ...about,
        choices:
          content.length === 0
            ? []
            : [{ index: 0, content, ...(typeof reason === 'string' ? { finish_reason: reason } : {}) }],
        ...given('response_model', model),
        ...given('usage', isRecord(finish?.tokens) ? usageOf({ ...finish.tokens, cost: finish.cost }) : undefined),
        ...given('error', error),
        ...given('unmapped', other),
      },
      answered,
    ),
    ...tools.flatMap((part, index) => toolDrafts(emit, part, { ...about, index }, seq, thread)),
    ...parts.flatMap((part): Draft[] => {
      if (part.type !== 'retry' && part.type !== 'patch') return [];
      const at = timeOfMs(timesOf(part).created);
      const data = { ...placeOf(thread, seq, at), kind: part.type, content: bodyOf(part) };
      return [emit.event('environment.observed', [thread.episodeId, part.id as string], data, at)];
    }),
  ];
}

/** Why an answer that failed is not whole, by the name of its error. */
function cutBy(error: unknown): string | undefined {
  if (error == null) return undefined;
  const name = isRecord(error) ? error.name : undefined;
  return name === 'MessageOutputLengthError' ? 'length' : name === 'MessageAbortedError' ? 'aborted' : 'error';
}

function toolDrafts(
  emit: Emitter,
  part: JsonObject,
  call: { readonly call_id: string; readonly agent_id: string; readonly index: number },
  seq: number,
  thread: Thread,
): Draft[] {
  const { episodeId, agentId } = thread;
  const { status, input, output, error, title, metadata, attachments } = stateOf(part);
  const { start, end } = timesOf(part);
  const [began, ended] = [timeOfMs(start), timeOfMs(end)];
  const id = part.id as string;
  const native = { tool_call_id: part.callID };
  const child = isRecord(metadata) ? (metadata.sessionId ?? metadata.sessionID) : undefined;
  const failed = status === 'error';
  return [
    emit.event(
      'tool.called',
      [episodeId, id],
      {
        ...placeOf(thread, seq, began),
        ...call,
        tool_call_id: id,
        name: part.tool as string,
        type: 'function',
        arguments: input ?? null,
        native,
      },
      began,
    ),
    ...(part.tool === 'task' && isIdentifier(child)
      ? [
          emit.event(
            'control.transferred',
            [episodeId, id],
            {
              ...placeOf(thread, seq, began),
              from_agent: agentId,
              to_agent: child,
              kind: 'delegate' as const,
              tool_call_id: id,
              ...(typeof title === 'string' ? { reason: title } : {}),
            },
            began,
          ),
        ]
      : []),
    ...(failed || status === 'completed'
      ? [
          emit.event(
            'tool.returned',
            [episodeId, id],
            {
              ...placeOf(thread, seq, ended),
              tool_call_id: id,
              status: failed ? ('error' as const) : ('ok' as const),
              ...given('output', (failed ? error : output) as string | undefined),
              ...resultFlags(failed ? error : output),
              ...(typeof start === 'number' && typeof end === 'number' && end >= start
                ? { duration_ms: end - start }
                : {}),
              native,
              ...given('unmapped', without({ title, metadata, attachments })),
            },
            ended,
          ),
        ]
      : []),
  ];
}

const bodyOf = (part: JsonObject): JsonObject | undefined => without(part, 'id', 'sessionID', 'messageID', 'type');

function partOf(part: JsonObject): Part {
  const { text, ...rest } = bodyOf(part) ?? {};
  const type = part.type as string;
  return typeof text === 'string' ? { ...rest, type, content: text } : { ...rest, type };
}

/** What the model wrote of a part. */
function answerPart(part: JsonObject): Part[] {
  if (part.type === 'tool')
    return [{ type: 'tool_call', id: part.id, name: part.tool, arguments: stateOf(part).input } as Part];
  return part.type === 'text' || part.type === 'reasoning' ? [partOf(part)] : [];
}

/** The result of a tool as a later call is shown it. Old outputs are cleared (`time.compacted`), calls without an end are left out. */
function resultShown(part: JsonObject): Message[] {
  const { status, output, error, time } = stateOf(part);
  if (status !== 'completed' && status !== 'error') return [];
  const cleared = isRecord(time) && typeof time.compacted === 'number';
  const content = cleared ? [{ type: 'cleared' }] : status === 'error' ? error : output;
  return [
    { role: 'tool', content, tool_call_id: part.id, ...(status === 'error' ? { is_error: true } : {}) } as Message,
  ];
}
