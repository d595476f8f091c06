/** The events of a ReDel session, one by one, as ours. */
import type { Draft } from '../../events/events.ts';
import { asText, given, isRecord, type JsonObject, without } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import { toolLedger } from '../kit/conversation.ts';
import type { Emitter } from '../kit/native.ts';
import { timeOfSeconds } from '../kit/run.ts';
import { usageOf } from '../kit/usage.ts';
import { answerOf, restOf, textOf } from './redel-messages.ts';
import type { RedelEvent } from './redel-rules.ts';

const STATES = new Set(['running', 'waiting', 'stopped', 'errored']);

type NumberedEvent = { readonly event: RedelEvent; readonly seq: number };
/** The facts of a session; `seq` is the line of the event. */
export function sessionDrafts(emit: Emitter, episodeId: string, events: readonly NumberedEvent[]): Draft[] {
  const ledgers = new Map<string, ReturnType<typeof toolLedger>>();
  const calledBy = new Map<string, number>();
  const usage = usageBySeq(events);

  const spawn = ({ event, seq }: NumberedEvent, time: string | null): Draft[] => {
    const {
      id,
      name,
      parent,
      depth,
      engine_repr: model,
      functions,
      always_included_messages: always,
    } = event as JsonObject;
    const system = Array.isArray(always)
      ? always.find((message) => isRecord(message) && message.role === 'system')
      : undefined;
    const instructions =
      isRecord(system) && typeof system.content === 'string' ? { system_instructions: system.content } : {};
    const rest = without(
      event,
      'type',
      'timestamp',
      'id',
      'name',
      'parent',
      'depth',
      'functions',
      ...(typeof model === 'string' ? ['engine_repr'] : []),
    );
    return [
      emit.event(
        'agent.defined',
        [episodeId, id as string],
        {
          episode_id: episodeId,
          agent_id: id as string,
          seq,
          ...(isIdentifier(name) ? { name } : {}),
          ...(isIdentifier(parent) ? { parent_agent_id: parent } : {}),
          ...(Number.isSafeInteger(depth) ? { depth: depth as number } : {}),
          ...(typeof model === 'string' && model !== '' ? { model } : {}),
          ...instructions,
          ...given('tools', Array.isArray(functions) && functions.length > 0 ? functions : undefined),
          ...given('unmapped', rest),
        },
        time,
      ),
    ];
  };

  const messageDrafts = ({ event, seq }: NumberedEvent, time: string | null): Draft[] => {
    const agent = event.id as string;
    const native = event.msg as JsonObject & { readonly role: string };
    const ledger = ledgers.get(agent) ?? toolLedger();
    ledgers.set(agent, ledger);
    const about = { episode_id: episodeId, seq };
    const rest = restOf(event, native);
    if (native.role === 'assistant') {
      const { message, asks } = answerOf(native);
      const call = { ...about, call_id: `${agent}/${seq}`, agent_id: agent };
      return [
        emit.event(
          'generation.completed',
          [episodeId, agent, seq],
          {
            ...call,
            choices: [{ index: 0, ...given('content', message.content) }],
            ...given('usage', usageOf(usage.get(seq))),
            ...rest,
          },
          time,
        ),
        ...asks.map(({ id, name, asked }, index) =>
          emit.event(
            'tool.called',
            [episodeId, agent, seq, index],
            {
              ...call,
              tool_call_id: `${agent}/${ledger.call(id ?? nameless(agent, name, 'call'))}`,
              index,
              name,
              type: 'function',
              ...asked,
              ...(id === null ? {} : { native: { tool_call_id: id } }),
            },
            time,
          ),
        ),
      ];
    }
    if (native.role === 'function' || native.role === 'tool') {
      const id = isIdentifier(native.tool_call_id) ? native.tool_call_id : null;
      const failed = native.is_tool_call_error === true;
      return [
        emit.event(
          'tool.returned',
          [episodeId, agent, seq],
          {
            ...about,
            tool_call_id: `${agent}/${ledger.result(id ?? nameless(agent, asText(native.name), 'result'))}`,
            status: failed ? 'error' : 'ok',
            ...given('output', native.content),
            native: given('tool_call_id', native.tool_call_id),
            ...rest,
          },
          time,
        ),
      ];
    }
    return [
      emit.event(
        'message.sent',
        [episodeId, agent, seq],
        {
          ...about,
          message_id: `${agent}/${seq}`,
          from: native.role,
          to: [agent],
          role: native.role,
          ...textOf(native),
          ...rest,
        },
        time,
      ),
    ];
  };

  /** Old function calls have no id: a result answers the last call of its name. */
  const nameless = (agent: string, name: string, what: 'call' | 'result'): string => {
    const key = `${agent} ${name}`;
    const count = (calledBy.get(key) ?? 0) + (what === 'call' ? 1 : 0);
    calledBy.set(key, count);
    return `${name}.${count}`;
  };

  return events.flatMap((numbered): Draft[] => {
    const { event, seq } = numbered;
    const time = timeOfSeconds(event.timestamp);
    const about = { episode_id: episodeId, seq };
    switch (event.type) {
      case 'kani_spawn':
        return spawn(numbered, time);
      case 'kani_message':
        return messageDrafts(numbered, time);
      case 'kani_state_change':
        if (!STATES.has(event.state as string)) break;
        return [
          emit.event(
            'agent.changed',
            [episodeId, seq],
            {
              ...about,
              agent_id: event.id as string,
              state: event.state as 'running',
              ...given('unmapped', without(event, 'type', 'timestamp', 'id', 'state')),
            },
            time,
          ),
        ];
      case 'send_message':
        return [
          emit.event(
            'message.sent',
            [episodeId, seq],
            {
              ...about,
              message_id: `user/${seq}`,
              from: 'user',
              role: 'user',
              ...(typeof event.content === 'string' ? { content: event.content } : {}),
              channel: 'session',
            },
            time,
          ),
        ];
      case 'tokens_used':
      case 'root_message':
      case 'round_complete':
        return [];
      case 'error':
        return [
          emit.event(
            'environment.observed',
            [episodeId, seq],
            { ...about, kind: 'error', ...given('content', event.msg) },
            time,
          ),
        ];
    }
    const content = without(event, 'type', 'timestamp');
    return [
      emit.event(
        'environment.observed',
        [episodeId, seq],
        { ...about, kind: event.type, ...given('content', content) },
        time,
      ),
    ];
  });
}

/** Usage by the line of the message it belongs to: the last of the same agent that a model wrote. */
function usageBySeq(events: readonly NumberedEvent[]): ReadonlyMap<number, Record<string, unknown>> {
  const latest = new Map<unknown, number>();
  const usage = new Map<number, Record<string, unknown>>();
  for (const { event, seq } of events) {
    if (event.type === 'kani_message' && isRecord(event.msg) && event.msg.role === 'assistant')
      latest.set(event.id, seq);
    if (event.type !== 'tokens_used') continue;
    const at = latest.get(event.id);
    const used = without(event, 'type', 'timestamp', 'id');
    if (at !== undefined && used) usage.set(at, { ...usage.get(at), ...used });
  }
  return usage;
}
