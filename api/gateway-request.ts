/** A completion as it was asked for: checked field by field, because what is ignored silently would be recorded as something else. */
import type { IncomingHttpHeaders } from 'node:http';
import { TroupeError } from '../errors.ts';
import { badMessage, type ChatMessage } from '../ingest/formats/chat-message.ts';
import { isIdentifier } from '../ingest/formats/native.ts';
import { isRecord } from '../ingest/json.ts';
import type { SampleAsk } from '../trainer/sampling/infer-wire.ts';
import { flag, readSampling, refuse, refuseUnsupported, type Sampling, whole } from './gateway-sampling.ts';
import type { Spoken } from './speakers.ts';

/** What is to be continued: a conversation, or a text as it stands or as token ids. */
export type Prompt =
  | { readonly messages: readonly ChatMessage[]; readonly tools: readonly unknown[] | null }
  | { readonly text: string }
  | { readonly ids: readonly number[] };

export type CompletionRequest = {
  /** As it was written. */
  readonly model: string;
  /** Null where the name is of no form that this gateway answers. */
  readonly who: Spoken | null;
  readonly prompt: Prompt;
  readonly sampling: Sampling;
  /** Whether the answer shows log-probabilities. */
  readonly logprobs: boolean;
  /** Whether it names their tokens by ids, as vLLM does where it is asked to, and not by their texts. */
  readonly tokensAsIds: boolean;
};

/** Who asks, where. A null is a header that was not sent. */
export type CallContext = {
  readonly episode: string | null;
  readonly task: string | null;
  readonly group: string | null;
  readonly agent: string | null;
  readonly role: string | null;
  readonly turn: number | null;
};

/** As many as the OpenAI interface allows. */
const MAX_TOP_LOGPROBS = 20;
/** New tokens of a text completion that names no limit, as in the OpenAI interface. */
const TEXT_MAX_TOKENS = 16;

/** A body of /v1/chat/completions. Throws `usage` naming the first field that cannot be done as asked. */
export function readChatRequest(body: unknown): CompletionRequest {
  const { model, messages, tools, ...fields } = opened(body);
  refuseUnsupported(fields, { functions: [] });
  if (!Array.isArray(messages) || messages.length === 0) throw refuse('messages', 'a list of messages', messages);
  for (const [i, message] of messages.entries()) {
    const bad = badMessage(message, `messages[${i}]`);
    if (bad) throw new TroupeError('usage', `${bad.field} should be ${bad.expected}; it is ${bad.got}.`, bad);
  }
  if (tools != null && !Array.isArray(tools)) throw refuse('tools', 'a list', tools);
  const logprobs = flag('logprobs', fields.logprobs);
  const topLogprobs = whole('top_logprobs', fields.top_logprobs, 0, MAX_TOP_LOGPROBS) ?? 0;
  if (topLogprobs > 0 && !logprobs) throw refuse('top_logprobs', '0 where logprobs is not true', topLogprobs);
  return {
    model,
    who: spokenBy(model),
    prompt: { messages: messages as ChatMessage[], tools: (tools as readonly unknown[] | null | undefined) ?? null },
    sampling: {
      ...readSampling(fields),
      maxTokens:
        whole('max_completion_tokens', fields.max_completion_tokens, 1) ?? whole('max_tokens', fields.max_tokens, 1),
      topLogprobs,
    },
    logprobs,
    tokensAsIds: tokensAsIds(fields),
  };
}

/** A body of /v1/completions: one prompt, a text or a list of token ids. Throws `usage` as `readChatRequest` does. */
export function readTextRequest(body: unknown): CompletionRequest {
  const { model, prompt, ...fields } = opened(body);
  refuseUnsupported(fields, { echo: [false], suffix: [''], best_of: [1] });
  const logprobs = whole('logprobs', fields.logprobs, 0, MAX_TOP_LOGPROBS);
  return {
    model,
    who: spokenBy(model),
    prompt: onePrompt(prompt),
    sampling: {
      ...readSampling(fields),
      maxTokens: whole('max_tokens', fields.max_tokens, 1) ?? TEXT_MAX_TOKENS,
      topLogprobs: logprobs ?? 0,
    },
    logprobs: logprobs !== null,
    tokensAsIds: tokensAsIds(fields),
  };
}

