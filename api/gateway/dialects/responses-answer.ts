/** A response in the shapes of the OpenAI Responses API, whole and as events. Pure. */
import { asText, type JsonObject } from '../../../ingest/events/json.ts';
import { type AnswerBody, type CallRecord, chatLogprobs, troupeOf } from '../answer.ts';
import { restOf, type StreamEvent, type StreamOf } from '../events.ts';
import { finishOf, messageOf } from '../tools.ts';

type OutputCall = { readonly id: string; readonly function: { readonly name: string; readonly arguments: string } };

/** The id of a response of this API. */
const responseId = ({ callId }: Pick<CallRecord, 'callId'>): string => `resp_${callId}`;

/** Settings of a request that a response repeats, with their defaults. */
const REPEATED = {
  instructions: null,
  max_output_tokens: null,
  metadata: {},
  parallel_tool_calls: true,
  previous_response_id: null,
  reasoning: { effort: null, summary: null },
  store: true,
  temperature: 1,
  text: { format: { type: 'text' } },
  tool_choice: 'auto',
  tools: [],
  top_p: 1,
  truncation: 'disabled',
  user: null,
} as const;

/** The body of /v1/responses: all output items are one candidate. */
export const responsesBody: AnswerBody = (answer, { model, repeats, logprobs }, ids) => {
  const [choice] = answer.choices;
  if (choice === undefined) throw new Error('A response needs at least one choice.');
  const { content, tool_calls: calls = [] } = messageOf(choice, ids.callId, 0) as JsonObject & {
    tool_calls?: OutputCall[];
  };
  const cut = finishOf(choice) === 'length';
  const status = cut ? 'incomplete' : 'completed';
  const part = {
    type: 'output_text',
    text: content ?? '',
    annotations: [],
    logprobs: logprobs ? chatLogprobs(choice, false) : [],
  };
  const { prompt_tokens: input, completion_tokens: output } = answer.usage;
  return {
    id: responseId(ids),
    object: 'response',
    created_at: ids.created,
    status,
    background: false,
    error: null,
    incomplete_details: cut ? { reason: 'max_output_tokens' } : null,
    model,
    ...Object.fromEntries(Object.entries(REPEATED).map(([name, meant]) => [name, repeats[name] ?? meant])),
    output: [
      ...(calls.length > 0 && content === null
        ? []
        : [{ type: 'message', id: `msg_${ids.callId}`, status, role: 'assistant', content: [part] }]),
      ...calls.map(({ id, function: called }) => ({
        type: 'function_call',
        id: `fc_${id.slice('call_'.length)}`,
        call_id: id,
        name: called.name,
        arguments: called.arguments,
        status: 'completed',
      })),
    ],
    usage: {
      input_tokens: input,
      input_tokens_details: { cached_tokens: 0 },
      output_tokens: output,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: input + output,
    },
    troupe: troupeOf(answer, ids),
  };
};

/** The events of /v1/responses, numbered. The message is the first item. */
export const responsesStream: StreamOf = (before) => {
  let count = 0;
  let written: string | null = null;
  const numbered = (events: readonly [string, object][]): StreamEvent[] =>
    events.map(([type, fields]) => ({ event: type, data: { type, sequence_number: count++, ...fields } }));
  const start = (): [string, object][] => {
    const { output: _, usage: __, status: ___, incomplete_details: ____, ...rest } = before;
    const response = { ...rest, status: 'in_progress', incomplete_details: null, output: [], usage: null };
    return [
      ['response.created', { response }],
      ['response.in_progress', { response }],
    ];
  };
  return {
    text: (_, text) => {
      const isFirst = written === null;
      written = (written ?? '') + text;
      const item = (before.output as JsonObject[])[0] as JsonObject;
      return numbered([...(isFirst ? [...start(), ...openMessage(item, 0)] : []), grown(item, 0, text, [])]);
    },
    end: (body) => {
      const output = body.output as readonly JsonObject[];
      if (written !== null && output[0]?.type !== 'message') restOf('', written);
      const ofItem = (item: JsonObject, index: number) => {
        if (item.type === 'function_call') return called(item, index);
        if (!isOneText(item)) return unread(item, index);
        return [...(written === null ? openMessage(item, index) : []), ...closeMessage(item, index, written ?? '')];
      };
      return numbered([
        ...(written === null ? start() : []),
        ...output.flatMap(ofItem),
        [`response.${asText(body.status)}`, { response: body }],
      ]);
    },
  };
};

const placeOf = (item: JsonObject, output_index: number) => ({ item_id: item.id, output_index, content_index: 0 });

function openMessage(item: JsonObject, output_index: number): [string, object][] {
  const [part] = item.content as [JsonObject];
  const added = { ...item, status: 'in_progress', content: [] };
  return [
    ['response.output_item.added', { output_index, item: added }],
    ['response.content_part.added', { ...placeOf(item, output_index), part: { ...part, text: '', logprobs: [] } }],
  ];
}

const grown = (item: JsonObject, output_index: number, delta: string, logprobs: unknown): [string, object] => [
  'response.output_text.delta',
  { ...placeOf(item, output_index), delta, logprobs },
];

function closeMessage(item: JsonObject, output_index: number, written: string): [string, object][] {
  const [part] = item.content as [JsonObject];
  const at = placeOf(item, output_index);
  const rest = restOf(part.text as string, written);
  const isWhole = written !== '' && rest === '' && (part.logprobs as readonly unknown[]).length === 0;
  return [
    ...(isWhole ? [] : [grown(item, output_index, rest, part.logprobs)]),
    ['response.output_text.done', { ...at, text: part.text, logprobs: part.logprobs }],
    ['response.content_part.done', { ...at, part }],
    ['response.output_item.done', { output_index, item }],
  ];
}

const isOneText = ({ type, content }: JsonObject): boolean =>
  type === 'message' && Array.isArray(content) && content.length === 1 && content[0].type === 'output_text';

/** An item of a model server that a policy has none of: it comes whole. */
const unread = (item: JsonObject, output_index: number): [string, object][] => [
  ['response.output_item.added', { output_index, item }],
  ['response.output_item.done', { output_index, item }],
];

function called(item: JsonObject, output_index: number): [string, object][] {
  const at = { item_id: item.id, output_index };
  const { name, arguments: written } = item;
  return [
    ['response.output_item.added', { output_index, item: { ...item, status: 'in_progress', arguments: '' } }],
    ['response.function_call_arguments.delta', { ...at, delta: written }],
    ['response.function_call_arguments.done', { ...at, name, arguments: written }],
    ['response.output_item.done', { output_index, item }],
  ];
}
