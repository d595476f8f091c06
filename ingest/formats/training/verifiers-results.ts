/**
 * Results that verifiers wrote before its traces (`results.jsonl` of an evaluation), a rollout a line: {example_id, prompt, completion,
 * reward, metrics}, read from PrimeIntellect-ai/verifiers at a60a606e (verifiers/legacy/utils/save_utils.py). Its tool calls are JSON
 * texts. Of 2025 the number is `id`, the task `default`, and each metric a column of its own.
 */
import { asText, given, isRecord, type JsonObject, without } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import { textIn } from '../kit/chat-message.ts';
import type { Conversion, NativeRecord } from '../kit/format.ts';
import { refusal, refused } from '../kit/native.ts';
import { chatMessages } from '../kit/rollout-calls.ts';
import { taskOf } from '../kit/run.ts';
import { Trace } from '../kit/trace.ts';

const AGENT = 'agent';

export const isResult = (record: unknown): record is JsonObject =>
  isRecord(record) &&
  ('example_id' in record || ('id' in record && 'task' in record)) &&
  'prompt' in record &&
  'completion' in record &&
  'reward' in record;

export function convertResult(format: string, record: NativeRecord): Conversion {
  const value = record.value as JsonObject;
  const prompt = chatMessages(value.prompt, 'prompt');
  // A text completion is the one answer to a text prompt; a rollout that failed at once has none.
  const completed =
    typeof value.completion === 'string' ? [{ role: 'assistant', content: value.completion }] : value.completion;
  const completion = chatMessages(completed ?? [], 'completion');
  if ('refusal' in prompt) return refused(prompt.refusal);
  if ('refusal' in completion) return refused(completion.refusal);
  if (value.reward !== null && typeof value.reward !== 'number')
    return refused(refusal('bad_type', 'reward', 'a number', value.reward));
  const trace = Trace.revised(format, record);
  const shown = prompt.messages;
  const whole = [...shown, ...completion.messages];
  let turn = 0;
  for (const [i, answer] of completion.messages.entries()) {
    if (answer.role !== 'assistant') continue;
    const input = whole.slice(0, shown.length + i);
    trace.rollout({ callId: `m${shown.length + i}`, agentId: AGENT, turn: turn++, input, answer });
  }
  trace.lastResults({ callId: 'end', agentId: AGENT, turn }, whole);
  addJudgements(trace, value);
  // Every environment calls its task so where its data set names none.
  const env = isIdentifier(value.task) && value.task !== 'default' ? value.task : undefined;
  const asked = textIn(shown.find(({ role }) => role === 'user')?.content);
  const failed = value.error != null;
  const tools = value.tool_defs;
  const task = taskOf(
    format,
    asked,
    given('ground_truth', value.answer ?? undefined),
    env && `${env}/${asText(value.example_id ?? value.id)}`,
  );
  return trace.finish({
    // An example has its number within its environment alone. No group: the file does not say which run and model it is of.
    task,
    incomplete: turn === 0,
    started: {
      // The ground truth is the task's; without a task it would be nowhere.
      unmapped: without(value, ...READ, ...(task ? ['answer'] : []), ...Object.keys(metricsOf(value))),
    },
    agents: [{ agent_id: AGENT, tools: Array.isArray(tools) ? tools : undefined }],
    finished: {
      outcome: failed ? 'error' : 'unknown',
      stop_reason: typeof value.stop_condition === 'string' ? value.stop_condition : undefined,
      totals: isRecord(value.token_usage) ? value.token_usage : undefined,
      unmapped: failed ? { error: value.error } : undefined,
    },
  });
}

const READ = ['prompt', 'completion', 'reward', 'metrics', 'tool_defs', 'stop_condition', 'token_usage', 'error'];

/** Numbers beside the metrics that judge nothing. */
const COUNTS = new Set(['id', 'example_id', 'rollout_id', 'reward', 'generation_ms', 'scoring_ms', 'total_ms']);

/** The metrics by name: later writers repeat them as columns, the first wrote them as columns alone. */
function metricsOf(value: JsonObject): JsonObject {
  if (isRecord(value.metrics)) return value.metrics;
  return Object.fromEntries(
    Object.entries(value).filter(([name, score]) => typeof score === 'number' && !COUNTS.has(name)),
  );
}

/** The reward and the metrics; a rollout that failed was judged by no one, though its reward is 0. */
function addJudgements(trace: Trace, value: JsonObject): void {
  if (value.error != null) return;
  const add = (kind: 'reward' | 'score', name: string, score: unknown): void => {
    if (typeof score === 'number') trace.feedback([name], { kind, name, value: score, by: 'env' });
  };
  add('reward', 'reward', value.reward);
  for (const [name, score] of Object.entries(metricsOf(value)))
    if (isIdentifier(name) && name !== 'reward') add('score', name, score);
}