const tokensAsIds = ({ return_tokens_as_token_ids: asked }: Readonly<Record<string, unknown>>): boolean =>
  flag('return_tokens_as_token_ids', asked);

function opened(body: unknown): Record<string, unknown> & { readonly model: string } {
  if (!isRecord(body)) throw refuse('body', 'a JSON object', body);
  if (typeof body.model !== 'string') throw refuse('model', 'policy:NAME or checkpoint:ID', body.model);
  if (body.stream === true) throw refuse('stream', 'false', true, 'Answers come whole; ask without stream.');
  const format = body.response_format;
  if (format != null && !(isRecord(format) && format.type === 'text'))
    throw refuse('response_format', '{"type":"text"}', format);
  return body as Record<string, unknown> & { readonly model: string };
}

/** A list of one prompt is that prompt. */
function onePrompt(value: unknown): Prompt {
  if (typeof value === 'string' && value !== '') return { text: value };
  if (Array.isArray(value) && value.length > 0) {
    if (value.every((id) => Number.isSafeInteger(id) && id >= 0)) return { ids: value };
    if (value.length === 1) return onePrompt(value[0]);
  }
  throw refuse('prompt', 'one text or one list of token ids, not empty', value, 'Ask once for each prompt.');
}

function spokenBy(model: string): Spoken | null {
  const match = /^(policy|checkpoint):(.+)$/s.exec(model);
  return match && isIdentifier(match[2]) ? { kind: match[1] as Spoken['kind'], name: match[2] as string } : null;
}

/** What the sampling process is asked. */
export function toAsk({ prompt, sampling, logprobs }: CompletionRequest, seed: number): SampleAsk {
  const { n, temperature, maxTokens, stop, topK, topP, minP, topLogprobs, rawLogprobs } = sampling;
  return {
    ...promptOf(prompt),
    n,
    temperature,
    seed,
    ...(maxTokens === null ? {} : { max_tokens: maxTokens }),
    ...(stop.length === 0 ? {} : { stop }),
    ...(topK === 0 ? {} : { top_k: topK }),
    ...(topP === 1 ? {} : { top_p: topP }),
    ...(minP === 0 ? {} : { min_p: minP }),
    ...(topLogprobs === 0 ? {} : { top_logprobs: topLogprobs }),
    ...(rawLogprobs ? { raw_logprobs: true } : {}),
    ...(logprobs ? { token_texts: true } : {}),
  };
}

function promptOf(prompt: Prompt): Pick<SampleAsk, 'messages' | 'tools' | 'prompt' | 'prompt_ids'> {
  if ('text' in prompt) return { prompt: prompt.text };
  if ('ids' in prompt) return { prompt_ids: prompt.ids };
  return { messages: prompt.messages, ...(prompt.tools === null ? {} : { tools: prompt.tools }) };
}

export const CONTEXT_HEADERS = {
  'Troupe-Episode': 'episode the call belongs to; without it the call is an episode of its own',
  'Troupe-Task': 'task of the episode',
  'Troupe-Group': 'group of the episode',
  'Troupe-Agent': 'agent that calls',
  'Troupe-Role': 'role it plays',
  'Troupe-Turn': 'round of the environment, from 0',
} as const;

/** The context of a call, from its headers and its path (`/e/<episode>/a/<agent>/…`), which wins. Throws `usage` for unusable ids. */
export function readContext(
  headers: IncomingHttpHeaders,
  path: { readonly episode?: string; readonly agent?: string },
): CallContext {
  const id = (header: string): string | null => {
    const value = headers[header.toLowerCase()];
    if (value === undefined || value === '') return null;
    return checkedId(header, value);
  };
  const turn = headers['troupe-turn'];
  if (turn !== undefined && turn !== '' && !/^\d{1,9}$/.test(String(turn)))
    throw refuse('Troupe-Turn', 'a whole number from 0', turn);
  return {
    episode: path.episode === undefined ? id('Troupe-Episode') : checkedId('episode', path.episode),
    task: id('Troupe-Task'),
    group: id('Troupe-Group'),
    agent: path.agent === undefined ? id('Troupe-Agent') : checkedId('agent', path.agent),
    role: id('Troupe-Role'),
    turn: turn ? Number(turn) : null,
  };
}

function checkedId(field: string, value: unknown): string {
  if (isIdentifier(value)) return value;
  throw refuse(field, 'a text of 1 to 512 bytes without U+0000', value);
}
