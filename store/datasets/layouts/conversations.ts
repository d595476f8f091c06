/** Turns of one agent joined into conversations, each as long as its last turn. */
import type { Counter } from './counter.ts';
import { isAssistant, type Message, messageKey } from './message.ts';
import type { Chat } from './turn.ts';

export type Conversation = {
  readonly messages: readonly Message[];
  /** Places in `messages` of the answers that are rows of the dataset, in order. */
  readonly learnt: readonly number[];
  /** The last turn. */
  readonly last: Chat;
  /** The turns whose answers are learnt, in the same order. */
  readonly turns: readonly Chat[];
};

type Open = Conversation & { readonly keys: readonly string[] };

/**
 * A turn whose prompt begins with the whole conversation of an earlier turn of the same agent and episode, or branch, continues it. What an agent
 * was sent back of its own earlier answers stands as it was sent.
 */
export function conversationsOf(chats: readonly Chat[]): Conversation[] {
  const open = new Map<string, Open[]>();
  const order: Open[][] = [];
  for (const chat of chats) {
    const author = JSON.stringify([chat.branch ?? chat.episode_id, chat.agent, chat.role]);
    let of = open.get(author);
    if (!of) {
      of = [];
      open.set(author, of);
      order.push(of);
    }
    const prompt = chat.prompt.map(messageKey);
    const fits = of.filter(({ keys }) => keys.length <= prompt.length && keys.every((key, i) => key === prompt[i]));
    const before = fits.reduce<Open | null>((a, b) => (a === null || b.keys.length > a.keys.length ? b : a), null);
    const joined: Open = {
      messages: [...chat.prompt, chat.answer],
      learnt: [...(before?.learnt ?? []), chat.prompt.length],
      last: chat,
      turns: [...(before?.turns ?? []), chat],
      keys: [...prompt, messageKey(chat.answer)],
    };
    if (before === null) of.push(joined);
    else of[of.indexOf(before)] = joined;
  }
  return order.flat();
}

/** Counts answers in conversations that are no rows of the dataset, for layouts that cannot mark them, or not `those`. */
export function countUnlearnt(
  talks: readonly Conversation[],
  notHeld: Counter,
  those: (message: Message) => boolean = () => true,
): void {
  for (const { messages, learnt } of talks) {
    const rows = new Set(learnt);
    const unlearnt = messages.filter((one, i) => isAssistant(one) && !rows.has(i) && those(one)).length;
    notHeld.add('answers that are no rows of the dataset, which this layout has learnt too', unlearnt);
  }
}
