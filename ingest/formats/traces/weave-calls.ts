/**
 * What a call of Weave is: `attributes.weave.kind` where its program or integration says it, else what its output looks like. Answers of
 * model servers stand in `output` as the client library gave them, objects of Python with `_type`, `_class_name` and `_bases` beside.
 */
import type { Message, Part } from '../../events/events.ts';
import { given, isRecord, type JsonObject } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import { toLangchainMessage } from '../../traces/langchain-messages.ts';
import { langsmithSpanKind } from '../../traces/langsmith-runs.ts';
import type { Choice, SpanKind } from '../../traces/trace.ts';
import { anthropicChoice, fromAnthropic } from '../kit/anthropic-blocks.ts';
import { badMessage, type ChatMessage, toMessage } from '../kit/chat-message.ts';
import { finishReasonIn } from '../kit/finish-reason.ts';
import { responseContent, responseInput } from '../kit/openai-responses.ts';
import { callPart, choiceOf, contentOf, idAt, messageOf } from '../kit/span-attributes.ts';
import { usageOf } from '../kit/usage.ts';

/** The name of the function in a reference `weave:///ENTITY/PROJECT/op/NAME:DIGEST`, or a name as it is. */
export function opName({ op_name: name }: JsonObject): string {
  const found = typeof name === 'string' ? /^weave:\/\/\/[^/]+\/[^/]+\/op\/(.+):[^:/]*$/.exec(name)?.[1] : undefined;
  if (found === undefined) return typeof name === 'string' ? name : '';
  try {
    return decodeURIComponent(found);
  } catch {
    return found;
  }
}

const kindOf = ({ attributes }: JsonObject): unknown =>
  isRecord(attributes) && isRecord(attributes.weave) ? attributes.weave.kind : undefined;

/** Functions of client libraries that call a model, from before calls had a kind. */
const MODEL_CALL =
  /^(?:openai\.(?:chat\.completions|responses|beta\.chat)|anthropic\.|litellm\.|groq\.|mistralai\.|cohere\.|google\.(?:genai|generativeai)\.)/;

const isModelCall = (call: JsonObject): boolean => {
  const kind = kindOf(call);
  if (typeof kind === 'string') return kind === 'llm';
  const { output } = call;
  // Weave's own rule for what it counts tokens of.
  const billed = isRecord(output) && isRecord(output.usage) && typeof output.model === 'string';
  return billed || MODEL_CALL.test(opName(call));
};

/** `asked` are the names of the tools that models of the same trace asked for: a function of such a name is that tool. */
export function weaveSpanKind(
  call: JsonObject,
  asked: ReadonlySet<string>,
): { readonly what: SpanKind; readonly agent: string | null; readonly flags?: readonly string[] } {
  const name = opName(call);
  const kind = kindOf(call);
  const inputs = isRecord(call.inputs) ? call.inputs : {};
  const { self, ...rest } = inputs;
  const chain = isRecord(call.output) && isRecord(call.output.outputs) ? call.output : null;
  const runType = /^langchain\.(Llm|Chat_model|Tool|Retriever)\./.exec(name)?.[1]?.toLowerCase();
  if (runType !== undefined) {
    const run = { ...call, run_type: runType === 'chat_model' ? 'llm' : runType, name: lastOf(name), inputs };
    const what = langsmithSpanKind({
      ...run,
      extra: chain?.extra ?? {},
      outputs: chain?.outputs ?? call.output ?? undefined,
    });
    return { what, agent: null };
  }
  if (kind === 'agent') return { what: { kind: 'agent' }, agent: agentName(call, self) };
  // A judge is no member unless a model is called in it.
  if (kind === 'scorer' || kind === 'guardrail')
    return { what: { kind: 'wrapper' }, agent: isIdentifier(name) ? name : null };
  if (isModelCall(call)) {
    const unread = refers(rest);
    const what = generationOf(call, unread ? { ...rest, ...UNKNOWN } : rest);
    return { what, agent: null, ...(unread ? { flags: ['unresolved_references'] } : {}) };
  }
  if (kind === 'tool' || asked.has(lastOf(name))) {
    return {
      what: {
        kind: 'tool',
        tool: isIdentifier(lastOf(name)) ? lastOf(name) : 'unknown',
        callId: idAt(rest, 'tool_call_id', 'call_id') ?? null,
        asked: rest,
        ...given('output', call.output ?? undefined),
      },
      agent: null,
    };
  }
  if (kind === 'search') {
    return {
      what: { kind: 'observation', seen: 'search', content: { inputs: rest, output: call.output ?? null } },
      agent: null,
    };
  }
  return { what: { kind: 'wrapper' }, agent: null };
}

/** What a model was shown; unknown where a part of it is a reference to an object, which is not in the file. */
const UNKNOWN = { messages: undefined, prompt: undefined, contents: undefined, input: undefined, system: undefined };
const SHOWN = Object.keys(UNKNOWN);

const refers = (inputs: JsonObject): boolean => SHOWN.some((name) => hasReference(inputs[name]));

