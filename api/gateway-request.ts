/** A chat completion as it was asked for: checked field by field, because what is ignored silently would be recorded as something else. */
import type { IncomingHttpHeaders } from 'node:http';
import { got, TroupeError } from '../errors.ts';
import { badMessage, type ChatMessage } from '../ingest/formats/chat-message.ts';
import { isIdentifier } from '../ingest/formats/native.ts';
import { isRecord } from '../ingest/json.ts';
import type { SampleAsk } from '../trainer/infer-wire.ts';
import type { Spoken } from './speakers.ts';

export type ChatRequest = {
  /** As it was written. */
  readonly model: string;
  /** Null where the name is of no form that this gateway answers. */
  readonly who: Spoken | null;
  readonly messages: readonly ChatMessage[];
  readonly tools: readonly unknown[] | null;
  readonly n: number;
  /** Null where none was asked for. */
  readonly seed: number | null;
  readonly temperature: number;
  readonly maxTokens: number | null;
  readonly stop: readonly string[];
  readonly logprobs: boolean;
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

/** Parameters that change what is sampled and are not supported, with the values that change nothing. */
const NEUTRAL: Readonly<Record<string, readonly unknown[]>> = {
  top_p: [1],
  top_k: [-1, 0],
  min_p: [0],
  presence_penalty: [0],
  frequency_penalty: [0],
  repetition_penalty: [1],
  logit_bias: [],
  top_logprobs: [0],
  functions: [],
};

const refuse = (field: string, expected: string, value: unknown, hint?: string): TroupeError =>
  new TroupeError('usage', `${field} should be ${expected}; it is ${got(value)}.`, {
    field,
    expected,
    got: got(value),
    ...(hint === undefined ? {} : { hint }),
  });

const MAX_N = 4096;

/** Throws `usage` naming the first field that cannot be done as asked. */
export function readChatRequest(body: unknown): ChatRequest {
  if (!isRecord(body)) throw refuse('body', 'a JSON object', body);
  const { model, messages, tools } = body;
  if (typeof model !== 'string') throw refuse('model', 'policy:NAME or checkpoint:ID', model);
  if (body.stream === true) throw refuse('stream', 'false', true, 'Answers come whole; ask without stream.');
  for (const [field, neutral] of Object.entries(NEUTRAL)) {
    const value = body[field];
    if (value == null || neutral.includes(value) || (typeof value === 'object' && Object.keys(value).length === 0))
      continue;
    throw refuse(
      field,
      neutral.length === 0 ? 'left out' : String(neutral[0]),
      value,
      'It is not supported, and is not ignored either.',
    );
  }
  const format = body.response_format;
  if (format != null && !(isRecord(format) && format.type === 'text'))
    throw refuse('response_format', '{"type":"text"}', format);
  if (!Array.isArray(messages) || messages.length === 0) throw refuse('messages', 'a list of messages', messages);
  for (const [i, message] of messages.entries()) {
    const bad = badMessage(message, `messages[${i}]`);
    if (bad) throw new TroupeError('usage', `${bad.field} should be ${bad.expected}; it is ${bad.got}.`, bad);
  }
  if (tools != null && !Array.isArray(tools)) throw refuse('tools', 'a list', tools);
  return {
    model,
    who: spokenBy(model),
    messages: messages as ChatMessage[],
    tools: (tools as readonly unknown[] | null | undefined) ?? null,
    n: whole('n', body.n, 1, MAX_N) ?? 1,
    seed: whole('seed', body.seed, 0, Number.MAX_SAFE_INTEGER),
    temperature: temperature(body.temperature),
    maxTokens: whole('max_completion_tokens', body.max_completion_tokens, 1) ?? whole('max_tokens', body.max_tokens, 1),
    stop: stops(body.stop),
    logprobs: flag('logprobs', body.logprobs),
  };
}

function spokenBy(model: string): Spoken | null {
  const match = /^(policy|checkpoint):(.+)$/s.exec(model);
  return match && isIdentifier(match[2]) ? { kind: match[1] as Spoken['kind'], name: match[2] as string } : null;
}

function whole(field: string, value: unknown, least: number, most = Number.MAX_SAFE_INTEGER): number | null {
  if (value == null) return null;
  if (Number.isSafeInteger(value) && (value as number) >= least && (value as number) <= most) return value as number;
  throw refuse(
    field,
    most === MAX_N ? `a whole number from ${least} to ${most}` : `a whole number from ${least}`,
    value,
  );
}

function temperature(value: unknown): number {
  if (value == null) return 1;
  if (typeof value === 'number' && value >= 0 && value < Infinity) return value;
  throw refuse('temperature', 'a number from 0', value);
}

function stops(value: unknown): readonly string[] {
  const list = value == null ? [] : typeof value === 'string' ? [value] : value;
  if (Array.isArray(list) && list.length <= 16 && list.every((stop) => typeof stop === 'string' && stop !== ''))
    return list;
  throw refuse('stop', 'a text, or a list of at most 16 texts that are not empty', value);
}

function flag(field: string, value: unknown): boolean {
  if (value == null) return false;
  if (typeof value === 'boolean') return value;
  throw refuse(field, 'true or false', value);
}

/** What the sampling process is asked. */
export const toAsk = ({ messages, tools, n, temperature, maxTokens, stop }: ChatRequest, seed: number): SampleAsk => ({
  messages,
  ...(tools === null ? {} : { tools }),
  n,
  temperature,
  seed,
  ...(maxTokens === null ? {} : { max_tokens: maxTokens }),
  ...(stop.length === 0 ? {} : { stop }),
});

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
