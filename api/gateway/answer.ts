/** A response in the shapes of the OpenAI interface, with its token ids and the ids of its record. */

import { bytesOfText, tokenName } from '../../trainer/model/tokens/token-text.ts';
import type { Choice, SampleAnswer, SampleStart, TopLogprob } from '../../trainer/sample/infer-wire.ts';
import type { CompletionRequest } from './request.ts';
import { finishOf, messageOf } from './tools.ts';

export type CallRecord = {
  readonly callId: string;
  readonly episodeId: string;
  /** When the call was made, in seconds of Unix time. */
  readonly created: number;
};
export type AnswerBody = (
  answer: SampleAnswer,
  request: CompletionRequest,
  ids: CallRecord,
) => Record<string, unknown> & { readonly id: string };

/** The body of /v1/chat/completions. */
export const chatBody: AnswerBody = (answer, request, ids) => ({
  ...about('chat.completion', answer, request, ids),
  choices: answer.choices.map((choice, index) => ({
    index,
    message: messageOf(choice, ids.callId, index),
    finish_reason: finishOf(choice),
    logprobs: request.logprobs ? { content: chatLogprobs(choice, request.tokensAsIds) } : null,
    ...tokensOf(choice),
  })),
});

/** The body of /v1/completions. */
export const textBody: AnswerBody = (answer, request, ids) => ({
  ...about('text_completion', answer, request, ids),
  choices: answer.choices.map((choice, index) => ({
    index,
    text: choice.text,
    finish_reason: choice.finish_reason,
    logprobs: request.logprobs ? textLogprobs(choice, request.tokensAsIds) : null,
    ...tokensOf(choice),
  })),
});

/** The fields beside the choices. */
function about(
  object: string,
  { usage: { prompt_tokens, completion_tokens }, ...answer }: SampleAnswer,
  { model }: CompletionRequest,
  ids: CallRecord,
): ReturnType<AnswerBody> {
  return {
    id: ids.callId,
    object,
    created: ids.created,
    model,
    prompt_token_ids: answer.prompt_token_ids,
    usage: { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens },
    system_fingerprint: answer.checkpoint,
    troupe: troupeOf(answer, ids),
  };
}

/** A response before its first token, from which its body begins. */
export const emptyAnswer = (begun: SampleStart, n: number): SampleAnswer => ({
  ...begun,
  choices: Array.from({ length: n }, () => ({ token_ids: [], logprobs: [], text: '', finish_reason: 'stop' as const })),
  usage: { prompt_tokens: begun.prompt_token_ids.length, completion_tokens: 0 },
});

/** The ids of the record, in the response of any API. */
export const troupeOf = (answer: Pick<SampleAnswer, 'choices' | 'checkpoint'>, { callId, episodeId }: CallRecord) => ({
  episode_id: episodeId,
  call_id: callId,
  step_ids: answer.choices.map((_, index) => `${callId}/${index}`),
  checkpoint_id: answer.checkpoint,
});

const tokensOf = ({ token_ids, raw_logprobs }: Choice) => ({
  token_ids,
  ...(raw_logprobs === undefined ? {} : { raw_logprobs }),
});

/** The value of the OpenAI interface for log-probability −∞, which JSON does not have. */
const NEVER = -9999;
const finite = (logprob: number | null | undefined): number => logprob ?? NEVER;

type TokenName = { readonly token_id: number; readonly token?: string | undefined };

/** A token by its text, or by its id if the request asks for that. */
const nameOf = ({ token_id, token }: TokenName, byId: boolean): string =>
  byId || token === undefined ? tokenName(token_id) : token;

const named = (one: TokenName & { readonly logprob: number | null | undefined }, byId: boolean) => {
  const token = nameOf(one, byId);
  return { token, token_id: one.token_id, logprob: finite(one.logprob), bytes: bytesOfText(token) };
};

/** Log-probabilities as /v1/chat/completions writes them. */
export const chatLogprobs = ({ token_ids, tokens, logprobs, top_logprobs = [] }: Choice, byId: boolean) =>
  token_ids.map((token_id, i) => ({
    ...named({ token_id, token: tokens?.[i], logprob: logprobs[i] }, byId),
    top_logprobs: (top_logprobs[i] ?? []).map((best) => named(best, byId)),
  }));

const textLogprobs = ({ token_ids, tokens, logprobs, top_logprobs }: Choice, byId: boolean) => ({
  tokens: token_ids.map((token_id, i) => nameOf({ token_id, token: tokens?.[i] }, byId)),
  token_logprobs: token_ids.map((_, i) => finite(logprobs[i])),
  top_logprobs: top_logprobs?.map((best) => byName(best, byId)) ?? null,
});

/** Of two tokens with one text the more probable one, which comes first, is shown. */
function byName(best: readonly TopLogprob[], byId: boolean): Record<string, number> {
  const shown = new Map<string, number>();
  for (const one of best) {
    const name = nameOf(one, byId);
    if (!shown.has(name)) shown.set(name, finite(one.logprob));
  }
  return Object.fromEntries(shown);
}
