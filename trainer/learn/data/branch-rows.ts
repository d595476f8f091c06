/** Rows of a dataset of branches for supervised learning: what is learnt of a conversation, with all of it before. */
import { TroupeError } from '../../../errors.ts';
import type { Learning } from '../../model/tokens/template.ts';
import { nothingLearnt, type RowModel, supervisedLine, templateOf } from './training-files.ts';
import { askedMessages, chatRow, offeredTools, type TokenRow, weighed } from './training-rows.ts';

/** The columns of a dataset of branches that training reads. */
export type BranchRow = {
  readonly episode_id: string;
  readonly group_id: string | null;
  readonly task_id: string | null;
  readonly step_id: string;
  readonly messages: readonly Readonly<Record<string, unknown>>[] | null;
  readonly answers: readonly { readonly messages: number | null; readonly cut?: boolean | null }[];
  readonly system?: string | null;
  readonly tools?: readonly unknown[] | null;
  readonly token_ids: ArrayLike<number> | null;
  readonly loss_mask: ArrayLike<number> | null;
  readonly weight?: number | null;
};

/**
 * Tokens as they were sampled; where they are not known, messages as the model's own template writes them.
 * @throws TroupeError `input_refused` where neither is known, or nothing is learnt
 */
export function branchRow(row: BranchRow, model: RowModel): TokenRow & { readonly problem: string } {
  const { token_ids: ids, loss_mask: mask, messages, answers, weight = null } = row;
  const problem = row.task_id ?? row.group_id ?? row.episode_id;
  if (ids !== null && mask !== null)
    return { ...supervisedLine({ input_ids: Array.from(ids), loss_mask: Array.from(mask), weight }, model), problem };
  if (messages === null) {
    throw new TroupeError('input_refused', `Branch ${row.step_id} has neither token ids nor messages; exclude it.`, {
      field: 'messages',
      expected: 'there, or token ids',
      got: 'nothing',
    });
  }
  const chat = askedMessages({ prompt: messages, system: row.system ?? null });
  // The instructions of the agent may stand before the first message.
  const first = chat.length - messages.length;
  const learnt = new Map(answers.map((answer) => [answer.messages, answer.cut === true ? 'cut' : 'whole'] as const));
  const learning = (_: unknown, i: number): Learning => learnt.get(i - first) ?? 'not';
  const taught = chatRow(chat, templateOf(model), { ...offeredTools(row), learning });
  return { ...(taught ?? nothingLearnt()), ...weighed(weight), problem };
}
