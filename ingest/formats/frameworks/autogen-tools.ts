/** Tool calls and their results in the messages of AutoGen. */
import type { Draft, Part } from '../../events/events.ts';
import { given, isRecord, without } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import { readArguments } from '../kit/chat-message.ts';
import { APPARENT_ERROR, type toolLedger } from '../kit/conversation.ts';
import type { Emitter } from '../kit/native.ts';

export type AutogenMessage = Readonly<Record<string, unknown>> & { readonly source: string; readonly type: string };

type Call = { readonly episode_id: string; readonly seq: number; readonly call_id: string; readonly agent_id: string };
type Ask = {
  readonly id: string;
  readonly name: string;
  readonly asked: ReturnType<typeof readArguments>;
  readonly rest?: object;
};

/** Calls that have a name and an id; of anything else nothing can be called or answered. */
function asksIn(content: unknown): Ask[] {
  const calls = Array.isArray(content) ? content.filter(isRecord) : [];
  return calls.flatMap((call) =>
    isIdentifier(call.id) && isIdentifier(call.name)
      ? [
          {
            id: call.id,
            name: call.name,
            asked: readArguments(call.arguments),
            ...given('rest', without(call, 'id', 'name', 'arguments')),
          },
        ]
      : [],
  );
}

export function autogenTools(emit: Emitter, episodeId: string, ledger: ReturnType<typeof toolLedger>) {
  return {
    parts: (content: unknown): Part[] =>
      asksIn(content).map(({ id, name, asked }) => ({
        type: 'tool_call',
        id,
        name,
        arguments: asked.arguments ?? asked.arguments_raw,
      })),
    calls: ({ content }: AutogenMessage, call: Call, time: string | null): Draft[] =>
      asksIn(content).map(({ id, name, asked, rest }, index) =>
        emit.event(
          'tool.called',
          [episodeId, call.seq, index],
          {
            ...call,
            tool_call_id: ledger.call(id),
            index,
            name,
            type: 'function',
            ...asked,
            native: { tool_call_id: id },
            ...given('unmapped', rest as Record<string, unknown> | undefined),
          },
          time,
        ),
      ),
    results: ({ content }: AutogenMessage, seq: number, time: string | null): Draft[] =>
      (Array.isArray(content) ? content.filter(isRecord) : []).flatMap((result, index) => {
        const { call_id: id, content: output, is_error: failed } = result;
        if (!isIdentifier(id)) return [];
        // AutoGen 0.2 marks no tool as failed: its executor puts the error into the text.
        const apparent = failed === undefined && typeof output === 'string' && output.startsWith('Error: ');
        return [
          emit.event(
            'tool.returned',
            [episodeId, seq, index],
            {
              episode_id: episodeId,
              seq,
              tool_call_id: ledger.result(id),
              status: failed === true ? 'error' : 'ok',
              ...given('output', output),
              ...(apparent ? { flags: [APPARENT_ERROR] } : {}),
              native: { tool_call_id: id },
              ...given('unmapped', without(result, 'call_id', 'content', 'is_error')),
            },
            time,
          ),
        ];
      }),
  };
}
