/** How OpenAI's two interfaces, Anthropic's and Gemini's put what is asked and answered, whole and streamed. */
import type { JsonObject } from '../ingest/events/json.ts';
/** Tokens of one answer: [input, output]. */
export type Billed = readonly [input: number, output: number];

/** A tool that a request offers, with the names of its parameters. */
export type Offered = {
  readonly name: string;
  readonly parameters: readonly string[];
  readonly required: readonly string[];
};
/** What a script of answers reads of a request: the tools that it offers, and those that were called before. */
export type Asked = { readonly tools: readonly Offered[]; readonly called: ReadonlySet<string> };
export type Call = { readonly id: string; readonly name: string; readonly given: object };
export type Answer = {
  readonly n: number;
  readonly model: string;
  readonly usage: Billed;
  readonly calls: readonly Call[];
  /** Empty where there are calls, but for that of the last answer. */
  readonly text: string;
};

export type Dialect = {
  readonly read: (body: Record<string, unknown>) => Asked;
  readonly whole: (answer: Answer) => object;
  /** The events of a stream; a string is sent as it is. */
  readonly streamed: (answer: Answer) => readonly (object | string)[];
  /** Whether each event is named by its member `type`. */
  readonly named: boolean;
};

/** The dialect of a path, and whether the path asks for a stream; null where there is none. */
export function dialectOf(url: string): { readonly dialect: Dialect; readonly streamed: boolean } | null {
  const { pathname } = new URL(url, 'http://localhost');
  const found = [
    [/\/chat\/completions$/, chat],
    [/\/responses$/, responses],
    [/\/messages(?:\/count_tokens)?$/, messages],
    [/:(?:streamG|g)enerateContent$/, gemini],
  ] as const;
  const dialect = found.find(([path]) => path.test(pathname))?.[1];
  return dialect ? { dialect, streamed: pathname.endsWith(':streamGenerateContent') } : null;
}

const list = (value: unknown): readonly JsonObject[] =>
  Array.isArray(value) ? value.filter((one) => typeof one === 'object' && one !== null) : [];
const names = (values: readonly unknown[]): string[] =>
  values.flatMap((name) => (typeof name === 'string' ? [name] : []));
const field = (value: unknown, name: string): unknown => (value as JsonObject | undefined)?.[name];
const offered = (tool: unknown, schema: string): Offered => {
  const parameters = field(tool, schema);
  return {
    name: String(field(tool, 'name')),
    parameters: Object.keys((field(parameters, 'properties') as object | undefined) ?? {}),
    required: ((field(parameters, 'required') as string[] | undefined) ?? []).map(String),
  };
};
const CREATED = 1_789_000_000;

