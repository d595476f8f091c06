/**
 * AgentScope: the messages of a run, one a line. The list of them is the record, named by its first message, so that a file that has
 * grown is the same run. In version 1 tool results come in a message of their own, in version 2 within the assistant's.
 */
import type { Draft } from '../events.ts';
import { canonicalJson, hashId, isRecord, ownOf } from '../json.ts';
import {
  type Block,
  badMessage,
  blocksOf,
  CALLS,
  outputOf,
  outputTokensOf,
  partOf,
  textOf,
} from './agentscope-blocks.ts';
import { readArguments } from './chat-message.ts';
import { toolLedger } from './conversation.ts';
import type { Converted, Format, NativeRecord, NativeRefusal } from './format.ts';
import { marksOf } from './marks.ts';
import { given, refusal, refused, revisedEmitter, without } from './native.ts';
import { NO_TOKEN_IDS, runDrafts, taskOf, timeOfText } from './run.ts';

const NAME = 'agentscope';
const emit = revisedEmitter(NAME);

export const agentscope: Format = {
  name: NAME,
  summary: 'AgentScope messages, one a line: {id, name, role, content: text or blocks, timestamp | created_at}',
  recognises: ({ records }) =>
    records.some(
      (record) =>
        isRecord(record) &&
        'name' in record &&
        'role' in record &&
        'content' in record &&
        ('timestamp' in record || 'created_at' in record),
    ),
  gathers: () => 'file',
  joins: {
    names: namesOf,
    episodes: namesOf,
    marks: (message) => {
      const blocks = isRecord(message) ? blocksOf(message.content) : [];
      const ids = (is: (type: string) => boolean) => blocks.filter(({ type }) => is(type)).map(({ id }) => id);
      return marksOf(
        ids((type) => CALLS.has(type)),
        ids((type) => type === 'tool_result'),
      );
    },
    timeOf: (message) => whenOf(message) ?? null,
    needsName: false,
  },
  convert,
  restates: new Set(['task.defined']),
  mapping: [
    ['the first message', 'episode_id is the hash of it'],
    ['metadata.task_id, else the first text of a user', 'task.defined'],
    ['name', 'agent_id'],
    ['role assistant', 'generation.completed, also without content where usage has output tokens'],
    ['role user, system', 'message.sent'],
    ['content[thinking]', 'a part of type reasoning'],
    ['content[tool_use, tool_call]', 'tool.called'],
    ['content[tool_result]', 'tool.returned'],
    ['usage, finished_reason', 'usage, choices[0].finish_reason'],
    ['timestamp, created_at', 'the time, where it names its zone'],
  ],
};

type Fields = Readonly<Record<string, unknown>>;
type Turn = { readonly seq: number; readonly message: Fields; readonly blocks: readonly Block[] };

function convert(record: NativeRecord): Converted {
  const list = Array.isArray(record.value) ? (record.value as unknown[]) : [record.value];
  const refusals: NativeRefusal[] = [];
  const ordered = inOrder(list);
  const turns = ordered.flatMap(({ native, at }, seq): Turn[] => {
    const bad = badMessage(native);
    if (bad) refusals.push({ ...bad, at });
    return bad ? [] : [{ seq, message: native as Fields, blocks: blocksOf((native as Fields).content) }];
  });
  const [first] = turns;
  if (!first)
    return refused(...(list.length > 0 ? refusals : [refusal('bad_shape', '', 'at least one message', list)]));
  const episodeId = hashId(NAME, canonicalJson(first.message));
  const canonical = canonicalJson(ordered.map(({ native }) => native));
  const asked = turns.find(({ message }) => message.role === 'user');
  const metadata = isRecord(asked?.message.metadata) ? asked.message.metadata : {};
  const agents = new Set(
    turns.filter(({ message }) => message.role === 'assistant').map(({ message }) => message.name as string),
  );
  return {
    drafts: runDrafts(emit, {
      format: NAME,
      episodeId,
      canonical,
      task: taskOf(NAME, textOf(asked?.blocks ?? []), {}, metadata.task_id),
      // A run begins with what somebody asks; what begins with an answer may be the later part of a file.
      started: {
        flags: [NO_TOKEN_IDS, ...(first.message.role === 'assistant' || !namesOf(list).length ? ['incomplete'] : [])],
      },
      startedAt: timeOf(first.message),
      agents,
      events: messageDrafts(episodeId, turns),
      finished: { outcome: 'unknown' },
    }),
    refusals,
    raw: canonical,
    repeated: record.ordinal > 0,
  };
}

/** The name of the run that these messages begin; none where the first is an answer to what is not there. */
function namesOf(list: readonly unknown[]): string[] {
  const first = inOrder(list).find(({ native }) => badMessage(native) === null)?.native as Fields | undefined;
  if (!first || blocksOf(first.content).some(({ type }) => type === 'tool_result')) return [];
  return [hashId(NAME, canonicalJson(first))];
}

