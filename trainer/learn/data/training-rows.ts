/**
 * From the rows of a frozen dataset to tokens. Tokens that were sampled are taken as they are; a conversation without tokens is what the
 * model's own template writes for it, its answer included. That is right for supervised learning and refused for a policy gradient:
 * re-tokenised text is not what was sampled.
 */
import { TroupeError } from '../../../errors.ts';
import { mapStrings, unescapeText } from '../../../ingest/events/text.ts';
import { CHAT_ROLES, fromMessage } from '../../../ingest/formats/kit/chat-message.ts';
import { listIn } from '../../../store/datasets/nested-columns.ts';
import type { OpenModel } from '../../model/model-directory.ts';
import { ANSWERS, type ChatTemplate, type MaskOptions, type ToolOptions } from '../../model/tokens/template.ts';
import type { ChatMessage } from '../../model/tokens/template-messages.ts';

/** The columns of a step dataset that training reads. */
export type StepRow = {
  readonly episode_id: string;
  readonly group_id: string | null;
  readonly task_id: string | null;
  readonly call_id: string;
  readonly candidate: number;
  readonly role: string | null;
  /** Messages; JSON text in a dataset of `troupe-dataset/1`. */
  readonly prompt: string | readonly Readonly<Record<string, unknown>>[] | null;
  /** The instructions of the agent. */
  readonly system?: string | null;
  /** Tools that were offered; JSON text in a dataset of `troupe-dataset/1`. */
  readonly tools?: string | readonly unknown[] | null;
  readonly prompt_token_ids: ArrayLike<number> | null;
  readonly token_ids: ArrayLike<number> | null;
  readonly logprobs: ArrayLike<number> | null;
  readonly loss_mask: ArrayLike<number> | null;
  /** Whether it is half an answer. */
  readonly cut?: boolean | null;
  readonly text: string | null;
  /** JSON text of the parts where the step is more than one text: calls of tools and thoughts beside it, or several texts. */
  readonly content?: string | null;
  readonly advantage: number | null;
  /** Only where the recipe names weights. */
  readonly weight?: number | null;
};

export type RewardedStep = StepRow & { readonly reward: number | null };

/** What is trained on: a prompt of at least one token and what follows it. */
export type TokenRow = {
  readonly promptIds: readonly number[];
  readonly tokenIds: readonly number[];
  /** False for tokens that are not to be learnt: those the model did not choose. */
  readonly trained: readonly boolean[];
  /** What the loss of the row is multiplied by; 1 where it is left out. */
  readonly weight?: number;
};

export type TrainingRow = TokenRow & {
  readonly role: string;
  /** What is compared with each other: rows of one role in one group share a baseline. */
  readonly group: string;
  /** The task, where it is known; else the group. */
  readonly problem: string;
  readonly callId: string;
  readonly logprobs: readonly number[] | null;
  readonly advantage: number | null;
};

/** Rows for supervised learning. @throws TroupeError `input_refused` for a row that has neither tokens nor texts of prompt and answer. */
export const supervisedRow = (row: StepRow, model: OpenModel): TrainingRow => {
  if (row.token_ids && row.prompt_token_ids) return sampledTokens(row);
  const answer = answerOf(row);
  const missing = row.prompt === null ? 'prompt' : answer === null ? 'text' : null;
  if (missing !== null || answer === null) {
    throw new TroupeError(
      'input_refused',
      `Step ${row.call_id}/${row.candidate} has neither token ids nor the text of its prompt and answer; exclude it in the recipe.`,
      {
        field: missing ?? 'text',
        expected: 'there, or the token ids of prompt and answer',
        got: `nothing, in step ${row.call_id}/${row.candidate}`,
      },
    );
  }
  if (!model.template)
    throw new TroupeError(
      'model_unsupported',
      'The rows are text and this model has no chat template to tokenise them with.',
    );
  const cut = row.cut === true;
  const learnt = answerRow([...askedMessages(row), answer], model.template, { ...offeredTools(row), cut });
  return { ...common(row), ...learnt, logprobs: null };
};

/** Half an answer is learnt without an end. */
export type AnswerOptions = ToolOptions & { readonly cut?: boolean };

/**
 * The row of a conversation whose last message is learnt: prompt and answer are what the template writes, which is also what a policy is
 * served and what it answers.
 * @throws TroupeError `input_refused` where nothing of it can be learnt
 */
export function answerRow(
  messages: readonly ChatMessage[],
  template: ChatTemplate,
  { cut = false, ...tools }: AnswerOptions = {},
): TokenRow {
  const last = messages.length - 1;
  const learning = (_: ChatMessage, i: number) => (i < last ? 'not' : cut ? 'cut' : 'whole');
  const row = chatRow(messages, template, { ...tools, learning });
  if (row !== null) return row;
  throw new TroupeError('input_refused', 'The chat template writes nothing for this answer.', {
    field: 'text',
    expected: 'an answer of at least one token',
    got: 'none',
  });
}

/** The row of a conversation, of which several messages may be learnt. It ends with the last of them; null where nothing is learnt. */
export function chatRow(
  messages: readonly ChatMessage[],
  template: ChatTemplate,
  options: MaskOptions = {},
): TokenRow | null {
  const { learning = ANSWERS } = options;
  const end = messages.findLastIndex((message, i) => learning(message, i) !== 'not') + 1;
  if (end === 0) return null;
  const { ids, lossMask } = template.maskedIds(messages.slice(0, end), options);
  // Nothing comes before the first token, so that it can never be learnt.
  const first = lossMask.indexOf(1, 1);
  if (first < 0) return null;
  const trained = Array.from(lossMask.subarray(first), (on) => on === 1);
  return { promptIds: ids.slice(0, first), tokenIds: ids.slice(first), trained };
}