const chat: Dialect = {
  read: ({ tools, messages: conversation }) => ({
    tools: list(tools).map(({ function: tool }) => offered(tool, 'parameters')),
    called: new Set(
      list(conversation).flatMap(({ role, content, tool_calls: calls }) => [
        ...names(list(calls).map((call) => field(call.function, 'name'))),
        ...(role === 'assistant' ? namesWritten(content) : []),
      ]),
    ),
  }),
  whole: (answer) => ({
    ...chatHead(answer, 'chat.completion'),
    choices: [
      {
        index: 0,
        message: { role: 'assistant', content: answer.text || null, ...toolCalls(answer) },
        finish_reason: chatReason(answer),
      },
    ],
    usage: chatUsage(answer),
  }),
  streamed: (answer) => {
    const head = chatHead(answer, 'chat.completion.chunk');
    const begun = { role: 'assistant', content: answer.text || null };
    const deltas = [begun, ...(toolCalls(answer).tool_calls ?? []).map((call) => ({ tool_calls: [call] }))];
    return [
      ...deltas.map((delta) => ({ ...head, choices: [{ index: 0, delta, finish_reason: null }] })),
      { ...head, choices: [{ index: 0, delta: {}, finish_reason: chatReason(answer) }] },
      { ...head, choices: [], usage: chatUsage(answer) },
      '[DONE]',
    ];
  },
  named: false,
};
/** smolagents gives back the calls of earlier answers as text. */
const namesWritten = (content: unknown): string[] =>
  [...JSON.stringify(content ?? null).matchAll(/'function': \{'name': '(\w+)'/g)].map(([, name]) => name!);
const chatHead = ({ n, model }: Answer, object: string) => ({ id: `chatcmpl-${n}`, object, created: CREATED, model });
const chatReason = ({ calls }: Answer): string => (calls.length > 0 ? 'tool_calls' : 'stop');
const chatUsage = ({ usage: [input, output] }: Answer) => ({
  prompt_tokens: input,
  completion_tokens: output,
  total_tokens: input + output,
});
const toolCalls = ({ calls }: Answer): { readonly tool_calls?: readonly object[] } =>
  calls.length === 0
    ? {}
    : {
        tool_calls: calls.map(({ id, name, given }, index) => ({
          index,
          id,
          type: 'function',
          function: { name, arguments: JSON.stringify(given) },
        })),
      };

const responses: Dialect = {
  read: ({ tools, input }) => ({
    tools: list(tools).map((tool) => offered(tool, 'parameters')),
    called: new Set(names(list(input).map(({ type, name }) => (type === 'function_call' ? name : null)))),
  }),
  whole: (answer) => response(answer, 'completed', itemsOf(answer)),
  streamed: (answer) => {
    const items = itemsOf(answer);
    const events = [
      { type: 'response.created', response: response(answer, 'in_progress', []) },
      ...items.flatMap((item, index) => [
        { type: 'response.output_item.added', output_index: index, item: { ...item, status: 'in_progress' } },
        ...(item.type === 'message'
          ? [
              {
                type: 'response.output_text.delta',
                item_id: item.id,
                output_index: index,
                content_index: 0,
                delta: answer.text,
                logprobs: [],
              },
            ]
          : []),
        { type: 'response.output_item.done', output_index: index, item },
      ]),
      { type: 'response.completed', response: response(answer, 'completed', items) },
    ];
    return events.map((event, sequence) => ({ ...event, sequence_number: sequence }));
  },
  named: true,
};
const itemsOf = ({ n, calls, text }: Answer) =>
  calls.length > 0
    ? calls.map(({ id, name, given }, i) => ({
        type: 'function_call',
        id: `fc_${n}_${i}`,
        call_id: id,
        name,
        arguments: JSON.stringify(given),
        status: 'completed',
      }))
    : [
        {
          type: 'message',
          id: `msg_${n}`,
          role: 'assistant',
          status: 'completed',
          content: [{ type: 'output_text', text, annotations: [] }],
        },
      ];
const response = ({ n, model, usage: [input, output] }: Answer, status: string, items: readonly object[]) => ({
  id: `resp_${n}`,
  object: 'response',
  created_at: CREATED,
  model,
  status,
  output: items,
  tools: [],
  tool_choice: 'auto',
  parallel_tool_calls: true,
  usage: {
    input_tokens: input,
    input_tokens_details: { cached_tokens: 0 },
    output_tokens: output,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: input + output,
  },
});

const messages: Dialect = {
  read: ({ tools, messages: conversation }) => ({
    tools: list(tools).map((tool) => offered(tool, 'input_schema')),
    called: new Set(
      names(
        list(conversation).flatMap(({ content }) =>
          list(content).map(({ type, name }) => (type === 'tool_use' ? name : null)),
        ),
      ),
    ),
  }),
  whole: (answer) => ({
    ...message(answer),
    content: blocksOf(answer).map(({ whole }) => whole),
    stop_reason: messageReason(answer),
  }),
  streamed: (answer) => [
    { type: 'message_start', message: { ...message(answer), usage: messageUsage(answer, 1) } },
    ...blocksOf(answer).flatMap(({ start, delta }, index) => [
      { type: 'content_block_start', index, content_block: start },
      { type: 'content_block_delta', index, delta },
      { type: 'content_block_stop', index },
    ]),
    {
      type: 'message_delta',
      delta: { stop_reason: messageReason(answer), stop_sequence: null },
      usage: { output_tokens: answer.usage[1] },
    },
    { type: 'message_stop' },
  ],
  named: true,
};
const message = (answer: Answer) => ({
  id: `msg_${answer.n}`,
  type: 'message',
  role: 'assistant',
  model: answer.model,
  content: [],
  stop_reason: null,
  stop_sequence: null,
  usage: messageUsage(answer, answer.usage[1]),
});
const messageReason = ({ calls }: Answer): string => (calls.length > 0 ? 'tool_use' : 'end_turn');
const messageUsage = ({ usage: [input] }: Answer, output: number) => ({ input_tokens: input, output_tokens: output });
/** A block, with how a stream begins it and goes on with it. */
const blocksOf = ({ calls, text }: Answer) =>
  calls.length > 0
    ? calls.map(({ id, name, given }) => {
        const whole = { type: 'tool_use', id: `toolu_${id}`, name, input: given };
        const delta = { type: 'input_json_delta', partial_json: JSON.stringify(given) };
        return { whole, start: { ...whole, input: {} }, delta };
      })
    : [{ whole: { type: 'text', text }, start: { type: 'text', text: '' }, delta: { type: 'text_delta', text } }];

const gemini: Dialect = {
  read: ({ tools, contents }) => ({
    tools: list(tools)
      .flatMap((tool) => list(tool.functionDeclarations))
      .map((tool) =>
        offered(
          tool,
          ['parametersJsonSchema', 'parameters_json_schema', 'parameters'].find((name) => name in tool) ?? '',
        ),
      ),
    called: new Set(
      names(
        list(contents).flatMap(({ parts }) =>
          list(parts).map((part) => field(part.functionCall ?? part.function_call, 'name')),
        ),
      ),
    ),
  }),
  whole: ({ n, model, usage: [input, output], calls, text }) => ({
    responseId: `gemini-${n}`,
    modelVersion: model,
    candidates: [
      {
        index: 0,
        content: {
          role: 'model',
          parts:
            calls.length > 0
              ? calls.map(({ id, name, given }) => ({ functionCall: { id, name, args: given } }))
              : [{ text }],
        },
        finishReason: 'STOP',
      },
    ],
    usageMetadata: { promptTokenCount: input, candidatesTokenCount: output, totalTokenCount: input + output },
  }),
  streamed: (answer) => [gemini.whole(answer)],
  named: false,
};
