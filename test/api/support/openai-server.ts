/** A model server with the OpenAI protocol that answers from a script: the model's name chooses what it does. It keeps its requests. */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';

export type Asked = {
  readonly url: string;
  readonly headers: IncomingMessage['headers'];
  readonly text: string;
  /** Whether the caller went away before the answer was out. */
  readonly gone: () => boolean;
};

export type OpenaiServer = {
  readonly baseUrl: string;
  readonly asked: Asked[];
  readonly close: () => Promise<void>;
};

type Body = Record<string, unknown> & { readonly model: string };

const usageOf = (tokens: number) => ({
  prompt_tokens: 12,
  completion_tokens: tokens,
  total_tokens: 12 + tokens,
  prompt_tokens_details: { cached_tokens: 4 },
  completion_tokens_details: { reasoning_tokens: 2 },
});
const head = (object: string, { model }: Body) => ({ id: `id-${object}`, object, created: 1_760_000_000, model });
const CALL = { id: 'call_1', type: 'function', function: { name: 'get_weather', arguments: '{"city":"Oslo"}' } };

export async function openaiServer(): Promise<OpenaiServer> {
  const asked: Asked[] = [];
  const server = createServer(async (request, response) => {
    const requestText = await text(request);
    let gone = false;
    response.once('close', () => {
      gone = !response.writableFinished;
    });
    asked.push({ url: request.url!, headers: request.headers, text: requestText, gone: () => gone });
    if (request.method === 'GET')
      return send(response, 200, { object: 'list', data: [{ id: 'echo' }, { id: 'tools' }] });
    const body = JSON.parse(requestText) as Body;
    const fault = FAULTS[body.model];
    if (body.stream === true && (body.return_meta_info || body.return_prompt_token_ids))
      return send(response, 400, error('return_meta_info is not supported with streaming.', 'BadRequestError'));
    if (fault) return fault(response, request, body);
    switch (request.url) {
      case '/v1/chat/completions':
        return body.stream === true ? streamed(response, chatChunks(body)) : send(response, 200, chat(body));
      case '/v1/completions':
        return send(response, 200, {
          ...head('text_completion', body),
          choices: [
            {
              index: 0,
              text: ` and ${body.prompt}`,
              finish_reason: 'stop',
              logprobs:
                body.logprobs == null
                  ? null
                  : { tokens: [' and', ' x'], token_logprobs: [-0.5, -1], top_logprobs: null },
              ...(body.return_token_ids ? { prompt_token_ids: PROMPT_IDS, token_ids: [41, 42] } : {}),
            },
          ],
          usage: usageOf(2),
        });
      case '/v1/responses':
        return body.stream === true ? streamed(response, responseEvents(body)) : send(response, 200, respond(body));
      case '/v1/embeddings':
        return send(response, 200, {
          object: 'list',
          model: body.model,
          data: [{ object: 'embedding', index: 0, embedding: [0.25, -0.5, 1] }],
          usage: { prompt_tokens: 5, total_tokens: 5 },
        });
      default:
        return send(response, 404, { error: { message: 'no such path' } });
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    baseUrl: `http://127.0.0.1:${port}/v1`,
    asked,
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

const send = (response: ServerResponse, status: number, body: unknown, headers: Record<string, string> = {}) =>
  void response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body));

const lastText = (body: Body): string => {
  const messages = body.messages as { content?: unknown }[];
  return String(messages.at(-1)?.content);
};
const asksTool = (body: Body): boolean =>
  body.model === 'tools' && (body.messages as { role: string }[]).at(-1)?.role !== 'tool';
const logprobsOf = (words: readonly string[]) => ({
  content: words.map((token, i) => ({ token, logprob: -0.25 * (i + 1), bytes: null, top_logprobs: [] })),
});
const words = (body: Body, index: number): string[] => ['You', ' said', ` ${lastText(body)}`, ` (${index})`];

const PROMPT_IDS = [7, 8, 9];
/** The token of each word of a choice. */
const idsOf = (body: Body, index: number): number[] => words(body, index).map((_, place) => 100 * (index + 1) + place);
/** What SGLang returns for return_meta_info: log-probability, id and text of each token. */
const metaOf = (body: Body, index: number) => ({
  output_token_logprobs: words(body, index).map((word, i) => [-0.25 * (i + 1), idsOf(body, index)[i], word]),
  completion_tokens: 4,
});

function chat(body: Body) {
  return {
    ...head('chat.completion', body),
    ...(body.return_token_ids ? { prompt_token_ids: PROMPT_IDS } : {}),
    choices: Array.from({ length: Number(body.n ?? 1) }, (_, index) => ({
      index,
      ...(body.return_token_ids ? { token_ids: idsOf(body, index) } : {}),
      ...(body.return_prompt_token_ids ? { prompt_token_ids: PROMPT_IDS } : {}),
      ...(body.return_meta_info ? { meta_info: metaOf(body, index) } : {}),
      message: asksTool(body)
        ? { role: 'assistant', content: null, tool_calls: [CALL] }
        : { role: 'assistant', content: words(body, index).join('') },
      logprobs: body.logprobs ? logprobsOf(words(body, index)) : null,
      finish_reason: asksTool(body) ? 'tool_calls' : 'stop',
    })),
    usage: usageOf(4 * Number(body.n ?? 1)),
  };
}

/** The same in pieces: tool arguments are cut in the middle, candidates are interleaved. */
function chatChunks(body: Body): object[] {
  const all = head('chat.completion.chunk', body);
  const indexes = Array.from({ length: Number(body.n ?? 1) }, (_, index) => index);
  const chunk = (index: number, delta: object, more: object = {}) => ({
    ...all,
    choices: [{ index, delta, logprobs: null, finish_reason: null, ...more }],
  });
  const pieces = asksTool(body)
    ? [
        { tool_calls: [{ index: 0, id: CALL.id, type: 'function', function: { name: 'get_weather', arguments: '' } }] },
        { tool_calls: [{ index: 0, function: { arguments: '{"city":' } }] },
        { tool_calls: [{ index: 0, function: { arguments: '"Oslo"}' } }] },
      ]
    : null;
  return [
    ...indexes.map((index) => ({
      ...chunk(index, { role: 'assistant', content: pieces ? null : '' }),
      ...(body.return_token_ids ? { prompt_token_ids: PROMPT_IDS } : {}),
    })),
    ...(pieces
      ? pieces.map((delta) => chunk(0, delta))
      : [0, 1, 2, 3].flatMap((place) =>
          indexes.map((index) => {
            const content = words(body, index)[place]!;
            const logprobs = {
              content: [{ token: content, logprob: -0.25 * (place + 1), bytes: null, top_logprobs: [] }],
            };
            return chunk(
              index,
              { content },
              {
                ...(body.logprobs ? { logprobs } : {}),
                ...(body.return_token_ids ? { token_ids: [idsOf(body, index)[place]] } : {}),
              },
            );
          }),
        )),
    ...indexes.map((index) => chunk(index, {}, { finish_reason: pieces ? 'tool_calls' : 'stop' })),
    ...((body.stream_options as { include_usage?: boolean } | undefined)?.include_usage
      ? [{ ...all, choices: [], usage: usageOf(4 * indexes.length) }]
      : []),
    ...(body.return_output_ids_in_sglext
      ? [{ ...all, choices: [], usage: null, sglext: sglextOf(body, indexes) }]
      : []),
  ];
}

/** What SGLang sends last in a stream. */
const sglextOf = (body: Body, indexes: readonly number[]) => ({
  ...(body.return_input_ids_in_sglext ? { input_ids: PROMPT_IDS } : {}),
  output_ids: indexes.map((index) => idsOf(body, index)),
});

/** What vLLM returns for enable_response_messages. */
const RAW_MESSAGES = {
  input_messages: [{ type: 'raw_message_tokens', message: '<user>hello', tokens: PROMPT_IDS }],
  output_messages: [{ type: 'raw_message_tokens', message: 'You said', tokens: [61, 62] }],
};
const TWO_LOGPROBS = [-0.5, -1].map((logprob) => ({ token: 'x', logprob, bytes: [120], top_logprobs: [] }));

const respond = (body: Body) => ({
  ...head('response', body),
  ...(body.enable_response_messages ? RAW_MESSAGES : {}),
  status: 'completed',
  output: [
    {
      type: 'message',
      id: 'msg_1',
      role: 'assistant',
      status: 'completed',
      content: [
        {
          type: 'output_text',
          text: `You said ${JSON.stringify(body.input)}`,
          annotations: [],
          ...((body.include as string[] | undefined)?.includes('message.output_text.logprobs')
            ? { logprobs: TWO_LOGPROBS }
            : {}),
        },
      ],
    },
    ...(body.model === 'tools'
      ? [{ type: 'function_call', id: 'fc_1', call_id: 'call_1', name: 'get_weather', arguments: '{"city":"Oslo"}' }]
      : []),
  ],
  usage: { input_tokens: 12, output_tokens: 2, total_tokens: 14, input_tokens_details: { cached_tokens: 4 } },
});

function responseEvents(body: Body): object[] {
  const whole = respond(body);
  const item = whole.output[0] as { content: { text: string }[] };
  const { text: outputText } = item.content[0]!;
  const events = [
    { type: 'response.created', response: { ...whole, status: 'in_progress', output: [], usage: null } },
    { type: 'response.output_item.added', output_index: 0, item: { ...item, status: 'in_progress', content: [] } },
    {
      type: 'response.content_part.added',
      output_index: 0,
      content_index: 0,
      item_id: 'msg_1',
      part: { type: 'output_text', text: '', annotations: [] },
    },
    {
      type: 'response.output_text.delta',
      output_index: 0,
      content_index: 0,
      item_id: 'msg_1',
      delta: outputText.slice(0, 5),
      logprobs: [],
    },
    {
      type: 'response.output_text.delta',
      output_index: 0,
      content_index: 0,
      item_id: 'msg_1',
      delta: outputText.slice(5),
      logprobs: [],
    },
    {
      type: 'response.output_text.done',
      output_index: 0,
      content_index: 0,
      item_id: 'msg_1',
      text: outputText,
      logprobs: [],
    },
    ...whole.output.map((done, output_index) => ({ type: 'response.output_item.done', output_index, item: done })),
    { type: 'response.completed', response: whole },
  ];
  return events.map((event, sequence_number) => ({ ...event, sequence_number }));
}

const line = (event: object): string =>
  'type' in event ? `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n` : `data: ${JSON.stringify(event)}\n\n`;

/** Events a few at a time, so that they arrive in pieces that are not events. */
async function streamed(response: ServerResponse, events: readonly object[]): Promise<void> {
  response.writeHead(200, {
    'content-type': 'text/event-stream; charset=utf-8',
    'x-ratelimit-remaining-requests': '7',
  });
  const all = `${events.map(line).join('')}${events.some((event) => 'type' in event) ? '' : 'data: [DONE]\n\n'}`;
  const bytes = Buffer.from(all);
  for (let at = 0; at < bytes.length; at += 137) {
    response.write(bytes.subarray(at, at + 137));
    await new Promise((resolve) => setImmediate(resolve));
  }
  response.end();
}

const error = (message: string, code: string) => ({ error: { message, type: 'error', param: null, code } });
type Fault = (response: ServerResponse, request: IncomingMessage, body: Body) => unknown;
const FAULTS: Readonly<Record<string, Fault>> = {
  'wrong-key': (response, request) =>
    send(response, 401, error(`Incorrect API key provided: ${request.headers.authorization}`, 'invalid_api_key')),
  busy: (response) =>
    send(response, 429, error('Rate limit reached', 'rate_limit_exceeded'), {
      'retry-after': '7',
      'x-ratelimit-remaining-tokens': '0',
      'x-should-retry': 'false',
    }),
  broken: (response) =>
    send(response, 500, error('The server had an error', 'server_error'), { 'x-should-retry': 'false' }),
  fastapi: (response) => send(response, 422, { detail: [{ loc: ['body', 'n'], msg: 'Input should be 1' }] }),
  sglang: (response) => send(response, 400, { object: 'error', message: 'The input is too long', code: 400 }),
  elsewhere: (response) => void response.writeHead(307, { location: 'http://169.254.169.254/latest' }).end(),
  silent: () => {},
  html: (response) => void response.writeHead(502, { 'content-type': 'text/html' }).end('<h1>Bad gateway</h1>'),
  'breaks-off': async (response, _, body) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    for (const chunk of chatChunks(body).slice(0, 3)) response.write(line(chunk));
    await new Promise((resolve) => setTimeout(resolve, 50));
    response.destroy();
  },
  endless: (response, _, body) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const chunk = line({
      ...head('chat.completion.chunk', body),
      choices: [{ index: 0, delta: { content: 'more ' } }],
    });
    const timer = setInterval(() => response.write(chunk), 10);
    response.once('close', () => clearInterval(timer));
  },
  /** Answers what the request holds: the texts of a stream, or a body. */
  scripted: (response, _, { script }) => {
    const { sse, body } = script as { sse?: readonly string[]; body?: object };
    if (sse === undefined) return send(response, 200, body);
    response.writeHead(200, { 'content-type': 'text/event-stream' }).end(sse.join(''));
  },
  /** A flood that nobody may hold: counts in its own header how much was taken. */
  long: (response, _, body) => {
    const padding = 'x'.repeat(Number(body.max_tokens));
    if (body.stream !== true) return send(response, 200, { ...chat(body), padding });
    const choice = (content: string) => ({
      index: 0,
      delta: { content },
      ...(body.return_token_ids ? { token_ids: [7] } : {}),
    });
    return streamed(
      response,
      ['a', padding, 'z'].map((content) => ({ ...head('chat.completion.chunk', body), choices: [choice(content)] })),
    );
  },
};