/**
 * The messages of a prompt, as they were sent. The instructions of the agent go first where the input has none of its own, as in the layouts
 * of other trainers.
 * @throws TroupeError `input_refused` for a message that could not have been sent
 */
export function askedMessages({ prompt, system }: Pick<StepRow, 'prompt' | 'system'>): readonly ChatMessage[] {
  const messages = (listIn(prompt) ?? []).map(sentMessage);
  const unknown = messages.findIndex(({ role }) => !CHAT_ROLES.has(role));
  if (unknown >= 0)
    throw new TroupeError(
      'input_refused',
      `A message of the prompt has the role ${messages[unknown]!.role}, which no chat API knows.`,
      {
        field: `prompt[${unknown}].role`,
        expected: `one of ${[...CHAT_ROLES].join(', ')}`,
        got: messages[unknown]!.role,
      },
    );
  const hasOwn = messages.some(({ role }) => role === 'system' || role === 'developer');
  return system && !hasOwn ? [sentMessage({ role: 'system', content: system }), ...messages] : messages;
}

/** The answer of a step: its parts where it has some, else its text. Null where neither is known. */
function answerOf({ text, content }: Pick<StepRow, 'text' | 'content'>): ChatMessage | null {
  const parts: unknown = content ? JSON.parse(content) : null;
  const said = Array.isArray(parts) ? parts : text;
  return said === null ? null : sentMessage({ role: 'assistant', content: said });
}

/** A recorded message as the chat API writes it, with the characters that PostgreSQL cannot hold. */
export const sentMessage = (recorded: Readonly<Record<string, unknown>>): ChatMessage =>
  mapStrings(fromMessage(recorded), unescapeText) as ChatMessage;

/** The tools that a step was offered, as the template takes them. */
export const offeredTools = ({ tools }: Pick<StepRow, 'tools'>): ToolOptions => {
  const offered = typeof tools === 'string' ? (JSON.parse(tools) as unknown) : tools;
  return Array.isArray(offered) && offered.length > 0
    ? { tools: mapStrings(offered, unescapeText) as readonly unknown[] }
    : {};
};

/** Rows for a policy gradient. @throws TroupeError `training_failed` for a row without sampled tokens or their log-probabilities, and for one with a weight. */
export const policyRow = (row: StepRow): TrainingRow => {
  if (!row.token_ids || !row.prompt_token_ids || !row.logprobs) {
    throw new TroupeError(
      'training_failed',
      `Step ${row.call_id}/${row.candidate} has no token ids or log-probabilities as sampled; a policy gradient cannot be computed from its text. Use sft, or record tokens.`,
    );
  }
  if (typeof row.weight === 'number') {
    throw new TroupeError(
      'training_failed',
      'The rows have weights, which a policy gradient does not use. Take a recipe without weight, or train with sft or dpo.',
    );
  }
  return sampledTokens(row);
};

function sampledTokens(row: StepRow): TrainingRow {
  const tokenIds = Array.from(row.token_ids!);
  const mask = row.loss_mask;
  return {
    ...common(row),
    promptIds: Array.from(row.prompt_token_ids!),
    tokenIds,
    trained: tokenIds.map((_, t) => mask === null || mask[t] === 1),
    logprobs: row.logprobs ? Array.from(row.logprobs) : null,
  };
}

/**
 * A row from ids and a mask of what is learnt. Nothing comes before the first token, so that it can never be learnt; what comes after the
 * last learnt token changes nothing and is left out. Null where nothing is learnt.
 */
export function maskedRow(ids: readonly number[], mask: ArrayLike<number> | null): TokenRow | null {
  const learnt = (at: number): boolean => at > 0 && (mask === null || mask[at] === 1);
  const first = ids.findIndex((_, at) => learnt(at));
  if (first < 0) return null;
  const end = ids.findLastIndex((_, at) => learnt(at)) + 1;
  const tokenIds = ids.slice(first, end);
  return { promptIds: ids.slice(0, first), tokenIds, trained: tokenIds.map((_, t) => learnt(first + t)) };
}

/** A row cut at the end to so many tokens; null where nothing learnt is left. */
export function cutRow(row: TokenRow, longest: number): TokenRow | null {
  const { promptIds, tokenIds, trained, weight } = row;
  if (promptIds.length + tokenIds.length <= longest) return row;
  const mask = [...promptIds.map(() => 0), ...trained.map(Number)];
  const cut = maskedRow([...promptIds, ...tokenIds].slice(0, longest), mask);
  return cut && { ...cut, ...weighed(weight) };
}

const common = (row: StepRow) => ({
  role: row.role ?? '',
  group: row.group_id ?? row.task_id ?? row.episode_id,
  problem: row.task_id ?? row.group_id ?? row.episode_id,
  callId: `${row.episode_id}\n${row.call_id}`,
  advantage: row.advantage,
  ...weighed(row.weight),
});

/** The weight of a row where it has one. */
export const weighed = (weight: number | null | undefined): Pick<TokenRow, 'weight'> =>
  weight === null || weight === undefined ? {} : { weight };
