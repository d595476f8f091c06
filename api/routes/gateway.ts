/** The routes of the OpenAI-compatible gateway, plain and with the episode and agent in the base URL. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { parseRecord } from '../../ingest/json.ts';
import { inflate, mediaType, utf8 } from '../body.ts';
import { complete, type GatewayOptions } from '../gateway.ts';
import { CONTEXT_HEADERS, readChatRequest, readContext } from '../gateway-request.ts';
import { documented, type RouteDoc } from '../openapi.ts';
import { BodyRefused } from '../problem.ts';

const Completion = Type.Object(
  {
    id: Type.String(),
    object: Type.Literal('chat.completion'),
    choices: Type.Array(
      Type.Object({
        index: Type.Integer(),
        message: Type.Object({ role: Type.Literal('assistant'), content: Type.String() }),
        finish_reason: Type.Enum(['stop', 'length']),
        logprobs: Type.Union([Type.Object({ content: Type.Array(Type.Unknown()) }), Type.Null()]),
        token_ids: Type.Array(Type.Integer()),
      }),
    ),
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
  },
  { additionalProperties: true },
);
const Request = Type.Object(
  {
    model: Type.String({ description: 'policy:NAME or checkpoint:ID' }),
    messages: Type.Array(Type.Object({ role: Type.String() }, { additionalProperties: true })),
    n: Type.Optional(Type.Integer({ minimum: 1 })),
    seed: Type.Optional(Type.Integer({ minimum: 0 })),
    temperature: Type.Optional(Type.Number({ minimum: 0 })),
    max_completion_tokens: Type.Optional(Type.Integer({ minimum: 1 })),
    max_tokens: Type.Optional(Type.Integer({ minimum: 1 })),
    stop: Type.Optional(Type.Union([Type.String(), Type.Array(Type.String())])),
    logprobs: Type.Optional(Type.Boolean()),
    tools: Type.Optional(Type.Array(Type.Unknown())),
    stream: Type.Optional(Type.Literal(false)),
  },
  { additionalProperties: true },
);
const Models = Type.Object({
  object: Type.Literal('list'),
  data: Type.Array(
    Type.Object({ id: Type.String(), object: Type.Literal('model'), created: Type.Integer(), owned_by: Type.String() }),
  ),
});

const COMPLETION_DOC: RouteDoc = {
  summary: 'A chat completion by a policy of this project, recorded before it is answered.',
  tag: 'gateway',
  headers: CONTEXT_HEADERS,
  body: { types: ['application/json'], schema: Request },
  answers: {
    200: { about: 'all choices; the header Troupe-Recorded says whether the log has them', schema: Completion },
  },
};
const MODELS_DOC: RouteDoc = {
  summary: 'The models that are answered now.',
  tag: 'gateway',
  answers: { 200: { about: 'policies and checkpoints', schema: Models } },
};

/** The base of every gateway address, and the same with its context in the path. */
const BASES = ['', '/e/:episode/a/:agent'] as const;

export function gatewayRoutes(app: FastifyInstance, options: GatewayOptions & { readonly bodyLimit: number }): void {
  const answer = async (request: FastifyRequest, reply: FastifyReply) => {
    const context = readContext(
      request.headers,
      request.params as { readonly episode?: string; readonly agent?: string },
    );
    const asked = readChatRequest(await readJson(request, options.bodyLimit));
    const { body, recorded } = await complete(asked, context, options);
    return reply
      .header('troupe-recorded', String(recorded))
      .header('content-type', 'application/json; charset=utf-8')
      .send(JSON.stringify(body));
  };
  for (const base of BASES) {
    app.post(`${base}/v1/chat/completions`, documented(COMPLETION_DOC), answer);
    app.get(`${base}/v1/models`, documented(MODELS_DOC), async () => ({
      object: 'list',
      data: (await options.speakers.models()).map((id) => ({ id, object: 'model', created: 0, owned_by: 'troupe' })),
    }));
  }
}

async function readJson(request: FastifyRequest, limit: number): Promise<unknown> {
  mediaType(request.headers, ['application/json']);
  const text = utf8(await inflate((request.body as Buffer | undefined) ?? Buffer.alloc(0), request.headers, limit));
  if (text === null) throw new BodyRefused({ code: 'bad_json', field: '', expected: 'UTF-8', got: 'other bytes' });
  const parsed = parseRecord(text);
  if ('refusal' in parsed) throw new BodyRefused(parsed.refusal);
  return parsed.value;
}
