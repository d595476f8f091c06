/** Pairs of answers to one prompt. */
import { messageKey } from './message.ts';
import { type Chat, worth } from './turn.ts';

export type Pair = { readonly chosen: Chat; readonly rejected: Chat };

/**
 * The first best and the first worst row of each key, in the order of the keys, where their values differ. Rows without a value are in
 * no pair.
 */
export function bestAndWorst<R>(
  rows: readonly R[],
  keyOf: (row: R) => string,
  worthOf: (row: R) => number | null,
): { readonly best: R; readonly worst: R }[] {
  const found = new Map<string, { best: R; worst: R }>();
  for (const row of rows) {
    const value = worthOf(row);
    if (value === null) continue;
    const key = keyOf(row);
    const pair = found.get(key);
    if (!pair) found.set(key, { best: row, worst: row });
    else if (value > worthOf(pair.best)!) pair.best = row;
    else if (value < worthOf(pair.worst)!) pair.worst = row;
  }
  return [...found.values()].filter(({ best, worst }) => worthOf(best) !== worthOf(worst));
}

/** What makes two turns answers to one prompt: group (else task, else episode), role and messages. */
export const promptKey = ({ group_id, task_id, episode_id, role, prompt }: Chat): string =>
  JSON.stringify([group_id ?? task_id ?? episode_id, role, prompt.map(messageKey)]);

/** The pairs of a dataset of pairs; else one for each prompt whose answers differ in advantage, or in reward where that is unknown, and in content. */
export const pairsOf = (chats: readonly Chat[]): Pair[] =>
  bestAndWorst(chats, (chat) => chat.pair?.id ?? promptKey(chat), worth)
    .map(({ best, worst }) => ({ chosen: best, rejected: worst }))
    .filter(({ chosen, rejected }) => messageKey(chosen.answer) !== messageKey(rejected.answer));

/** Counts the turns that are in no pair. */
export const unpaired = (chats: readonly Chat[], pairs: readonly Pair[]): number => chats.length - 2 * pairs.length;
export const NO_PAIR = 'neither the best nor the worst of different answers to one prompt with a reward or advantage';
