/** Client of an OpenAI-compatible chat endpoint: one request, its response, and how long the server asks to wait. */
import { got, TroupeError } from '../../../errors.ts';
import type { Ask, ChatAnswer } from '../../../store/evaluate/attribution/chat.ts';

/** A request that has no answer by then is one that failed. */
const PATIENCE_MS = 120_000;
const NOTHING: ChatAnswer = { status: 0, text: null, retry_after_ms: null, input_tokens: null, output_tokens: null };

/**
 * @param key_env name of the environment variable that holds the key; the key goes into the header and nowhere else.
 * @throws TroupeError `usage` for an address that is none, or a variable that is not set.
 */
export function chatEndpoint(
  { model, endpoint, key_env }: { readonly model: string; readonly endpoint: string; readonly key_env: string | null },
  env: Readonly<Record<string, string | undefined>>,
): Ask {
  const key = key_env === null ? undefined : env[key_env];
  if (key_env !== null && !key) {
    throw new TroupeError('usage', `key_env names ${key_env}, which is not set in the environment.`);
  }
  const url = `${checkedEndpoint(endpoint)}/chat/completions`;
  const headers = { 'content-type': 'application/json', ...(key ? { authorization: `Bearer ${key}` } : {}) };
  return async (messages, signal) => {
    try {
      const response = await fetch(url, {
        method: 'POST',
        headers,
        body: JSON.stringify({ model, messages, temperature: 0 }),
        signal: AbortSignal.any([signal, AbortSignal.timeout(PATIENCE_MS)]),
      });
      const retry_after_ms = waitOf(response.headers.get('retry-after'));
      if (!response.ok) {
        await response.body?.cancel();
        return { ...NOTHING, status: response.status, retry_after_ms };
      }
      return { ...answerOf(await response.json().catch(() => null)), status: 200, retry_after_ms };
    } catch {
      return NOTHING;
    }
  };
}

/**
 * The address without its last part. One that carries a name, a password or a query is refused, for the address is recorded.
 * @throws TroupeError `usage`
 */
export function checkedEndpoint(endpoint: string): string {
  const address = endpoint.replace(/\/+$/, '').replace(/\/chat\/completions$/, '');
  const expected = 'an address such as http://127.0.0.1:7717/v1, without name, password or query';
  const url = URL.canParse(address) ? new URL(address) : null;
  if (url !== null && (url.username !== '' || url.password !== '' || url.search !== '')) {
    throw new TroupeError('usage', `endpoint should be ${expected}; name the variable with the key in key_env.`);
  }
  if (url === null || !/^https?:$/.test(url.protocol)) {
    throw new TroupeError('usage', `endpoint should be ${expected}, but it is ${got(endpoint)}.`);
  }
  return address;
}

/** Seconds, or a date. */
function waitOf(header: string | null): number | null {
  if (header === null) return null;
  if (/^\d+(\.\d+)?$/.test(header.trim())) return Number(header) * 1000;
  const at = Date.parse(header);
  return Number.isNaN(at) ? null : Math.max(0, at - Date.now());
}

function answerOf(body: unknown): Omit<ChatAnswer, 'status' | 'retry_after_ms'> {
  const { choices, usage } = (body ?? {}) as {
    choices?: { message?: { content?: unknown } }[];
    usage?: { prompt_tokens?: unknown; completion_tokens?: unknown };
  };
  const text = choices?.[0]?.message?.content;
  const count = (value: unknown) => (typeof value === 'number' && Number.isFinite(value) && value >= 0 ? value : null);
  return {
    text: typeof text === 'string' && text.trim() !== '' ? text : null,
    input_tokens: count(usage?.prompt_tokens),
    output_tokens: count(usage?.completion_tokens),
  };
}
