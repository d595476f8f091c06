/** A model request of Agent Lightning v1: the request and the answer of the chat API, with the tokens that were sampled. */
import { given, isRecord, type JsonObject, without } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import type { Act, Choice } from '../../traces/trace.ts';
import { badMessage, type ChatMessage, toMessage } from '../kit/chat-message.ts';
import { finishReason, messageOf } from '../kit/span-attributes.ts';
import { usageOf } from '../kit/usage.ts';

type Call = Pick<Act, 'what' | 'agent' | 'about' | 'error' | 'flags' | 'unmapped'>;

export function lightningCall(data: JsonObject, rest: Record<string, unknown> | undefined): Call {
  const request = isRecord(data.request) ? data.request : {};
  const response = isRecord(data.response) ? data.response : {};
  const metadata = isRecord(request.metadata) ? request.metadata : {};
  const natives = Array.isArray(response.choices) ? response.choices.filter(isRecord) : [];
  const choices = natives.map(choiceOf);
  const prompt = [response.prompt_token_ids, natives[0]?.prompt_token_ids].find(isTokenIds);
  const usage = [response.usage, data.usage].find(isRecord);
  const model = [request.model, data.model].find((name) => typeof name === 'string') as string | undefined;
  const failed = data.status !== undefined && data.status !== 'ok' && data.status !== 'success';
  const version = data.model_version;
  return {
    what: {
      kind: 'generation',
      ...given('model', model),
      ...given('params', without(request, 'model', 'messages', 'tools', 'metadata', 'user')),
      ...(Array.isArray(request.messages) ? { input: request.messages.map(messageIn) } : {}),
      ...given('tools', request.tools),
      // Streams that were logged as a list of chunks hold no answer that can be read.
      choices:
        choices.length > 0
          ? choices.map(({ choice }) => choice)
          : failed
            ? []
            : [{ index: 0, ...given('finish_reason', finishReason(data.finish_reason)) }],
      ...given('usage', usageOf(usage)),
      ...given('responseId', isIdentifier(response.id) ? response.id : undefined),
      ...given('responseModel', typeof response.model === 'string' ? response.model : undefined),
      ...(typeof version === 'number' || typeof version === 'string' ? { modelVersion: String(version) } : {}),
      ...given('promptTokenIds', prompt),
      ...(typeof data.latency_ms === 'number' ? { latencyMs: data.latency_ms } : {}),
    },
    agent: [metadata.agent, request.user].find(isIdentifier) ?? null,
    about: {
      taskId: isIdentifier(metadata.task_id) ? metadata.task_id : undefined,
      sessionId: isIdentifier(metadata.run_id) ? metadata.run_id : undefined,
      groupId: isIdentifier(metadata.group_id) ? metadata.group_id : undefined,
    },
    ...(failed ? { error: { status: data.status, http_status: data.http_status ?? null } } : {}),
    flags: [
      ...(choices.length > 0 ? [] : ['no_content']),
      ...(choices.some(({ mismatch }) => mismatch) ? ['logprobs_mismatch'] : []),
    ],
    unmapped: without({
      ...rest,
      data: without(
        data,
        'model',
        'model_version',
        'request',
        'response',
        'latency_ms',
        'usage',
        ...(choices.length > 0 ? ['finish_reason'] : []),
      ),
      request: without({ metadata: request.metadata, user: request.user }),
      response: isRecord(data.response)
        ? without(response, 'id', 'model', 'choices', 'usage', 'prompt_token_ids')
        : (data.response ?? undefined),
    }),
  };
}

const messageIn = (value: unknown) =>
  badMessage(value, '') === null
    ? toMessage(value as ChatMessage)
    : messageOf('unknown', [{ type: 'raw', content: value }]);

export const isTokenIds = (value: unknown): value is number[] =>
  Array.isArray(value) && value.length > 0 && value.every((id) => Number.isSafeInteger(id) && id >= 0 && id < 2 ** 31);

function choiceOf(native: JsonObject, index: number): { readonly choice: Choice; readonly mismatch: boolean } {
  const message = isRecord(native.message) ? { role: 'assistant', ...native.message } : null;
  const tokens = isTokenIds(native.token_ids) ? native.token_ids : undefined;
  const logprobs = logprobsIn(native.logprobs);
  const fits = logprobs !== undefined && (tokens === undefined || tokens.length === logprobs.length);
  return {
    choice: {
      index: Number.isSafeInteger(native.index) && (native.index as number) >= 0 ? (native.index as number) : index,
      ...given(
        'content',
        message ? messageIn(message).content : typeof native.text === 'string' ? native.text : undefined,
      ),
      ...given('finish_reason', typeof native.finish_reason === 'string' ? native.finish_reason : undefined),
      ...given('token_ids', tokens),
      ...(fits ? { logprobs } : {}),
    },
    mismatch: logprobs !== undefined && !fits,
  };
}

/** Log-probabilities of the chat API, or of the older list of numbers. */
export function logprobsIn(value: unknown): number[] | undefined {
  if (!isRecord(value)) return undefined;
  const list = Array.isArray(value.content)
    ? value.content.map((token: unknown) => (isRecord(token) ? token.logprob : null))
    : value.token_logprobs;
  return Array.isArray(list) && list.length > 0 && list.every((one) => typeof one === 'number')
    ? (list as number[])
    : undefined;
}