const whenOf = (message: unknown): string | undefined => {
  const when = isRecord(message) ? (message.timestamp ?? message.created_at) : null;
  return typeof when === 'string' && /^\d{4}-\d\d-\d\d[T ]/.test(when) ? when : undefined;
};

/** By their own times where all have one of a kind, otherwise as they stand; lines may have been shuffled. */
function inOrder(list: readonly unknown[]): { readonly native: unknown; readonly at: number }[] {
  const members = list.map((native, at) => ({ native, at, when: whenOf(native) }));
  const dated = members.every(({ when }) => when !== undefined);
  if (!dated) return members;
  return members.toSorted((a, b) => (a.when === b.when ? a.at - b.at : a.when! < b.when! ? -1 : 1));
}

const timeOf = (message: Fields): string | null => timeOfText(message.timestamp ?? message.created_at);

function messageDrafts(episodeId: string, turns: readonly Turn[]): Draft[] {
  const ledger = toolLedger();
  return turns.flatMap(({ seq, message, blocks }): Draft[] => {
    const { role, name, usage, finished_reason: reason } = message as Fields & { name: string };
    const time = timeOf(message);
    const place = { episode_id: episodeId, seq };
    const content = blocks.filter((block) => block.type !== 'tool_result');
    const plain = content.length === 1 && typeof message.content === 'string' ? message.content : content.map(partOf);
    const call = { ...place, call_id: `m${seq}`, agent_id: name };
    const native = {
      native: { ids: given('id', message.id), ...given('timestamp', message.timestamp ?? message.created_at) },
    };
    const drafts: Draft[] = [];
    // A model that wrote tokens was called, also where the message shows none of them.
    const wrote = content.length > 0 || outputTokensOf(message) > 0;
    if (role === 'assistant' && wrote) {
      drafts.push(
        emit.event(
          'generation.completed',
          [episodeId, seq],
          {
            ...call,
            choices: [
              {
                index: 0,
                ...(content.length > 0 ? { content: plain } : {}),
                ...(typeof reason === 'string' ? { finish_reason: reason } : {}),
              },
            ],
            ...(isRecord(usage) ? { usage } : {}),
            ...given('error', message.error ?? undefined),
            ...native,
            ...given('unmapped', restOf(message)),
          },
          time,
        ),
      );
    } else if (content.length > 0 || blocks.length === 0) {
      drafts.push(
        emit.event(
          'message.sent',
          [episodeId, seq],
          {
            ...place,
            message_id: `m${seq}`,
            from: name,
            role: role as string,
            content: plain,
            ...native,
            ...given('unmapped', restOf(message)),
          },
          time,
        ),
      );
    }
    let index = 0;
    for (const [i, block] of blocks.entries()) {
      if (CALLS.has(block.type)) drafts.push(calledDraft(block, { ...call, index: index++ }, i, time));
      else if (block.type === 'tool_result') drafts.push(returnedDraft(block, place, i, time));
    }
    return drafts;
  });

  function calledDraft(
    block: Block,
    call: { episode_id: string; seq: number; index: number },
    i: number,
    time: string | null,
  ): Draft {
    const own = ledger.call(block.id as string);
    return emit.event(
      'tool.called',
      [episodeId, call.seq, i],
      {
        ...call,
        tool_call_id: own,
        name: block.name as string,
        type: 'function',
        ...readArguments(block.input),
        native: { tool_call_id: block.id },
        ...given('unmapped', without(block, 'type', 'id', 'name', 'input')),
      },
      timeOfText(block.created_at) ?? time,
    );
  }

  function returnedDraft(
    block: Block,
    place: { episode_id: string; seq: number },
    i: number,
    time: string | null,
  ): Draft {
    return emit.event(
      'tool.returned',
      [episodeId, place.seq, i],
      {
        ...place,
        tool_call_id: ledger.result(block.id as string),
        status: ownOf(STATES, String(block.state ?? 'success')) ?? 'ok',
        ...given('output', outputOf(block.output)),
        native: { tool_call_id: block.id },
        ...given('unmapped', without(block, 'type', 'id', 'output')),
      },
      timeOfText(block.finished_at) ?? time,
    );
  }
}

const STATES: Readonly<Record<string, 'ok' | 'error' | 'cancelled' | 'denied'>> = {
  success: 'ok',
  error: 'error',
  interrupted: 'cancelled',
  denied: 'denied',
};

/** A field with its empty value carries no information. */
function restOf(message: Fields): Record<string, unknown> | undefined {
  const known = ['id', 'name', 'role', 'content', 'timestamp', 'created_at', 'error'];
  const read = [
    ...(isRecord(message.usage) ? ['usage'] : []),
    ...(typeof message.finished_reason === 'string' ? ['finished_reason'] : []),
  ];
  const rest = Object.entries(without(message, ...known, ...read) ?? {}).filter(
    ([, value]) => value !== null && !(isRecord(value) && Object.keys(value).length === 0),
  );
  return rest.length === 0 ? undefined : Object.fromEntries(rest);
}
