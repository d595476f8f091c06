/**
 * Asking a model that the caller provides: retries where the endpoint reports that it is busy, never beyond the budget, and takes only an answer
 * of the shape that was asked for. Nothing here knows HTTP.
 */
import { got } from '../../../errors.ts';

export type ChatMessage = { readonly role: 'system' | 'user' | 'assistant'; readonly content: string };

/** What the endpoint answered. `status` is that of HTTP, 0 for no answer at all; tokens are null where it gives no count. */
export type ChatAnswer = {
  readonly status: number;
  readonly text: string | null;
  readonly retry_after_ms: number | null;
  readonly input_tokens: number | null;
  readonly output_tokens: number | null;
};

export type Ask = (messages: readonly ChatMessage[], signal: AbortSignal) => Promise<ChatAnswer>;

/** Why asking ended without an answer that can be used. */
export class NoAnswer extends Error {
  /** `stopped` ends the job, `failing` counts against the endpoint, `refused` is an answer in itself. */
  readonly kind: 'stopped' | 'failing' | 'refused';
  readonly reason: string;

  constructor(kind: 'stopped' | 'failing' | 'refused', reason: string) {
    super(reason);
    this.kind = kind;
    this.reason = reason;
  }
}

export type Usage = { calls: number; input_tokens: number; output_tokens: number };

/** What all episodes of a job share: what was spent, and the limits. */
export type TokenBudget = {
  readonly ask: Ask;
  readonly signal: AbortSignal;
  readonly wait: (ms: number, signal: AbortSignal) => Promise<void>;
  readonly limits: { readonly max_calls: number | null; readonly max_tokens: number | null };
  readonly spent: Usage;
};

const MOST_TRIES = 5;
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 60_000;
/** Estimated tokens of a text where no count is given: a token has about four characters. */
const estimatedTokens = (text: string): number => Math.ceil(text.length / 4);

/**
 * The text of one answer. Every request counts as a call, also one that failed; several at once may together pass the limit on tokens
 * by what they answer, never the limit on calls.
 * @throws NoAnswer
 */
async function askOnce(budget: TokenBudget, messages: readonly ChatMessage[], own: Usage): Promise<string> {
  for (let tried = 1; ; tried++) {
    requireBudget(budget);
    budget.spent.calls++;
    own.calls++;
    const answer = await budget.ask(messages, budget.signal);
    if (budget.signal.aborted) throw new NoAnswer('stopped', 'interrupted');
    if (answer.status === 200 && answer.text !== null) {
      const input = answer.input_tokens ?? messages.reduce((sum, one) => sum + estimatedTokens(one.content), 0);
      const output = answer.output_tokens ?? estimatedTokens(answer.text);
      for (const usage of [budget.spent, own]) {
        usage.input_tokens += input;
        usage.output_tokens += output;
      }
      return answer.text;
    }
    const again = answer.status === 0 || answer.status === 429 || answer.status >= 500;
    if (answer.status === 200) throw new NoAnswer('refused', 'empty_answer');
    if (!again) throw new NoAnswer('stopped', `endpoint_answered_${answer.status}`);
    if (tried === MOST_TRIES)
      throw new NoAnswer('failing', answer.status === 0 ? 'unreachable' : `status_${answer.status}`);
    await budget.wait(
      Math.min(LONGEST_PAUSE_MS, answer.retry_after_ms ?? FIRST_PAUSE_MS * 2 ** (tried - 1)),
      budget.signal,
    );
    if (budget.signal.aborted) throw new NoAnswer('stopped', 'interrupted');
  }
}

function requireBudget({ limits, spent, signal }: TokenBudget): void {
  if (signal.aborted) throw new NoAnswer('stopped', 'interrupted');
  if (limits.max_calls !== null && spent.calls >= limits.max_calls) throw new NoAnswer('stopped', 'max_calls');
  const tokens = spent.input_tokens + spent.output_tokens;
  if (limits.max_tokens !== null && tokens >= limits.max_tokens) throw new NoAnswer('stopped', 'max_tokens');
}

/** The value as wanted, or what is wrong with it in words that a model can act on. */
export type ReplyReader<T> = (value: unknown) => { readonly value: T } | { readonly wrong: string };

/**
 * An answer that is one JSON value of the shape that was asked for, bare or in one fenced block. A bad one is sent back once.
 * @throws NoAnswer `malformed_answer` after the second.
 */
export async function askFor<T>(
  budget: TokenBudget,
  messages: readonly ChatMessage[],
  read: ReplyReader<T>,
  own: Usage,
): Promise<T> {
  const first = await askOnce(budget, messages, own);
  const taken = parsed(first, read);
  if ('value' in taken) return taken.value;
  const repair = `That could not be used: ${taken.wrong}. Answer again with the JSON object alone.`;
  const second = await askOnce(
    budget,
    [...messages, { role: 'assistant', content: first }, { role: 'user', content: repair }],
    own,
  );
  const repaired = parsed(second, read);
  if ('value' in repaired) return repaired.value;
  throw new NoAnswer('refused', 'malformed_answer');
}

function parsed<T>(text: string, read: ReplyReader<T>): ReturnType<ReplyReader<T>> {
  const fenced = /^```(?:json)?([\s\S]*)```$/.exec(text.trim());
  try {
    return read(JSON.parse(fenced?.[1]?.trim() ?? text));
  } catch {
    return { wrong: `it is not JSON but ${got(text)}` };
  }
}
