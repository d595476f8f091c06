/** An answer in the shapes of the OpenAI interface, with the token ids and the ids of what was recorded beside it. */
import type { Choice, SampleAnswer } from '../trainer/sampling/infer-wire.ts';
import type { CompletionRequest } from './gateway-request.ts';

export type Recorded = { readonly callId: string; readonly episodeId: string };
export type AnswerBody = (answer: SampleAnswer, request: CompletionRequest, ids: Recorded) => Record<string, unknown>;

/** The body of /v1/chat/completions. */
export const chatBody: AnswerBody = (answer, request, ids) => ({
  ...about('chat.completion', answer, request, ids),
  choices: answer.choices.map((choice, index) => ({
    index,
    message: { role: 'assistant', content: choice.text },
    finish_reason: choice.finish_reason,
    logprobs: request.logprobs ? { content: chatLogprobs(choice) } : null,
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
    logprobs: request.logprobs ? textLogprobs(choice) : null,
    ...tokensOf(choice),
  })),
});

function about(
  object: string,
  { usage: { prompt_tokens, completion_tokens }, ...answer }: SampleAnswer,
  { model }: CompletionRequest,
  { callId, episodeId }: Recorded,
): Record<string, unknown> {
  return {
    id: callId,
    object,
    created: Math.floor(Date.now() / 1000),
    model,
    prompt_token_ids: answer.prompt_token_ids,
    usage: { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens },
    system_fingerprint: answer.checkpoint,
    troupe: {
      episode_id: episodeId,
      call_id: callId,
      step_ids: answer.choices.map((_, index) => `${callId}/${index}`),
      checkpoint_id: answer.checkpoint,
    },
  };
}

const tokensOf = ({ token_ids, raw_logprobs }: Choice) => ({
  token_ids,
  ...(raw_logprobs === undefined ? {} : { raw_logprobs }),
});

/** Tokens are named by their ids, as vLLM does with `return_tokens_as_token_ids`: the text of one token alone is not always text. */
const tokenName = (id: number): string => `token_id:${id}`;

/** What the OpenAI interface says of a token too unlikely for a number; JSON has no −∞. */
const NEVER = -9999;
const finite = (logprob: number | null | undefined): number => logprob ?? NEVER;

const chatLogprobs = ({ token_ids, logprobs, top_logprobs = [] }: Choice) =>
  token_ids.map((id, i) => ({
    token: tokenName(id),
    logprob: finite(logprobs[i]),
    bytes: null,
    top_logprobs: (top_logprobs[i] ?? []).map(({ token_id, logprob }) => ({
      token: tokenName(token_id),
      logprob: finite(logprob),
      bytes: null,
    })),
  }));

const textLogprobs = ({ token_ids, logprobs, top_logprobs }: Choice) => ({
  tokens: token_ids.map(tokenName),
  token_logprobs: token_ids.map((_, i) => finite(logprobs[i])),
  top_logprobs:
    top_logprobs?.map((best) =>
      Object.fromEntries(best.map(({ token_id, logprob }) => [tokenName(token_id), finite(logprob)])),
    ) ?? null,
});
