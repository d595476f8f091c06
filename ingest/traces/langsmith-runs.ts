/** What a LangSmith run is. LangGraph names its agents in the metadata of each run. */
import type { Message } from '../events/events.ts';
import { asText, given, isRecord, type JsonObject, without } from '../events/json.ts';
import { isIdentifier } from '../events/text.ts';
import { finishReasonIn } from '../formats/kit/finish-reason.ts';
import { timeOfMixed } from '../formats/kit/run.ts';
import { choiceOf } from '../formats/kit/span-attributes.ts';
import { usageOf } from '../formats/kit/usage.ts';
import { generationContent, toLangchainMessage, toolResult, unfold } from './langchain-messages.ts';
import { nodeOf } from './langgraph.ts';
import type { About, Act, Choice, SpanKind } from './trace.ts';

export function langsmithAct(format: string, run: JsonObject, trace: string): Act {
  const metadata = isRecord(run.extra) && isRecord(run.extra.metadata) ? run.extra.metadata : {};
  const what = langsmithSpanKind(run);
  const isModelOrTool = what.kind === 'generation' || what.kind === 'tool';
  const parent = run.parent_run_id;
  const failed = run.error !== undefined && run.error !== null;
  const status = failed && /time(?:d )?\s?out/i.test(asText(run.error)) ? 'timeout' : undefined;
  return {
    format,
    trace,
    id: run.id as string,
    parent: typeof parent === 'string' ? parent : run.id === trace ? null : '',
    name: typeof run.name === 'string' ? run.name : '',
    start: timeOfMixed(run.start_time),
    end: timeOfMixed(run.end_time),
    ...given('sequence', typeof run.dotted_order === 'string' ? run.dotted_order : undefined),
    what: what.kind === 'tool' && status ? { ...what, status } : what,
    agent: agentOf(metadata),
    about: aboutOf(run, metadata, trace),
    ...(failed ? { error: run.error } : {}),
    revision: timeOfMixed(run.end_time) ?? '',
    unmapped: without(
      run,
      ...['id', 'name', 'run_type', 'start_time', 'end_time', 'parent_run_id', 'trace_id', 'error', 'child_runs'],
      ...(isModelOrTool || what.kind === 'observation' ? ['inputs', 'outputs'] : []),
    ),
  };
}

/** A node of a graph is the agent of what happens inside it; it becomes a member where a model is called in it. */
const agentOf = (metadata: JsonObject): string | null =>
  [metadata.lc_agent_name, metadata.agent_name].find(isIdentifier) ?? nodeOf(metadata);

/** What a run is by its type: also runs of LangChain that another tracer records. */
export function langsmithSpanKind(run: JsonObject): SpanKind {
  const inputs = isRecord(run.inputs) ? run.inputs : {};
  const outputs = isRecord(run.outputs) ? run.outputs : {};
  switch (run.run_type) {
    case 'llm':
      return generationOf(run, inputs, outputs);
    case 'tool':
      return {
        kind: 'tool',
        tool: isIdentifier(run.name) ? run.name : 'unknown',
        callId: callIdOf(outputs, run),
        ...given('asked', argumentsOf(inputs)),
        ...given('output', outputOf(outputs, run.outputs)),
        ...(unfold(outputs.output).fields.status === 'error' ? { status: 'error' as const } : {}),
      };
    case 'retriever':
      return { kind: 'observation', seen: 'retriever', content: without({ inputs: run.inputs, outputs: run.outputs }) };
    default:
      return { kind: 'wrapper' };
  }
}

function generationOf(run: JsonObject, inputs: JsonObject, outputs: JsonObject): SpanKind {
  const metadata = isRecord(run.extra) && isRecord(run.extra.metadata) ? run.extra.metadata : {};
  const params = isRecord(run.extra) && isRecord(run.extra.invocation_params) ? run.extra.invocation_params : undefined;
  const model = [metadata.ls_model_name, params?.model, params?.model_name].find((name) => typeof name === 'string');
  return {
    kind: 'generation',
    answered: run.end_time !== undefined || run.outputs !== undefined || run.error !== undefined,
    ...given('model', model as string | undefined),
    ...given('params', params && without(params, 'model', 'model_name', 'tools')),
    ...given('input', messagesOf(inputs)),
    ...given('tools', params?.tools),
    choices: choicesOf(outputs),
    ...given('usage', usageOf({ ...(billedIn(outputs) ?? countedIn(run)), cost_usd: run.total_cost ?? null })),
  };
}

