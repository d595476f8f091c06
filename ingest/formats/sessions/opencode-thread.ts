/** The messages of one session of opencode as events. */
import type { Message, Part } from '../../events/events.ts';
import { isRecord, type JsonObject, without } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import { resultFlags } from '../kit/conversation.ts';
import { timeOfMs } from '../kit/run.ts';
import type { Trace } from '../kit/trace.ts';
import { usageOf } from '../kit/usage.ts';
import type { SessionMessage } from './opencode-records.ts';

/** One call of the model: an answer of several steps is one message in versions before 2026. */
type Step = { readonly parts: readonly JsonObject[]; readonly number: number; readonly isLast: boolean };

/**
 * Adds the events of a session, of which `asker` is the user or the agent that gave the task. A call's input is the messages before it,
 * from the last compaction that completed.
 */
export function addThread(trace: Trace, messages: readonly SessionMessage[], agentId: string, asker: string): void {
  let context: { readonly id: string; readonly shown: Message }[] = [];
  let compaction: SessionMessage | null = null;
  for (const [seq, message] of messages.entries()) {
    const { id } = message.info;
    if (message.info.role === 'user') {
      if (message.parts.some(({ type }) => type === 'compaction')) compaction = message;
      const shown = { role: 'user', content: message.parts.filter(({ ignored }) => ignored !== true).map(partOf) };
      addSent(trace, message, seq, asker, agentId);
      context = [...context, { id, shown }];
      continue;
    }
    for (const step of stepsOf(message.parts)) {
      const input = context.map(({ shown }) => shown);
      addStep(trace, message, step, input, seq, agentId);
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

const timesOf = (part: JsonObject): JsonObject => {
  const of = part.type === 'tool' ? stateOf(part).time : part.time;
  return isRecord(of) ? of : {};
};
const stateOf = ({ state }: JsonObject): JsonObject => state as JsonObject;

/** Sessions of one run stand beside each other, so that times order them; the place does where there is no time. */
const placeOf = (seq: number, time: string | null) => (time === null ? { seq } : {});

function addSent(trace: Trace, { info, parts }: SessionMessage, seq: number, from: string, to: string): void {
  const time = timeOfMs(isRecord(info.time) ? info.time.created : undefined);
  const unmapped = without(info, 'id', 'sessionID', 'role', 'time');
  const sent = { message_id: info.id, from, to: [to], role: 'user', content: parts.map(partOf), unmapped };
  trace.add('message.sent', [info.id], { ...placeOf(seq, time), ...sent }, time);
}

function addStep(
  trace: Trace,
  { info }: SessionMessage,
  { parts, number, isLast }: Step,
  input: Message[],
  seq: number,
  agentId: string,
): void {
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
  const about = { call_id: id, agent_id: agentId };
  const model = typeof info.modelID === 'string' ? info.modelID : undefined;
  const content = parts.flatMap(answerPart);
  const error = isLast ? info.error : undefined;
  const reason = finish?.reason ?? (isLast ? info.finish : undefined) ?? cutBy(error);
  trace.add('generation.requested', [id], { ...placeOf(seq, asked), ...about, model, input }, asked);
  trace.add(
    'generation.completed',
    [id],
    {
      ...placeOf(seq, answered),
      ...about,
      choices:
        content.length === 0
          ? []
          : [{ index: 0, content, finish_reason: typeof reason === 'string' ? reason : undefined }],
      response_model: model,
      usage: isRecord(finish?.tokens) ? usageOf({ ...finish.tokens, cost: finish.cost }) : undefined,
      error,
      unmapped: without(
        { ...info, cost: finish?.cost },
        ...['id', 'sessionID', 'role', 'time', 'parentID', 'modelID', 'tokens', 'finish', 'error', 'agent', 'path'],
      ),
    },
    answered,
  );
  for (const [index, part] of tools.entries()) addTool(trace, part, { ...about, index }, seq);
  for (const part of parts) {
    if (part.type !== 'retry' && part.type !== 'patch') continue;
    const at = timeOfMs(timesOf(part).created);
    const data = { ...placeOf(seq, at), kind: part.type, content: bodyOf(part) };
    trace.add('environment.observed', [part.id as string], data, at);
  }
}

/** Why an answer that failed is not whole, by the name of its error. */
function cutBy(error: unknown): string | undefined {
  if (error == null) return undefined;
  const name = isRecord(error) ? error.name : undefined;
  return name === 'MessageOutputLengthError' ? 'length' : name === 'MessageAbortedError' ? 'aborted' : 'error';
}

function addTool(
  trace: Trace,
  part: JsonObject,
  call: { readonly call_id: string; readonly agent_id: string; readonly index: number },
  seq: number,
): void {
  const { status, input, output, error, title, metadata, attachments } = stateOf(part);
  const { start, end } = timesOf(part);
  const [began, ended] = [timeOfMs(start), timeOfMs(end)];
  const id = part.id as string;
  const about = { tool_call_id: id, native: { tool_call_id: part.callID } };
  const asked = { name: part.tool as string, type: 'function', arguments: input ?? null };
  trace.add('tool.called', [id], { ...placeOf(seq, began), ...call, ...about, ...asked }, began);
  const child = isRecord(metadata) ? (metadata.sessionId ?? metadata.sessionID) : undefined;
  if (part.tool === 'task' && isIdentifier(child)) {
    const reason = typeof title === 'string' ? title : undefined;
    const handed = { from_agent: call.agent_id, to_agent: child, kind: 'delegate', tool_call_id: id, reason } as const;
    trace.add('control.transferred', [id], { ...placeOf(seq, began), ...handed }, began);
  }
  const failed = status === 'error';
  if (!failed && status !== 'completed') return;
  const shown = (failed ? error : output) as string | undefined;
  const returned = {
    ...placeOf(seq, ended),
    ...about,
    status: failed ? 'error' : 'ok',
    output: shown,
    ...resultFlags(shown),
    duration_ms: typeof start === 'number' && typeof end === 'number' && end >= start ? end - start : undefined,
    unmapped: without({ title, metadata, attachments }),
  } as const;
  trace.add('tool.returned', [id], returned, ended);
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
