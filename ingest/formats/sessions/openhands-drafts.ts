/** What happened in a run of OpenHands, as both generations of its events say it, and the drafts it becomes. */
import type { Content, Draft, EventData, Message } from '../../events/events.ts';
import { asText, given } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import { type ChatMessage, toMessage, toolCallsOf } from '../kit/chat-message.ts';
import { APPARENT_ERROR, toolLedger } from '../kit/conversation.ts';
import type { Emitter } from '../kit/native.ts';
import { isTokenIds } from '../kit/rollout-calls.ts';

/** `ids` are those of the native events, by which a condensation forgets. */
export type Item =
  | {
      readonly kind: 'system';
      readonly ids: readonly string[];
      readonly text: string;
      readonly tools: unknown;
      readonly agent?: string;
    }
  | { readonly kind: 'message'; readonly ids: readonly string[]; readonly role: string; readonly content: Content }
  | {
      readonly kind: 'answer';
      readonly ids: readonly string[];
      readonly callId: string;
      readonly message: ChatMessage;
      readonly about: Partial<EventData<'generation.completed'>>;
      readonly finish?: string;
    }
  | {
      readonly kind: 'result';
      readonly ids: readonly string[];
      readonly callId: string;
      readonly status: EventData<'tool.returned'>['status'];
      readonly output: Content;
      readonly isFailed: boolean;
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
  | { readonly kind: 'end'; readonly answer?: string; readonly stop?: string };

type VisibleMessage = { readonly ids: readonly string[]; readonly message: Message };
type Context = { readonly agent: string; shown: VisibleMessage[]; tools: unknown };

export type EpisodeDrafts = {
  readonly drafts: readonly Draft[];
  readonly agents: readonly (Partial<EventData<'agent.defined'>> & { readonly agent_id: string })[];
  readonly hasTokens: boolean;
};

/** `seq` counts the items. A delegate sees what it was asked, never what came before it. */
export function openhandsDrafts(
  emit: Emitter,
  episodeId: string,
  items: readonly Item[],
  agent = 'agent',
): EpisodeDrafts {
  const first = items.find((item) => item.kind === 'system');
  const main = (first?.kind === 'system' ? first.agent : undefined) ?? agent;
  const agents = new Map<string, Partial<EventData<'agent.defined'>> & { readonly agent_id: string }>([
    [main, { agent_id: main }],
  ]);
  const contexts: Context[] = [{ agent: main, shown: [], tools: undefined }];
  const tokens = tokensOf(items);
  const ledger = toolLedger();
  let turn = 0;
  const drafts = items.flatMap((item, seq): Draft[] => {
    const context = contexts.at(-1)!;
    const about = { episode_id: episodeId, seq };
    switch (item.kind) {
      case 'system': {
        agents.set(context.agent, {
          ...agents.get(context.agent),
          agent_id: context.agent,
          system_instructions: item.text,
          ...given('tools', item.tools),
        });
        context.tools = item.tools;
        context.shown.push({ ids: item.ids, message: { role: 'system', content: item.text } });
        return [];
      }
      case 'message': {
        context.shown.push({ ids: item.ids, message: { role: item.role, content: item.content } });
        const sent = { ...about, message_id: `m${seq}`, from: item.role, role: item.role, content: item.content };
        return [emit.event('message.sent', [episodeId, seq], sent)];
      }
      case 'answer': {
        const call = { ...about, call_id: item.callId, agent_id: context.agent, turn: turn++ };
        const input = context.shown.map(({ message }) => message);
        const message = toMessage(item.message);
        context.shown.push({ ids: item.ids, message });
        const { prompt, sampled } = tokens.get(seq) ?? {};
        return [
          emit.event('generation.requested', [episodeId, item.callId], {
            ...call,
            input,
            ...given('tools', context.tools),
          }),
          emit.event('generation.completed', [episodeId, item.callId], {
            ...call,
            choices: [
              {
                index: 0,
                ...given('content', message.content),
                ...given('finish_reason', item.finish),
                ...given('token_ids', sampled),
              },
            ],
            ...given('prompt_token_ids', prompt),
            ...item.about,
          }),
          ...toolCallsOf(item.message).map(({ id, type, ...asked }, index) =>
            emit.event('tool.called', [episodeId, item.callId, index], {
              ...call,
              tool_call_id: ledger.call(id),
              index,
              type,
              ...asked,
              native: { tool_call_id: id },
            }),
          ),
        ];
      }
      case 'result': {
        const message = { role: 'tool', tool_call_id: item.callId, content: item.output } as Message;
        context.shown.push({ ids: item.ids, message });
        return [
          emit.event('tool.returned', [episodeId, seq], {
            ...about,
            tool_call_id: ledger.result(item.callId),
            status: item.status,
            output: item.output,
            native: { tool_call_id: item.callId },
            ...(item.isFailed && item.status === 'ok' ? { flags: [APPARENT_ERROR] } : {}),
          }),
        ];
      }
      case 'delegate': {
        const id = agents.has(item.to) ? `${item.to}#${agents.size}` : item.to;
        agents.set(id, { agent_id: id, name: item.to, parent_agent_id: context.agent });
        contexts.push({
          agent: id,
          shown: [{ ids: [], message: { role: 'user', content: item.task } }],
          tools: undefined,
        });
        return [
          emit.event('control.transferred', [episodeId, seq], {
            ...about,
            from_agent: context.agent,
            to_agent: id,
            kind: 'delegate',
            tool_call_id: item.callId,
          }),
        ];
      }
      case 'return': {
        if (contexts.length > 1) contexts.pop();
        return [];
      }
      case 'forgot': {
        const kept = context.shown.filter(({ ids }) => ids.length === 0 || !ids.every((id) => item.ids.has(id)));
        const at = Math.min(item.offset ?? 1, kept.length);
        const summary = { ids: [], message: { role: 'user', content: item.summary ?? '' } };
        context.shown = item.summary === null ? kept : [...kept.slice(0, at), summary, ...kept.slice(at)];
        return [observed('condensation', item.content)];
      }
      case 'observed':
        return [observed(item.name, item.content)];
      default:
        return [];
    }
    function observed(kind: string, content: unknown): Draft {
      return emit.event('environment.observed', [episodeId, seq], { ...about, kind, ...given('content', content) });
    }
  });
  return { drafts, agents: [...agents.values()], hasTokens: [...tokens.values()].some(({ sampled }) => sampled) };
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
