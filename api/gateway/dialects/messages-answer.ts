/** A response in the shapes of Anthropic's Messages API, whole and as events. Pure. */

import { asText, type JsonObject } from '../../../ingest/events/json.ts';
import { writtenJson } from '../../../ingest/events/spelling.ts';
import { readArguments } from '../../../ingest/formats/kit/chat-message.ts';
import { type AnswerBody, type CallRecord, troupeOf } from '../answer.ts';
import { restOf, type StreamEvent, type StreamOf } from '../events.ts';
import { finishOf, messageOf } from '../tools.ts';

type OutputCall = { readonly id: string; readonly function: { readonly name: string; readonly arguments: string } };

/** The id of a response of this API. */
const messageId = ({ callId }: Pick<CallRecord, 'callId'>): string => `msg_${callId}`;

const REASONS = { stop: 'end_turn', length: 'max_tokens', tool_calls: 'tool_use' } as const;

/** The body of /v1/messages: it has exactly one choice. */
export const messagesBody: AnswerBody = (answer, { model }, ids) => {
  const [choice] = answer.choices;
  if (choice === undefined) throw new Error('A response needs at least one choice.');
  const { content, tool_calls: calls = [] } = messageOf(choice, ids.callId, 0) as JsonObject & {
    tool_calls?: OutputCall[];
  };
  const reason = finishOf(choice);
  const stop = reason === 'stop' ? (choice.stop_text ?? null) : null;
  return {
    id: messageId(ids),
    type: 'message',
    role: 'assistant',
    model,
    content: [
      ...(content === null || content === '' ? [] : [{ type: 'text', text: content }]),
      ...calls.map(({ id, function: { name, arguments: written } }) => ({
        type: 'tool_use',
        id,
        name,
        input: readArguments(written).arguments ?? {},
      })),
    ],
    stop_reason: stop === null ? REASONS[reason] : 'stop_sequence',
    stop_sequence: stop,
    usage: {
      input_tokens: answer.usage.prompt_tokens,
      cache_creation_input_tokens: 0,
      cache_read_input_tokens: 0,
      output_tokens: answer.usage.completion_tokens,
    },
    troupe: troupeOf(answer, ids),
  };
};

/** The events of /v1/messages. Text is the first block. */
export const messagesStream: StreamOf = (before) => {
  let written: string | null = null;
  const start = (): StreamEvent => {
    const { stop_reason: _, stop_sequence: __, ...message } = before;
    const usage = { ...(message.usage as JsonObject), output_tokens: 0 };
    return say('message_start', {
      message: { ...message, content: [], stop_reason: null, stop_sequence: null, usage },
    });
  };
  const grow = (text: string) => say('content_block_delta', { index: 0, delta: { type: 'text_delta', text } });
  return {
    text: (_, text) => {
      const isFirst = written === null;
      written = (written ?? '') + text;
      return [...(isFirst ? [start(), opened({ type: 'text' }, 0)] : []), grow(text)];
    },
    end: (body) => {
      const { content, stop_reason, stop_sequence, usage } = body as JsonObject & {
        readonly content: readonly JsonObject[];
      };
      const so = written ?? '';
      const rest = restOf(content[0]?.type === 'text' ? asText(content[0].text) : '', so);
      return [
        ...(written === null
          ? [start()]
          : [...(rest === '' ? [] : [grow(rest)]), say('content_block_stop', { index: 0 })]),
        ...content.flatMap((whole, index) => (index === 0 && written !== null ? [] : block(whole, index))),
        say('message_delta', { delta: { stop_reason, stop_sequence }, usage }),
        say('message_stop', {}),
      ];
    },
  };
};

const say = (type: string, fields: object): StreamEvent => ({ event: type, data: { type, ...fields } });

const opened = (whole: JsonObject, index: number): StreamEvent =>
  say('content_block_start', { index, content_block: { ...whole, ...EMPTY[whole.type as string] } });

/** What a block has before its deltas; a block of another type comes whole. */
const EMPTY: Readonly<Record<string, object>> = {
  text: { text: '' },
  tool_use: { input: {} },
  thinking: { thinking: '', signature: '' },
};

function deltasOf(whole: JsonObject): object[] {
  switch (whole.type) {
    case 'text':
      return [{ type: 'text_delta', text: whole.text }];
    case 'tool_use':
      return [{ type: 'input_json_delta', partial_json: writtenJson(whole.input) }];
    case 'thinking':
      return [
        { type: 'thinking_delta', thinking: whole.thinking },
        { type: 'signature_delta', signature: whole.signature },
      ];
    default:
      return [];
  }
}

const block = (whole: JsonObject, index: number): StreamEvent[] => [
  opened(whole, index),
  ...deltasOf(whole).map((delta) => say('content_block_delta', { index, delta })),
  say('content_block_stop', { index }),
];
