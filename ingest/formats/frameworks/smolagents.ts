/**
 * Runs of smolagents (smolagents/memory.py): the steps of `agent.memory.get_full_steps()`, alone or in a `RunResult.dict()`. A step has
 * what the model was shown and answered, the tools that this asked for, and one text of what they returned.
 */
import type { Content, Message } from '../../events/events.ts';
import { asText, given, isRecord, type JsonObject, ownOf, stringify } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import { badMessage, type ChatMessage, toMessage, toolCallsOf } from '../kit/chat-message.ts';
import type { Conversion, NativeRecord } from '../kit/format.ts';
import { emitterFor } from '../kit/native.ts';
import { demand, format, Reader, unreadable } from '../kit/reader.ts';
import { taskOf, timeOfSeconds } from '../kit/run.ts';
import { Trace } from '../kit/trace.ts';
import { usageOf } from '../kit/usage.ts';

const NAME = 'smolagents';

const isStep = (one: unknown): boolean =>
  isRecord(one) && 'model_output_message' in one && ('step_number' in one || 'plan' in one) && isRecord(one.timing);

const areSteps = (list: unknown): list is readonly unknown[] => Array.isArray(list) && list.some(isStep);

export const smolagents = format({
  name: NAME,
  summary:
    'smolagents runs: the steps of a memory [{task}, {step_number, model_output_message, …}], or a RunResult {steps}',
  called: 'steps of a run',
  recognises: (one) => isStep(one) || areSteps(one.steps),
  gathers: ({ records }) => (records.some(isStep) ? 'file' : null),
  convert: (run, record) => conversionOf(run.list('steps', 'a list of steps'), record, run),
  convertAll: (steps, record) => conversionOf(steps, record, new Reader({})),
});

function conversionOf(steps: readonly unknown[], record: NativeRecord, run: Reader): Conversion {
  const trace = new Trace(emitterFor(NAME), NAME, record);
  let query: unknown;
  let answer: unknown = run.any('output');
  const [stop, totals] = [run.text('state'), run.these('token_usage')];
  const times: unknown[] = [];
  for (const [seq, step] of steps.entries()) {
    if (!isRecord(step)) return unreadable('bad_shape', `steps[${seq}]`, 'a step', step);
    if ('task' in step) {
      query ??= step.task;
      trace.message(seq, 'user', asText(step.task), { role: 'user' });
    } else if (isStep(step)) {
      const { start_time: start, end_time: end } = step.timing as JsonObject;
      times.push(start, end);
      stepEvents(trace, step, seq, timeOfSeconds(start), timeOfSeconds(end));
      if (step.is_final_answer === true) answer ??= step.action_output ?? step.observations;
    } else if ('output' in step) answer ??= step.output;
    else trace.observed(seq, 'step', { content: step });
  }
  const said = answer ?? undefined;
  return trace.finish({
    task: taskOf(NAME, query),
    started: { unmapped: run.filledRest() },
    startedAt: timeOfSeconds(times[0]),
    finished: {
      outcome: 'unknown',
      answer: said === undefined || typeof said === 'string' ? said : stringify(said),
      stop_reason: stop,
      totals,
    },
    finishedAt: timeOfSeconds(times.at(-1)),
  });
}

function stepEvents(trace: Trace, step: JsonObject, seq: number, start: string | null, at: string | null): void {
  const call = { seq, call_id: `m${seq}` };
  const { model_output_message: native, model_input_messages: shown, tool_calls: tools, observations, error } = step;
  const { role: _, raw: __, token_usage: usage, ...message } = isRecord(native) ? native : {};
  const answer = { ...message, role: 'assistant' };
  demand(badMessage(answer, 'model_output_message'));
  const answered = toMessage(answer);
  const asked = toolCallsOf({ tool_calls: Array.isArray(tools) ? tools.flatMap(callOf) : [] });
  trace.exchange(
    call,
    { input: Array.isArray(shown) ? sent(shown) : undefined, askedAt: start },
    {
      at,
      choices: [{ index: 0, content: answered.content as Content }],
      ...given('usage', usageOf(usage ?? step.token_usage)),
    },
    asked,
  );
  const failed = isRecord(error);
  const [only] = asked;
  // One text tells what all tools of a step returned.
  if (only && asked.length === 1 && (failed || observations != null))
    trace.result(seq, only.id, { status: failed ? 'error' : 'ok', output: failed ? error.message : observations }, at);
  else if (observations != null || failed)
    trace.observed(seq, failed ? 'error' : 'observations', { content: failed ? error : observations });
}

/** The code of a `CodeAgent` is a call too, whose arguments are no JSON. */
function callOf(call: unknown): JsonObject[] {
  const { id, function: asked } = isRecord(call) ? call : {};
  if (!isIdentifier(id) || !isRecord(asked) || !isIdentifier(asked.name)) return [];
  const { name, arguments: input } = asked;
  return [typeof input === 'string' ? { id, type: 'custom', custom: { name, input } } : { id, function: asked }];
}

const ROLES: Readonly<Record<string, string>> = { 'tool-call': 'assistant', 'tool-response': 'user' };

/** What models are sent: calls and results are the words of assistant and user, and messages of one role in a row are one. */
function sent(shown: readonly unknown[]): Message[] {
  const messages: ChatMessage[] = [];
  for (const [i, native] of shown.entries()) {
    const { role, content } = isRecord(native) ? native : {};
    const message = { role: (ownOf(ROLES, asText(role)) ?? role) as string, content };
    demand(badMessage(message, `model_input_messages[${i}]`));
    const last = messages.at(-1);
    if (last?.role !== message.role || !Array.isArray(content) || !Array.isArray(last.content)) messages.push(message);
    else messages[messages.length - 1] = { ...message, content: content.reduce(joined, last.content) };
  }
  return messages.map(toMessage);
}

function joined(parts: readonly JsonObject[], part: JsonObject): JsonObject[] {
  const last = parts.at(-1);
  if (last?.type !== 'text' || part.type !== 'text') return [...parts, part];
  return [...parts.slice(0, -1), { ...last, text: `${asText(last.text)}\n${asText(part.text)}` }];
}
