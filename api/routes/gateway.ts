/** The routes of the OpenAI-compatible gateway, plain and with the episode and agent in the base URL. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { isRecord } from '../../ingest/json.ts';
import { type JsonBody, readJson } from '../checked-body.ts';
import { complete, type GatewayOptions } from '../gateway.ts';
import { type AnswerBody, chatBody, textBody } from '../gateway-answer.ts';
import {
  CONTEXT_HEADERS,
  type CompletionRequest,
  readChatRequest,
  readContext,
  readTextRequest,
} from '../gateway-request.ts';
import { refuse } from '../gateway-sampling.ts';
import { documented, type RouteDoc } from '../openapi.ts';
import { unknownModel } from '../speakers.ts';
import { untilGone } from '../until-gone.ts';
import { type ForwardOptions, forward, idHeaders } from '../upstream/forward.ts';
import type { Kind } from '../upstream/record.ts';
import type { Upstreams } from '../upstream/upstreams.ts';

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
  finish_reason: Type.Enum(['stop', 'length']),
  token_ids: Type.Array(Type.Integer()),
  raw_logprobs: Type.Optional(Type.Array(Type.Number(), { description: 'at temperature 1 with nothing cut' })),
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
    checkpoint_id: Type.String({ description: 'the weights that spoke' }),
  }),
};
const ChatCompletion = Type.Object(
  {
    ...answered,
    object: Type.Literal('chat.completion'),
    choices: Type.Array(
      Type.Object({
        ...drawn,
        message: Type.Object({ role: Type.Literal('assistant'), content: Type.String() }),
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
  top_k: Type.Optional(Type.Integer({ minimum: -1, description: '-1 and 0 cut nothing' })),
  top_p: Type.Optional(Type.Number({ exclusiveMinimum: 0, maximum: 1 })),
  min_p: Type.Optional(Type.Number({ minimum: 0, maximum: 1 })),
  max_tokens: Type.Optional(Type.Integer({ minimum: 1 })),
  stop: Type.Optional(Type.Union([Type.String(), Type.Array(Type.String())])),
  raw_logprobs: Type.Optional(Type.Boolean({ description: 'also at temperature 1 with nothing cut' })),
  return_tokens_as_token_ids: Type.Optional(
    Type.Boolean({ description: 'true: log-probabilities name tokens `token_id:N`, not by their text' }),
  ),
  stream: Type.Optional(Type.Boolean({ description: 'only a configured server streams' })),
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

const RECORDED = 'all choices; the header Troupe-Recorded says whether the log has them';
const CHAT_DOC: RouteDoc = {
  summary:
    'A chat completion by a policy of this project or a configured model server, recorded before its answer ends.',
  tag: 'gateway',
  scope: 'ingest',
  headers: CONTEXT_HEADERS,
  body: { types: ['application/json'], schema: ChatRequest },
  answers: { 200: { about: RECORDED, schema: ChatCompletion } },
};
const TEXT_DOC: RouteDoc = {
  summary:
    'The continuation of a text or list of token ids, by a policy or a configured server, recorded before its answer ends.',
  tag: 'gateway',
  scope: 'ingest',
  headers: CONTEXT_HEADERS,
  body: { types: ['application/json'], schema: TextRequest },
  answers: { 200: { about: RECORDED, schema: TextCompletion } },
};
const PASSED_ON =
  'what the server answered, with its status; streamed where it streams, recorded at the end (Troupe-Recorded: later)';
const RESPONSES_DOC: RouteDoc = {
  summary: 'A response of the Responses API by a configured model server, passed on as it comes and recorded.',
  tag: 'gateway',
  scope: 'ingest',
  headers: CONTEXT_HEADERS,
  body: { types: ['application/json'], schema: AnyRequest },
  answers: { 200: { about: PASSED_ON } },
};
const EMBEDDINGS_DOC: RouteDoc = {
  summary: 'Embeddings by a configured model server, recorded as a call without candidates.',
  tag: 'gateway',
  scope: 'ingest',
  headers: CONTEXT_HEADERS,
  body: { types: ['application/json'], schema: AnyRequest },
  answers: { 200: { about: PASSED_ON } },
};
const MODELS_DOC: RouteDoc = {
  summary: 'The models that are answered now.',
  tag: 'gateway',
  scope: 'ingest',
  answers: { 200: { about: 'policies, checkpoints, and models of configured servers', schema: Models } },
};

/** A model of this project. */
const OWN = /^(?:policy|checkpoint):/;

