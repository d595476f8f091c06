/** A model request of Agent Lightning v1: the request and the answer of the chat API, with the tokens that were sampled. */
import { given, isRecord, type JsonObject, without } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import type { Act, Choice } from '../../traces/trace.ts';
import { badMessage, type ChatMessage, toMessage } from '../kit/chat-message.ts';
import { Reader } from '../kit/reader.ts';
import { finishReason, messageOf } from '../kit/span-attributes.ts';
import { usageOf } from '../kit/usage.ts';

/** What a model request is, of its data and the rest of its event. */
export function lightningCall(
  data: Reader,
  rest: Record<string, unknown> | undefined,
): Pick<Act, 'what' | 'agent' | 'about' | 'error' | 'flags' | 'unmapped'> {
  const answered = data.any('response');
  const request = new Reader(data.record('request') ?? {});
  const response = new Reader(isRecord(answered) ? answered : {});
  const said = request.these('metadata', 'user');
  const metadata = isRecord(said?.metadata) ? said.metadata : {};
  const natives = (response.list('choices') ?? []).filter(isRecord);
  const choices = natives.map(choiceOf);
  const prompt = [response.any('prompt_token_ids'), natives[0]?.prompt_token_ids].find(isTokenIds);
  const usage = [response.any('usage'), data.any('usage')].find(isRecord);
  const model = [request.any('model'), data.any('model')].find((name) => typeof name === 'string');
  const { status, finish_reason: reason, http_status = null } = data.native;
  const failed = status !== undefined && status !== 'ok' && status !== 'success';
  const version = data.any('model_version');
  const messages = request.list('messages');
  const idIn = (name: string) => (isIdentifier(metadata[name]) ? metadata[name] : undefined);
  if (choices.length > 0) data.any('finish_reason');
  return {
    what: {
      kind: 'generation',
      model: model as string | undefined,
      tools: request.any('tools'),
      params: request.rest(),
      ...(messages ? { input: messages.map(messageIn) } : {}),
      // Streams that were logged as a list of chunks hold no answer that can be read.
      choices:
        choices.length > 0
          ? choices.map(({ choice }) => choice)
          : failed
            ? []
            : [{ index: 0, ...given('finish_reason', finishReason(reason)) }],
      usage: usageOf(usage),
      responseId: response.id('id'),
      responseModel: response.text('model'),
      modelVersion: typeof version === 'number' || typeof version === 'string' ? String(version) : undefined,
      promptTokenIds: prompt,
      latencyMs: data.number('latency_ms'),
    },
    agent: idIn('agent') ?? (isIdentifier(said?.user) ? said.user : null),
    about: { taskId: idIn('task_id'), sessionId: idIn('run_id'), groupId: idIn('group_id') },
    ...(failed ? { error: { status, http_status } } : {}),
    flags: [
      ...(choices.length > 0 ? [] : ['no_content']),
      ...(choices.some(({ mismatch }) => mismatch) ? ['logprobs_mismatch'] : []),
    ],
    unmapped: without({
      ...rest,
      data: data.rest(),
      request: said,
      response: isRecord(answered) ? response.rest() : answered,
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
