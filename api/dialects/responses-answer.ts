/** A response in the shapes of the OpenAI Responses API, whole and as events. Pure. */
import { type AnswerBody, chatLogprobs, type Recorded, troupeOf } from '../gateway-answer.ts';
import type { EventsOf, StreamEvent } from '../gateway-events.ts';
import { finishOf, messageOf } from '../gateway-tools.ts';

type Fields = Readonly<Record<string, unknown>>;
type Asked = { readonly id: string; readonly function: { readonly name: string; readonly arguments: string } };

/** The id of a response of this API. */
export const responseId = ({ callId }: Pick<Recorded, 'callId'>): string => `resp_${callId}`;

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
  const { content, tool_calls: calls = [] } = messageOf(choice, ids.callId, 0) as Fields & { tool_calls?: Asked[] };
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
    created_at: Math.floor(Date.now() / 1000),
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

/** The events of /v1/responses, numbered. */
export const responsesEvents: EventsOf = (body) => {
  const { output, usage, status, incomplete_details: _, ...rest } = body as Fields & { readonly output: Fields[] };
  const response = { ...rest, status: 'in_progress', incomplete_details: null, output: [], usage: null };
  const events: readonly [string, object][] = [
    ['response.created', { response }],
    ['response.in_progress', { response }],
    ...output.flatMap((item, output_index) => (item.type === 'message' ? message : called)(item, output_index)),
    [`response.${status}`, { response: body }],
  ];
  return events.map(
    ([type, fields], sequence_number): StreamEvent => ({ event: type, data: { type, sequence_number, ...fields } }),
  );
};

function message(item: Fields, output_index: number): [string, object][] {
  const [part] = item.content as [Fields];
  const at = { item_id: item.id, output_index, content_index: 0 };
  return [
    ['response.output_item.added', { output_index, item: { ...item, status: 'in_progress', content: [] } }],
    ['response.content_part.added', { ...at, part: { ...part, text: '', logprobs: [] } }],
    ['response.output_text.delta', { ...at, delta: part.text, logprobs: part.logprobs }],
    ['response.output_text.done', { ...at, text: part.text, logprobs: part.logprobs }],
    ['response.content_part.done', { ...at, part }],
    ['response.output_item.done', { output_index, item }],
  ];
}

function called(item: Fields, output_index: number): [string, object][] {
  const at = { item_id: item.id, output_index };
  const { name, arguments: written } = item;
  return [
    ['response.output_item.added', { output_index, item: { ...item, status: 'in_progress', arguments: '' } }],
    ['response.function_call_arguments.delta', { ...at, delta: written }],
    ['response.function_call_arguments.done', { ...at, name, arguments: written }],
    ['response.output_item.done', { output_index, item }],
  ];
}
