/** Answers that are not sampled: those of the record of an episode, and those that a replay puts in their place. Pure. */
import type { Draft } from '../../../ingest/events/events.ts';
import { asText, isRecord, type JsonObject } from '../../../ingest/events/json.ts';
import { type ChatMessage, fromMessage } from '../../../ingest/formats/kit/chat-message.ts';
import type { ReplayAnswer } from '../../../store/loop/play/replay.ts';
import type { Choice, SampleAnswer } from '../../../trainer/sample/infer-wire.ts';
import type { CompletionRequest, Lineage } from '../request.ts';
import type { Kind } from '../upstream/kind.ts';

type FunctionCall = { readonly function: { readonly name: string; readonly arguments?: string } };

/** The answer of a policy as it was sampled, from generation.completed. */
export function answerOf(completed: JsonObject): SampleAnswer {
  const { choices, prompt_token_ids, response_model, checkpoint_id, usage } = completed;
  const used = isRecord(usage) ? usage : {};
  return {
    choices: (choices as readonly JsonObject[]).map(choiceOf),
    prompt_token_ids: (prompt_token_ids as number[] | null) ?? [],
    model: asText(response_model ?? ''),
    checkpoint: asText(checkpoint_id ?? ''),
    usage: { prompt_tokens: Number(used.input_tokens ?? 0), completion_tokens: Number(used.output_tokens ?? 0) },
  };
}

function choiceOf({ content, index: _, finish_reason, ...drawn }: JsonObject): Choice {
  const message = fromMessage({ role: 'assistant', content }) as ChatMessage;
  const text = typeof message.content === 'string' ? message.content : '';
  const calls = (Array.isArray(message.tool_calls) ? message.tool_calls : []) as FunctionCall[];
  return {
    ...drawn,
    token_ids: (drawn.token_ids as number[] | null) ?? [],
    logprobs: (drawn.logprobs as number[] | null) ?? [],
    text,
    ...(calls.length === 0 ? {} : { called: calledOf(text, calls) }),
    finish_reason: finish_reason === 'length' ? 'length' : 'stop',
  };
}

const calledOf = (content: string, calls: readonly FunctionCall[]) => ({
  content,
  calls: calls.map(({ function: { name, arguments: written = '{}' } }) => ({ name, arguments: written })),
});

/** An answer that was given, as if every candidate had been it. It was not sampled: it has no tokens. */
export function answerGiven(given: ReplayAnswer, model: string, n: number): SampleAnswer {
  const { content, tool_calls: calls = [] } =
    typeof given === 'string'
      ? { content: given }
      : (given as JsonObject & { content?: string | null; tool_calls?: FunctionCall[] });
  const text = content ?? '';
  const choice: Choice = {
    token_ids: [],
    logprobs: [],
    text,
    ...(calls.length === 0 ? {} : { called: calledOf(text, calls) }),
    finish_reason: 'stop',
  };
  return {
    choices: Array.from({ length: n }, () => choice),
    prompt_token_ids: [],
    model,
    checkpoint: '',
    usage: { prompt_tokens: 0, completion_tokens: 0 },
  };
}

/** The text of a recorded call: that of the candidate it went on with. */
export function textOf({ choices }: JsonObject): string {
  const all = (Array.isArray(choices) ? choices : []) as readonly JsonObject[];
  return choiceOf(all.find(({ chosen }) => chosen === true) ?? all[0] ?? {}).text;
}

/** What the writers of responses look at in a request that no policy reads. */
export function plainRequest(kind: Kind, body: JsonObject): CompletionRequest {
  const options = isRecord(body.stream_options) ? body.stream_options : {};
  return {
    model: asText(body.model),
    who: null,
    prompt: { text: '' },
    sampling: {
      ...{
        n: Number.isSafeInteger(body.n) ? (body.n as number) : 1,
        seed: null,
        temperature: 1,
        topK: 0,
        topP: 1,
        minP: 0,
      },
      maxTokens: null,
      stop: [],
      topLogprobs: 0,
      rawLogprobs: false,
      oneCall: false,
    },
    constraint: null,
    logprobs: false,
    tokensAsIds: false,
    stream: body.stream === true ? { usage: kind === 'responses' || options.include_usage === true } : null,
    repeats: kind === 'responses' ? body : {},
  };
}

/** The API whose response this is; null where it is unknown. */
export function kindOf(response: JsonObject): Kind | null {
  if (response.object === 'chat.completion') return 'chat';
  if (response.object === 'text_completion') return 'text';
  if (response.object === 'response') return 'responses';
  if (response.type === 'message') return 'messages';
  return response.object === 'list' ? 'embeddings' : null;
}

/**
 * The drafts of a call as those of one that the record answered: a copy, with the tokens, log-probabilities and weights of its source. What
 * names the response, its cost and its time stay with the source.
 */
export const asCopied = (drafts: readonly Draft[], completed: JsonObject, lineage: Lineage): Draft[] =>
  drafts.map((draft) => {
    if (draft.name === 'generation.requested')
      return withData(draft, { ...draft.data, copied: true, unmapped: { ...unmappedOf(draft), replay: lineage } });
    if (draft.name !== 'generation.completed') return draft;
    const { response_id: _, latency_ms: __, usage, ...kept } = completed;
    const { episode_id } = draft.data as { episode_id: string };
    const tokens = isRecord(usage) && 'cost_usd' in usage ? { usage: { ...usage, cost_usd: 0 } } : { usage };
    return withData(draft, { ...kept, ...(usage === undefined ? {} : tokens), episode_id });
  });

/** The drafts of a call that was answered with what a replay put there: it has no tokens. `copied`: it is never to be trained on. */
export const asGiven = (drafts: readonly Draft[], { copied }: { readonly copied: boolean }): Draft[] =>
  drafts.map((draft) => {
    if (draft.name === 'generation.requested') return copied ? withData(draft, { ...draft.data, copied }) : draft;
    if (draft.name !== 'generation.completed') return draft;
    const {
      choices,
      prompt_token_ids: _,
      checkpoint_id: __,
      policy: ___,
      usage: ____,
      ...kept
    } = draft.data as JsonObject & {
      readonly choices: readonly JsonObject[];
    };
    const withoutTokens = choices.map(({ token_ids: _____, logprobs: ______, ...choice }) => choice);
    return withData(draft, { ...kept, choices: withoutTokens, flags: ['given_answer'] });
  });

const unmappedOf = ({ data }: Draft): object => (data as { unmapped?: object }).unmapped ?? {};
const withData = (draft: Draft, data: object): Draft => ({ ...draft, data }) as Draft;
