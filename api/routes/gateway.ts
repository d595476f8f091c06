/** The routes of the OpenAI-compatible gateway, plain and with the episode and agent in the base URL. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { parseRecord } from '../../ingest/json.ts';
import { inflate, mediaType, utf8 } from '../body.ts';
import { complete, type GatewayOptions } from '../gateway.ts';
import { type AnswerBody, chatBody, textBody } from '../gateway-answer.ts';
import {
  CONTEXT_HEADERS,
  type CompletionRequest,
  readChatRequest,
  readContext,
  readTextRequest,
} from '../gateway-request.ts';
import { documented, type RouteDoc } from '../openapi.ts';
import { BodyRefused } from '../problem.ts';

const LogProb = Type.Object({ token: Type.String(), logprob: Type.Number(), bytes: Type.Null() });
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
  model: Type.String({ description: 'policy:NAME or checkpoint:ID' }),
  n: Type.Optional(Type.Integer({ minimum: 1 })),
  seed: Type.Optional(Type.Integer({ minimum: 0 })),
  temperature: Type.Optional(Type.Number({ minimum: 0 })),
  top_k: Type.Optional(Type.Integer({ minimum: -1, description: '-1 and 0 cut nothing' })),
  top_p: Type.Optional(Type.Number({ exclusiveMinimum: 0, maximum: 1 })),
  min_p: Type.Optional(Type.Number({ minimum: 0, maximum: 1 })),
  max_tokens: Type.Optional(Type.Integer({ minimum: 1 })),
  stop: Type.Optional(Type.Union([Type.String(), Type.Array(Type.String())])),
  raw_logprobs: Type.Optional(Type.Boolean({ description: 'also at temperature 1 with nothing cut' })),
  stream: Type.Optional(Type.Literal(false)),
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
const Models = Type.Object({
  object: Type.Literal('list'),
  data: Type.Array(
    Type.Object({ id: Type.String(), object: Type.Literal('model'), created: Type.Integer(), owned_by: Type.String() }),
  ),
});

const RECORDED = 'all choices; the header Troupe-Recorded says whether the log has them';
const CHAT_DOC: RouteDoc = {
  summary: 'A chat completion by a policy of this project, recorded before it is answered.',
  tag: 'gateway',
  scope: 'ingest',
  headers: CONTEXT_HEADERS,
  body: { types: ['application/json'], schema: ChatRequest },
  answers: { 200: { about: RECORDED, schema: ChatCompletion } },
};
const TEXT_DOC: RouteDoc = {
  summary:
    'The continuation of one text or list of token ids by a policy of this project, recorded before it is answered.',
  tag: 'gateway',
  scope: 'ingest',
  headers: CONTEXT_HEADERS,
  body: { types: ['application/json'], schema: TextRequest },
  answers: { 200: { about: RECORDED, schema: TextCompletion } },
};
const MODELS_DOC: RouteDoc = {
  summary: 'The models that are answered now.',
  tag: 'gateway',
  scope: 'ingest',
  answers: { 200: { about: 'policies and checkpoints', schema: Models } },
};

/** The base of every gateway address, and the same with its context in the path. */
const BASES = ['', '/e/:episode/a/:agent'] as const;

export function gatewayRoutes(app: FastifyInstance, options: GatewayOptions & { readonly bodyLimit: number }): void {
  const answer =
    (read: (body: unknown) => CompletionRequest, bodyOf: AnswerBody) =>
    async (request: FastifyRequest, reply: FastifyReply) => {
      const context = readContext(
        request.headers,
        request.params as { readonly episode?: string; readonly agent?: string },
      );
      const asked = read(await readJson(request, options.bodyLimit));
      const { body, recorded } = await complete(asked, context, { ...options, bodyOf, signal: untilGone(reply) });
      return reply
        .header('troupe-recorded', String(recorded))
        .header('content-type', 'application/json; charset=utf-8')
        .send(JSON.stringify(body));
    };
  for (const base of BASES) {
    app.post(`${base}/v1/chat/completions`, documented(CHAT_DOC), answer(readChatRequest, chatBody));
    app.post(`${base}/v1/completions`, documented(TEXT_DOC), answer(readTextRequest, textBody));
    app.get(`${base}/v1/models`, documented(MODELS_DOC), async () => ({
      object: 'list',
      data: (await options.speakers.models()).map((id) => ({ id, object: 'model', created: 0, owned_by: 'troupe' })),
    }));
  }
}

/** Aborted when the connection ends before the answer is out. */
function untilGone({ raw }: FastifyReply): AbortSignal {
  const gone = new AbortController();
  const close = () => {
    if (!raw.writableFinished) gone.abort();
  };
  if (raw.destroyed) close();
  else raw.once('close', close);
  return gone.signal;
}

async function readJson(request: FastifyRequest, limit: number): Promise<unknown> {
  mediaType(request.headers, ['application/json']);
  const text = utf8(await inflate((request.body as Buffer | undefined) ?? Buffer.alloc(0), request.headers, limit));
  if (text === null) throw new BodyRefused({ code: 'bad_json', field: '', expected: 'UTF-8', got: 'other bytes' });
  const parsed = parseRecord(text);
  if ('refusal' in parsed) throw new BodyRefused(parsed.refusal);
  return parsed.value;
}
