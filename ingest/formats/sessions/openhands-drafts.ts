/** What happened in a run of OpenHands, as both generations of its events say it, and the events it becomes. */
import type { Content, EventData, Message } from '../../events/events.ts';
import { asText } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import { type ChatMessage, toMessage, toolCallsOf } from '../kit/chat-message.ts';
import { isTokenIds } from '../kit/rollout-calls.ts';
import type { Trace } from '../kit/trace.ts';

/** `ids` are those of the native events, by which a condensation forgets. */
export type Item =
  | {
      readonly kind: 'system';
      readonly ids: readonly string[];
      readonly text: string;
      readonly tools: unknown;
      readonly agent?: string | undefined;
    }
  | { readonly kind: 'message'; readonly ids: readonly string[]; readonly role: string; readonly content: Content }
  | {
      readonly kind: 'answer';
      readonly ids: readonly string[];
      readonly callId: string;
      readonly message: ChatMessage;
      readonly about: Partial<EventData<'generation.completed'>>;
      readonly finish?: string | undefined;
    }
  | {
      readonly kind: 'result';
      readonly ids: readonly string[];
      readonly callId: string;
      readonly status: EventData<'tool.returned'>['status'];
      readonly output: Content;
      readonly flags?: string[] | undefined;
    }
  | { readonly kind: 'tokens'; readonly prompt: unknown; readonly sampled: unknown }
  | { readonly kind: 'delegate'; readonly to: string; readonly callId: string; readonly task: Content }
  | { readonly kind: 'return' }
  | {
      readonly kind: 'forgot';
      readonly ids: ReadonlySet<string>;
      readonly summary: string | null;
      readonly offset: number | null;
      readonly content: unknown;
    }
  | { readonly kind: 'observed'; readonly name: string; readonly content: unknown }
  | { readonly kind: 'end'; readonly answer?: string | undefined; readonly stop?: string | undefined };

type Context = {
  readonly agent: string;
  shown: { readonly ids: readonly string[]; readonly message: Message }[];
  tools: unknown;
};

/**
 * Adds the events of the items, which `seq` counts, and returns the agents. A delegate sees what it was asked, never what came before it.
 */
export function addItems(trace: Trace, items: readonly Item[], agent = 'agent') {
  const first = items.find((item) => item.kind === 'system');
  const main = (first?.kind === 'system' ? first.agent : undefined) ?? agent;
  const agents = new Map<string, Partial<EventData<'agent.defined'>> & { readonly agent_id: string }>([
    [main, { agent_id: main }],
  ]);
  const contexts: Context[] = [{ agent: main, shown: [], tools: undefined }];
  const tokens = tokensOf(items);
  let turn = 0;
  for (const [seq, item] of items.entries()) {
    const context = contexts.at(-1)!;
    const show = (ids: readonly string[], message: Message) => context.shown.push({ ids, message });
    if (item.kind === 'system') {
      const { text, tools } = item;
      const known = agents.get(context.agent);
      const described = { ...known, agent_id: context.agent, system_instructions: text };
      agents.set(context.agent, tools === undefined ? described : { ...described, tools });
      context.tools = tools;
      show(item.ids, { role: 'system', content: text });
    } else if (item.kind === 'message') {
      const { role, content } = item;
      trace.message(seq, role, content, { role });
      show(item.ids, { role, content });
    } else if (item.kind === 'answer') {
      addAnswer(trace, seq, item, context, turn++, tokens.get(seq));
      show(item.ids, toMessage(item.message));
    } else if (item.kind === 'result') {
      const { callId, status, output, flags } = item;
      trace.result(seq, callId, { status, output, flags });
      show(item.ids, { role: 'tool', tool_call_id: callId, content: output } as Message);
    } else if (item.kind === 'delegate') {
      const id = agents.has(item.to) ? `${item.to}#${agents.size}` : item.to;
      agents.set(id, { agent_id: id, name: item.to, parent_agent_id: context.agent });
      contexts.push({
        agent: id,
        shown: [{ ids: [], message: { role: 'user', content: item.task } }],
        tools: undefined,
      });
      trace.handoff(seq, context.agent, id, 'delegate', { tool_call_id: item.callId });
    } else if (item.kind === 'return' && contexts.length > 1) contexts.pop();
    else if (item.kind === 'observed') trace.observed(seq, item.name, { content: item.content });
    else if (item.kind === 'forgot') {
      const kept = context.shown.filter(({ ids }) => ids.length === 0 || !ids.every((id) => item.ids.has(id)));
      const at = Math.min(item.offset ?? 1, kept.length);
      const summary = { ids: [], message: { role: 'user', content: item.summary ?? '' } };
      context.shown = item.summary === null ? kept : kept.toSpliced(at, 0, summary);
      trace.observed(seq, 'condensation', { content: item.content });
    }
  }
  return [...agents.values()];
}

function addAnswer(
  trace: Trace,
  seq: number,
  { callId, message, finish, about }: Item & { readonly kind: 'answer' },
  { agent, shown, tools }: Context,
  turn: number,
  { prompt, sampled }: { readonly prompt?: number[]; readonly sampled?: number[] } = {},
): void {
  const choice = { index: 0, content: toMessage(message).content, finish_reason: finish, token_ids: sampled };
  trace.exchange(
    { seq, call_id: callId, agent_id: agent, turn },
    { input: shown.map((one) => one.message), tools },
    { choices: [choice], prompt_token_ids: prompt, ...about },
    toolCallsOf(message),
  );
}

/** The tokens of each answer, by its index: their items follow it, before the next answer. */
function tokensOf(items: readonly Item[]) {
  const found = new Map<number, { readonly prompt?: number[]; readonly sampled?: number[] }>();
  for (const [at, item] of items.entries()) {
    if (item.kind !== 'tokens') continue;
    const answer = items.slice(0, at).findLastIndex(({ kind }) => kind === 'answer');
    if (answer < 0 || found.has(answer)) continue;
    found.set(answer, {
      ...(isTokenIds(item.prompt) ? { prompt: item.prompt } : {}),
      ...(isTokenIds(item.sampled) && item.sampled.length > 0 ? { sampled: item.sampled } : {}),
    });
  }
  return found;
}

export const idsIn = (...ids: readonly unknown[]): string[] =>
  ids.flatMap((id) => (isIdentifier(id) || Number.isSafeInteger(id) ? [asText(id)] : []));
