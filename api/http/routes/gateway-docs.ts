/** What the routes of the gateway read and answer, as /openapi.json documents it. */
import { Type } from 'typebox';
import { CONTEXT_HEADERS } from '../../gateway/request.ts';
import type { RouteDoc } from '../openapi.ts';

const LogProb = Type.Object({
  token: Type.String({
    description: 'its text; `bytes:\\x…` for part of a character, `token_id:N` for an id without text',
  }),
  token_id: Type.Integer(),
  logprob: Type.Number(),
  bytes: Type.Union([Type.Array(Type.Integer()), Type.Null()]),
});
const ChatLogprobs = Type.Object({
  content: Type.Array(Type.Intersect([LogProb, Type.Object({ top_logprobs: Type.Array(LogProb) })])),
});
const TextLogprobs = Type.Object({
  tokens: Type.Array(Type.String()),
  token_logprobs: Type.Array(Type.Number()),
  top_logprobs: Type.Union([Type.Array(Type.Record(Type.String(), Type.Number())), Type.Null()]),
});
const drawn = {
  index: Type.Integer(),
  finish_reason: Type.Enum(['stop', 'length', 'tool_calls']),
  token_ids: Type.Array(Type.Integer()),
  raw_logprobs: Type.Optional(Type.Array(Type.Number(), { description: 'at temperature 1 without filters' })),
};
const answered = {
  id: Type.String(),
  prompt_token_ids: Type.Array(Type.Integer()),
  usage: Type.Object({
    prompt_tokens: Type.Integer(),
    completion_tokens: Type.Integer(),
    total_tokens: Type.Integer(),
  }),
  troupe: Type.Object({
    episode_id: Type.String(),
    call_id: Type.String(),
    step_ids: Type.Array(Type.String(), { description: 'one for each choice' }),
    checkpoint_id: Type.String({ description: 'the weights that generated the response' }),
  }),
};
const ChatCompletion = Type.Object(
  {
    ...answered,
    object: Type.Literal('chat.completion'),
    choices: Type.Array(
      Type.Object({
        ...drawn,
        message: Type.Object({
          role: Type.Literal('assistant'),
          content: Type.Union([Type.String(), Type.Null()]),
          tool_calls: Type.Optional(Type.Array(Type.Unknown())),
        }),
        logprobs: Type.Union([ChatLogprobs, Type.Null()]),
      }),
    ),
  },
  { additionalProperties: true },
);
const TextCompletion = Type.Object(
  {
    ...answered,
    object: Type.Literal('text_completion'),
    choices: Type.Array(
      Type.Object({ ...drawn, text: Type.String(), logprobs: Type.Union([TextLogprobs, Type.Null()]) }),
    ),
  },
  { additionalProperties: true },
);
const asked = {
  model: Type.String({ description: 'policy:NAME, checkpoint:ID, or a model of a configured server' }),
  n: Type.Optional(Type.Integer({ minimum: 1 })),
  seed: Type.Optional(Type.Integer({ minimum: 0 })),
  temperature: Type.Optional(Type.Number({ minimum: 0 })),
  top_k: Type.Optional(Type.Integer({ minimum: -1, description: '-1 and 0: no limit' })),
  top_p: Type.Optional(Type.Number({ exclusiveMinimum: 0, maximum: 1 })),
  min_p: Type.Optional(Type.Number({ minimum: 0, maximum: 1 })),
  max_tokens: Type.Optional(Type.Integer({ minimum: 1 })),
  stop: Type.Optional(Type.Union([Type.String(), Type.Array(Type.String())])),
  raw_logprobs: Type.Optional(Type.Boolean({ description: 'also at temperature 1 without filters' })),
  return_tokens_as_token_ids: Type.Optional(
    Type.Boolean({ description: 'true: log-probabilities name tokens `token_id:N`, not by their text' }),
  ),
  stream: Type.Optional(Type.Boolean({ description: 'true: server-sent events, with the text as it is sampled' })),
  stream_options: Type.Optional(Type.Object({ include_usage: Type.Optional(Type.Boolean()) })),
};
const ChatRequest = Type.Object(
  {
    ...asked,
    messages: Type.Array(Type.Object({ role: Type.String() }, { additionalProperties: true })),
    max_completion_tokens: Type.Optional(Type.Integer({ minimum: 1 })),
    logprobs: Type.Optional(Type.Boolean()),
    top_logprobs: Type.Optional(Type.Integer({ minimum: 0, maximum: 20, description: 'with logprobs' })),
    tools: Type.Optional(Type.Array(Type.Unknown())),
  },
  { additionalProperties: true },
);
const TextRequest = Type.Object(
  {
    ...asked,
    prompt: Type.Union([Type.String(), Type.Array(Type.Integer()), Type.Array(Type.String(), { maxItems: 1 })]),
    logprobs: Type.Optional(Type.Integer({ minimum: 0, maximum: 20 })),
  },
  { additionalProperties: true },
);
const AnyRequest = Type.Object({ model: Type.String() }, { additionalProperties: true });
const Models = Type.Object({
  object: Type.Literal('list'),
  data: Type.Array(
    Type.Object({ id: Type.String(), object: Type.Literal('model'), created: Type.Integer(), owned_by: Type.String() }),
  ),
});