/** The base of every gateway address, and the same with its context in the path. */
const BASES = ['', '/e/:episode/a/:agent'] as const;

type RouteOptions = GatewayOptions & ForwardOptions & { readonly bodyLimit: number; readonly upstreams: Upstreams };

export function gatewayRoutes(app: FastifyInstance, options: RouteOptions): void {
  const { speakers, upstreams, bodyLimit } = options;
  const models = async () => [...(await speakers.models()), ...(await upstreams.models())];

  /** What a call to a model that is not ours is answered; null for one of ours, and for a body that names none. */
  const elsewhere = async (kind: Kind, { value, bytes }: JsonBody, request: FastifyRequest, reply: FastifyReply) => {
    if (!isRecord(value) || typeof value.model !== 'string' || OWN.test(value.model)) return null;
    const found = upstreams.find(value.model);
    if (found === null) return null;
    const context = readContext(request.headers, request.params as PathContext);
    const call = { ...found, kind, request: value, bytes, headers: request.headers, context, signal: untilGone(reply) };
    return forward(call, reply, options);
  };
  const onlyElsewhere = (kind: Kind) => async (request: FastifyRequest, reply: FastifyReply) => {
    const read = await readJson(request, bodyLimit);
    const answered = await elsewhere(kind, read, request, reply);
    if (answered !== null) return answered;
    const model = isRecord(read.value) ? read.value.model : undefined;
    if (typeof model !== 'string') throw refuse('model', "a configured server's model", model);
    if (!OWN.test(model)) throw unknownModel(model, await models());
    throw refuse('model', "a configured server's model", model, 'Policies answer chat and text completions.');
  };

  const answer =
    (kind: Kind, read: (body: unknown) => CompletionRequest, bodyOf: AnswerBody) =>
    async (request: FastifyRequest, reply: FastifyReply) => {
      const context = readContext(request.headers, request.params as PathContext);
      const sent = await readJson(request, bodyLimit);
      const answered = await elsewhere(kind, sent, request, reply);
      if (answered !== null) return answered;
      const asked = read(sent.value);
      if (asked.who === null) throw unknownModel(asked.model, await models());
      const { body, recorded } = await complete(asked, context, {
        ...options,
        bodyOf,
        signal: untilGone(reply),
        onCall: (ids) => void reply.headers(idHeaders(ids)),
      });
      return reply
        .header('troupe-recorded', String(recorded))
        .header('content-type', 'application/json; charset=utf-8')
        .send(JSON.stringify(body));
    };
  for (const base of BASES) {
    app.post(`${base}/v1/chat/completions`, documented(CHAT_DOC), answer('chat', readChatRequest, chatBody));
    app.post(`${base}/v1/completions`, documented(TEXT_DOC), answer('text', readTextRequest, textBody));
    app.post(`${base}/v1/responses`, documented(RESPONSES_DOC), onlyElsewhere('responses'));
    app.post(`${base}/v1/embeddings`, documented(EMBEDDINGS_DOC), onlyElsewhere('embeddings'));
    app.get(`${base}/v1/models`, documented(MODELS_DOC), async () => ({
      object: 'list',
      data: (await models()).map((id) => ({
        id,
        object: 'model',
        created: 0,
        owned_by: OWN.test(id) ? 'troupe' : (upstreams.find(id)?.upstream.name ?? 'upstream'),
      })),
    }));
  }
}

type PathContext = { readonly episode?: string; readonly agent?: string };