function messagesOf(inputs: JsonObject): Message[] | undefined {
  const { messages, prompts, prompt } = inputs;
  if (Array.isArray(messages)) {
    const list = messages.length > 0 && Array.isArray(messages[0]) ? (messages[0] as unknown[]) : messages;
    return list.map(toLangchainMessage);
  }
  const texts = Array.isArray(prompts) ? prompts : typeof prompt === 'string' ? [prompt] : [];
  return texts.length === 0 ? undefined : texts.map((content) => ({ role: 'user', content: asText(content) }));
}

/** The generations of the one prompt; each is a candidate. */
function generationsOf({ generations }: JsonObject): readonly unknown[] | null {
  if (!Array.isArray(generations)) return null;
  return Array.isArray(generations[0]) ? (generations[0] as unknown[]) : generations;
}

function choicesOf(outputs: JsonObject): Choice[] {
  const generations = generationsOf(outputs);
  if (generations) {
    return generations.map((generation, index) => choiceOf(index, generationContent(generation), reasonOf(generation)));
  }
  // Programs that trace without LangChain log what the chat API answers, or the message alone.
  const list = Array.isArray(outputs.choices)
    ? outputs.choices
    : isRecord(outputs.message) || 'content' in outputs
      ? [outputs]
      : [];
  if (list.length === 0) return [{ index: 0 }];
  return list.map((one: unknown, index: number) => {
    const message = isRecord(one) && isRecord(one.message) ? one.message : one;
    const { content } = toLangchainMessage(isRecord(message) ? { role: 'assistant', ...message } : message);
    const metadata = isRecord(message) ? message.response_metadata : undefined;
    return choiceOf(index, content, finishReasonIn(one, message, metadata));
  });
}

function reasonOf(generation: unknown): string | undefined {
  if (!isRecord(generation)) return undefined;
  return finishReasonIn(generation.generation_info, unfold(generation.message).fields.response_metadata);
}

function billedIn(outputs: JsonObject): Record<string, unknown> | undefined {
  const [first] = generationsOf(outputs) ?? [];
  const metadata = isRecord(first) ? unfold(first.message).fields.usage_metadata : undefined;
  const usage = isRecord(outputs.llm_output)
    ? (outputs.llm_output.token_usage ?? outputs.llm_output.tokenUsage)
    : undefined;
  return [metadata, usage, outputs.usage, outputs.usage_metadata].find(isRecord);
}

/** What the server counted itself, in runs that it exported; 0 is what it says where it does not know. */
function countedIn({
  prompt_tokens: input,
  completion_tokens: output,
}: JsonObject): Record<string, unknown> | undefined {
  return typeof input === 'number' && typeof output === 'number' && input + output > 0
    ? { prompt_tokens: input, completion_tokens: output }
    : undefined;
}

/** Tools are logged with their arguments, or with these as one text. */
function argumentsOf(inputs: JsonObject): unknown {
  if (Object.keys(inputs).length === 1 && 'input' in inputs) return inputs.input ?? undefined;
  return Object.keys(inputs).length > 0 ? inputs : undefined;
}

function outputOf(outputs: JsonObject, written: unknown): unknown {
  if (written === undefined || written === null) return undefined;
  const output = 'output' in outputs ? outputs.output : written;
  return toolResult(output).output;
}

/** The id of the call, which only the tool's message knows. */
function callIdOf(outputs: JsonObject, run: JsonObject): string | null {
  const { fields } = unfold(outputs.output);
  const metadata = isRecord(run.extra) && isRecord(run.extra.metadata) ? run.extra.metadata : {};
  return [fields.tool_call_id, run.tool_call_id, metadata.tool_call_id].find(isIdentifier) ?? null;
}

function aboutOf(run: JsonObject, metadata: JsonObject, trace: string): About {
  const root = run.id === trace;
  const session = [metadata.session_id, metadata.thread_id, metadata.conversation_id].find(isIdentifier);
  const tags = Array.isArray(run.tags) && run.tags.length > 0 ? run.tags : undefined;
  return {
    sessionId: session,
    taskId: isIdentifier(metadata.task_id) ? metadata.task_id : undefined,
    ...(root ? { tags: without({ tags, project: run.session_name, example: run.reference_example_id }) } : {}),
  };
}
