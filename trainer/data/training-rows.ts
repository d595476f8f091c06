/**
 * From the rows of a frozen dataset to tokens. Tokens that were sampled are taken as they are; text without tokens is tokenised with
 * the model's own template, which is right for supervised learning and refused for a policy gradient: re-tokenised text is not what
 * was sampled.
 */
import { TroupeError } from '../../errors.ts';
import { fromMessage } from '../../ingest/formats/chat-message.ts';
import { listIn } from '../../store/datasets/nested-columns.ts';
import type { OpenModel } from '../models/model-directory.ts';
import type { ChatMessage, ChatTemplate, ToolOptions } from '../tokens/template.ts';

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
  readonly text: string | null;
  /** JSON text of the parts where the step is more than a text: calls of tools beside it. */
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
  const parts = partsOf(row.content);
  const missing = row.prompt === null ? 'prompt' : row.text === null && parts === null ? 'text' : null;
  if (missing !== null) {
    throw new TroupeError(
      'input_refused',
      `Step ${row.call_id}/${row.candidate} has neither token ids nor the text of its prompt and answer; exclude it in the recipe.`,
      {
        field: missing,
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
  const messages = askedMessages(row).map((message) => fromMessage(message) as ChatMessage);
  const tools = offeredTools(row);
  const { promptIds, tokenIds } =
    parts === null
      ? answerFromText(messages, row.text ?? '', model, tools)
      : answerFromParts(messages, parts, model.template, tools);
  return { ...common(row), promptIds, tokenIds, trained: tokenIds.map(() => true), logprobs: null };
};

/** The messages of a prompt. The instructions of the agent go first where the input has none of its own, as in the layouts of other trainers. */
export function askedMessages({
  prompt,
  system,
}: Pick<StepRow, 'prompt' | 'system'>): readonly Readonly<Record<string, unknown>>[] {
  const messages = listIn(prompt) ?? [];
  const hasOwn = messages.some(({ role }) => role === 'system' || role === 'developer');
  return system && !hasOwn ? [{ role: 'system', content: system }, ...messages] : messages;
}

/** The tools that a step was offered, as the template takes them. */
export const offeredTools = ({ tools }: Pick<StepRow, 'tools'>): ToolOptions => {
  const offered = typeof tools === 'string' ? (JSON.parse(tools) as unknown) : tools;
  return Array.isArray(offered) && offered.length > 0 ? { tools: offered } : {};
};

/** The parts of a step that is not a text alone. */
function partsOf(content: string | null | undefined): readonly Readonly<Record<string, unknown>>[] | null {
  const parts: unknown = content ? JSON.parse(content) : null;
  return Array.isArray(parts) && parts.some((part) => part?.type !== 'text') ? parts : null;
}

/** What was written is learnt as it stands, with the token that ends a turn. */
function answerFromText(
  messages: readonly ChatMessage[],
  text: string,
  { template, tokenizer, eosIds }: OpenModel,
  tools: ToolOptions,
) {
  const promptIds = template!.promptIds(messages, { addGenerationPrompt: true, ...tools });
  const end = eosIds[0];
  return { promptIds, tokenIds: [...tokenizer.encode(text), ...(end === undefined ? [] : [end])] };
}

/** Calls of tools are learnt in the words of the model's own template. */
function answerFromParts(
  messages: readonly ChatMessage[],
  content: readonly unknown[],
  template: ChatTemplate,
  tools: ToolOptions,
) {
  const answer = fromMessage({ role: 'assistant', content }) as ChatMessage;
  const { promptIds, replyIds } = template.replyIds(messages, answer, tools);
  return { promptIds, tokenIds: replyIds };
}

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
