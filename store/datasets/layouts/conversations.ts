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

type OpenConversation = Conversation & { readonly keys: readonly string[] };

/**
 * A turn whose prompt begins with the whole conversation of an earlier turn of the same agent and episode, or branch, continues it. What an agent
 * was sent back of its own earlier answers stands as it was sent, with the thoughts that it had.
 * @param thoughts `apart`: an answer with thoughts ends its conversation, and those after it begin others, for layouts that can say which answers
 * are learnt: templates leave out thoughts before a later question
 */
export function conversationsOf(chats: readonly Chat[], thoughts: 'apart' | 'joined' = 'joined'): Conversation[] {
  const open = new Map<string, OpenConversation[]>();
  const order: OpenConversation[][] = [];
  for (const chat of chats) {
    const author = JSON.stringify([chat.branch ?? chat.episode_id, chat.agent, chat.role]);
    let of = open.get(author);
    if (!of) {
      of = [];
      open.set(author, of);
      order.push(of);
    }
    const prompt = chat.prompt.map(messageKey);
    const fits = of
      .filter((one) => thoughts === 'joined' || one.last.answer.reasoning === null)
      .filter(({ keys }) => keys.length <= prompt.length && keys.every((key, i) => key === prompt[i]));
    const before = fits.reduce<OpenConversation | null>(
      (a, b) => (a === null || b.keys.length > a.keys.length ? b : a),
      null,
    );
    const joined: OpenConversation = {
      messages: [...thinking(chat.prompt, before), chat.answer],
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

/** The messages of a prompt, with the thoughts of the answers among them that are learnt. */
const thinking = (prompt: readonly Message[], before: Conversation | null): readonly Message[] =>
  before === null
    ? prompt
    : prompt.map((message, i) =>
        before.learnt.includes(i)
          ? { ...message, reasoning: message.reasoning ?? before.messages[i]!.reasoning }
          : message,
      );

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
