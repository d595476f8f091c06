/**
 * From the rows of a frozen dataset to tokens. Tokens that were sampled are taken as they are; text without tokens is tokenised with
 * the model's own template, which is right for supervised learning and refused for a policy gradient: re-tokenised text is not what
 * was sampled.
 */
import { TroupeError } from '../errors.ts';
import type { OpenModel } from './model-directory.ts';
import type { ChatMessage } from './template.ts';

/** The columns of a step dataset that training reads. */
export type StepRow = {
  readonly episode_id: string;
  readonly group_id: string | null;
  readonly task_id: string | null;
  readonly call_id: string;
  readonly candidate: number;
  readonly role: string | null;
  readonly prompt: string | null;
  readonly prompt_token_ids: ArrayLike<number> | null;
  readonly token_ids: ArrayLike<number> | null;
  readonly logprobs: ArrayLike<number> | null;
  readonly loss_mask: ArrayLike<number> | null;
  readonly text: string | null;
  readonly advantage: number | null;
};

export type TrainingRow = {
  readonly role: string;
  /** What is compared with each other: rows of one role in one group share a baseline. */
  readonly group: string;
  readonly callId: string;
  readonly promptIds: readonly number[];
  readonly tokenIds: readonly number[];
  /** False for tokens that the model did not choose. */
  readonly trained: readonly boolean[];
  readonly logprobs: readonly number[] | null;
  readonly advantage: number | null;
};

/** Rows for supervised learning. @throws TroupeError `training_failed` for a row that has neither tokens nor text with a prompt. */
export const supervisedRow = (row: StepRow, model: OpenModel): TrainingRow => {
  if (row.token_ids && row.prompt_token_ids) return sampledTokens(row);
  if (row.text === null || row.prompt === null) {
    throw new TroupeError(
      'training_failed',
      `Step ${row.call_id}/${row.candidate} has neither token ids nor text with its prompt; leave it out of the recipe.`,
    );
  }
  if (!model.template)
    throw new TroupeError(
      'model_unsupported',
      'The rows are text and this model has no chat template to tokenise them with.',
    );
  const messages = JSON.parse(row.prompt) as ChatMessage[];
  const promptIds = model.template.promptIds(messages, { addGenerationPrompt: true });
  const end = model.eosIds[0];
  const tokenIds = [...model.tokenizer.encode(row.text), ...(end === undefined ? [] : [end])];
  return { ...common(row), promptIds, tokenIds, trained: tokenIds.map(() => true), logprobs: null };
};

/** Rows for a policy gradient. @throws TroupeError `training_failed` for a row without sampled tokens, their log-probabilities or an advantage. */
export const policyRow = (row: StepRow): TrainingRow => {
  if (!row.token_ids || !row.prompt_token_ids || !row.logprobs) {
    throw new TroupeError(
      'training_failed',
      `Step ${row.call_id}/${row.candidate} has no token ids or log-probabilities as sampled; a policy gradient cannot be computed from its text. Use sft, or record tokens.`,
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

const common = (row: StepRow) => ({
  role: row.role ?? '',
  group: row.group_id ?? row.task_id ?? row.episode_id,
  callId: `${row.episode_id}\n${row.call_id}`,
  advantage: row.advantage,
});