const RECORDED = 'all choices; the header Troupe-Recorded shows whether they are in the log';
export const CHAT_DOC: RouteDoc = {
  summary:
    'A chat completion by a policy of this project or a configured model server, recorded before its response ends.',
  tag: 'gateway',
  scope: 'ingest',
  headers: CONTEXT_HEADERS,
  body: { types: ['application/json'], schema: ChatRequest },
  answers: { 200: { about: RECORDED, schema: ChatCompletion } },
};
export const TEXT_DOC: RouteDoc = {
  summary:
    'The continuation of a text or list of token ids, by a policy or a configured server, recorded before its response ends.',
  tag: 'gateway',
  scope: 'ingest',
  headers: CONTEXT_HEADERS,
  body: { types: ['application/json'], schema: TextRequest },
  answers: { 200: { about: RECORDED, schema: TextCompletion } },
};
const PASSED_ON =
  'the response of the server, with its status; streamed where it streams, recorded at the end (Troupe-Recorded: later)';
export const RESPONSES_DOC: RouteDoc = {
  summary:
    'A response in the OpenAI Responses API, by a policy of this project or a configured model server, recorded.',
  tag: 'gateway',
  scope: 'ingest',
  headers: CONTEXT_HEADERS,
  body: { types: ['application/json'], schema: AnyRequest },
  answers: { 200: { about: PASSED_ON } },
};
export const MESSAGES_DOC: RouteDoc = {
  summary:
    "A response in Anthropic's Messages API, by a policy of this project or a configured model server, recorded.",
  tag: 'gateway',
  scope: 'ingest',
  headers: CONTEXT_HEADERS,
  body: { types: ['application/json'], schema: AnyRequest },
  answers: { 200: { about: RECORDED } },
};
export const COUNT_DOC: RouteDoc = {
  summary: "The tokens of a request of Anthropic's Messages API, counted by a policy or a configured model server.",
  tag: 'gateway',
  scope: 'ingest',
  body: { types: ['application/json'], schema: AnyRequest },
  answers: { 200: { about: 'the count', schema: Type.Object({ input_tokens: Type.Integer() }) } },
};
export const EMBEDDINGS_DOC: RouteDoc = {
  summary: 'Embeddings by a configured model server, recorded as a call without candidates.',
  tag: 'gateway',
  scope: 'ingest',
  headers: CONTEXT_HEADERS,
  body: { types: ['application/json'], schema: AnyRequest },
  answers: { 200: { about: PASSED_ON } },
};
export const MODELS_DOC: RouteDoc = {
  summary: 'The models that are served now.',
  tag: 'gateway',
  scope: 'ingest',
  answers: { 200: { about: 'policies, checkpoints, and models of configured servers', schema: Models } },
};