function hasReference(value: unknown): boolean {
  if (typeof value === 'string') return /^weave:\/\/\/\S+$/.test(value);
  return typeof value === 'object' && value !== null && Object.values(value).some(hasReference);
}

/** The names of the tools that a model call asked for. */
export function toolsAsked({ what }: { readonly what: SpanKind }): readonly string[] {
  if (what.kind !== 'generation') return [];
  const parts = what.choices.flatMap(({ content }) =>
    Array.isArray(content) ? (content as readonly JsonObject[]) : [],
  );
  return parts.flatMap((part) => (part.type === 'tool_call' && typeof part.name === 'string' ? [part.name] : []));
}

/** `Tools.population` is the tool `population`. */
const lastOf = (name: string): string => name.split('.').at(-1) ?? name;

function agentName(call: JsonObject, self: unknown): string | null {
  const attributes = isRecord(call.attributes) ? call.attributes : {};
  const named = isRecord(self) ? (idAt(self, 'name', 'role') ?? undefined) : undefined;
  return [attributes.agent_name, named, call.display_name, opName(call)].find(isIdentifier) ?? null;
}

function generationOf(call: JsonObject, inputs: JsonObject): SpanKind {
  const output = isRecord(call.output) ? call.output : {};
  const { messages, input, prompt, contents, system, instructions, model, tools, ...params } = inputs;
  const usage = [output.usage, output.usage_metadata, onlyUsage(call.summary)].find(isRecord);
  const answered = call.ended_at != null || call.output != null || call.exception != null;
  return {
    kind: 'generation',
    answered,
    ...given('model', typeof model === 'string' ? model : undefined),
    ...given('params', Object.keys(params).length > 0 ? params : undefined),
    ...given('input', inputOf({ messages: messages ?? prompt ?? contents, input, system, instructions })),
    ...given('tools', tools ?? undefined),
    choices: call.output == null ? [] : choicesOf(call.output),
    ...given('usage', usageOf(usage)),
    ...(isIdentifier(output.id) ? { responseId: output.id } : {}),
    ...given('responseModel', typeof output.model === 'string' ? output.model : undefined),
  };
}

/** The usage that Weave counted itself, where it is that of one model. */
function onlyUsage(summary: unknown): unknown {
  const counted = isRecord(summary) && isRecord(summary.usage) ? Object.values(summary.usage) : [];
  return counted.length === 1 ? counted[0] : undefined;
}

function inputOf({ messages, input, system, instructions }: JsonObject): Message[] | undefined {
  if (input !== undefined && messages === undefined) return responseInput(input, instructions);
  if (typeof messages === 'string') return [{ role: 'user', content: messages }];
  if (!Array.isArray(messages)) return undefined;
  const list = fromAnthropic(messages) as unknown[];
  const first = typeof system === 'string' || Array.isArray(system) ? [{ role: 'system', content: system }] : [];
  return [...first, ...list].map(messageIn);
}

function messageIn(value: unknown): Message {
  if (badMessage(value, '') === null) return toMessage(value as ChatMessage);
  if (isRecord(value) && Array.isArray(value.parts)) return messageOf(geminiRole(value.role), geminiParts(value.parts));
  if (isRecord(value) && ('content' in value || 'kwargs' in value)) return toLangchainMessage(value);
  return messageOf('unknown', [{ type: 'raw', content: value ?? null }]);
}

function choicesOf(output: unknown): Choice[] {
  if (typeof output === 'string') return [{ index: 0, content: output }];
  if (!isRecord(output)) return [{ index: 0, content: [{ type: 'json', content: output }] }];
  if (Array.isArray(output.candidates)) return output.candidates.map(geminiChoice);
  if (Array.isArray(output.output))
    return [choiceOf(0, contentOf(responseContent(output.output)), finishReasonIn(output))];
  const choice = anthropicChoice(output);
  const list = choice ? [choice] : Array.isArray(output.choices) ? output.choices : [output];
  return list.map((one: unknown, index): Choice => {
    const message = isRecord(one) && isRecord(one.message) ? one.message : one;
    const { content } = messageIn(isRecord(message) ? { role: 'assistant', ...message } : message);
    return choiceOf(index, content ?? undefined, finishReasonIn(one));
  });
}

const geminiRole = (role: unknown): unknown => (role === 'model' ? 'assistant' : role);

function geminiChoice(candidate: unknown, index: number): Choice {
  const content = isRecord(candidate) && isRecord(candidate.content) ? candidate.content.parts : undefined;
  const parts = Array.isArray(content) ? contentOf(geminiParts(content)) : undefined;
  return choiceOf(index, parts, finishReasonIn(candidate)?.toLowerCase());
}

/** Parts of Google's API, of which each holds one member. */
const geminiParts = (parts: readonly unknown[]): Part[] =>
  parts.map((part): Part => {
    if (!isRecord(part)) return { type: 'raw', content: part };
    const call = part.function_call ?? part.functionCall;
    if (isRecord(call)) return callPart(call.id, call.name, call.args);
    if (typeof part.text === 'string')
      return { type: part.thought === true ? 'reasoning' : 'text', content: part.text };
    return { type: 'raw', content: part };
  });
