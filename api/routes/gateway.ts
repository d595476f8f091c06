/** The routes of the OpenAI-compatible gateway, plain and with the episode and agent in the base URL. */
import { PassThrough } from 'node:stream';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { isRecord } from '../../ingest/json.ts';
import type { Db } from '../../store/db/pool.ts';
import { MAY_REPLAY } from '../../store/rollouts/ids.ts';
import { hostedModel, hostedWeights } from '../../store/rollouts/weights.ts';
import { type JsonBody, readJson } from '../checked-body.ts';
import { messagesBody, messagesStream } from '../dialects/messages-answer.ts';
import { readMessagesPrompt, readMessagesRequest } from '../dialects/messages-request.ts';
import { responsesBody, responsesStream } from '../dialects/responses-answer.ts';
import { type Recall, readResponsesRequest } from '../dialects/responses-request.ts';
import { type Call, complete, type GatewayOptions, isUnserved } from '../gateway.ts';
import { type AnswerBody, chatBody, textBody } from '../gateway-answer.ts';
import { chatStream, type StreamOf, type StreamWriter, streamText, textStream } from '../gateway-events.ts';
import {
  type CallContext,
  CONTEXT_HEADERS,
  type CompletionRequest,
  opened,
  ownModel,
  promptOf,
  readChatRequest,
  readContext,
  readTextRequest,
} from '../gateway-request.ts';
import { refuse } from '../gateway-sampling.ts';
import { type Route, routeOf } from '../model-routes.ts';
import { type Offload, relay } from '../offload.ts';
import { documented, type RouteDoc } from '../openapi.ts';
import { OWN, type OwnModel, unknownModel } from '../policy-servers.ts';
import { type RecallOptions, recall } from '../recall.ts';
import { plainRequest } from '../replayed-answer.ts';
import type { Replays } from '../replays.ts';
import { untilGone } from '../until-gone.ts';
import { type ForwardOptions, forward, forwardCount } from '../upstream/forward.ts';
import type { Kind } from '../upstream/kind.ts';
import { tokenFields, withoutAdded } from '../upstream/token-ids.ts';
import type { Found, Upstreams } from '../upstream/upstreams.ts';

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

/** How one API of the gateway reads a request for a policy, and writes the response. */
type Dialect = {
  readonly kind: Kind;
  readonly read: (body: unknown, recall: Recall) => CompletionRequest | Promise<CompletionRequest>;
  readonly bodyOf: AnswerBody;
  readonly streamOf: StreamOf;
};
const CHAT: Dialect = { kind: 'chat', read: readChatRequest, bodyOf: chatBody, streamOf: chatStream };
const TEXT: Dialect = { kind: 'text', read: readTextRequest, bodyOf: textBody, streamOf: textStream };

const MESSAGES: Dialect = {
  kind: 'messages',
  read: readMessagesRequest,
  bodyOf: messagesBody,
  streamOf: messagesStream,
};

const RESPONSES: Dialect = {
  kind: 'responses',
  read: readResponsesRequest,
  bodyOf: responsesBody,
  streamOf: responsesStream,
};

const RECORDED = 'all choices; the header Troupe-Recorded shows whether they are in the log';
const CHAT_DOC: RouteDoc = {
  summary:
    'A chat completion by a policy of this project or a configured model server, recorded before its response ends.',
  tag: 'gateway',
  scope: 'ingest',
  headers: CONTEXT_HEADERS,
  body: { types: ['application/json'], schema: ChatRequest },
  answers: { 200: { about: RECORDED, schema: ChatCompletion } },
};
const TEXT_DOC: RouteDoc = {
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
const RESPONSES_DOC: RouteDoc = {
  summary:
    'A response in the OpenAI Responses API, by a policy of this project or a configured model server, recorded.',
  tag: 'gateway',
  scope: 'ingest',
  headers: CONTEXT_HEADERS,
  body: { types: ['application/json'], schema: AnyRequest },
  answers: { 200: { about: PASSED_ON } },
};
const MESSAGES_DOC: RouteDoc = {
  summary:
    "A response in Anthropic's Messages API, by a policy of this project or a configured model server, recorded.",
  tag: 'gateway',
  scope: 'ingest',
  headers: CONTEXT_HEADERS,
  body: { types: ['application/json'], schema: AnyRequest },
  answers: { 200: { about: RECORDED } },
};
const COUNT_DOC: RouteDoc = {
  summary: "The tokens of a request of Anthropic's Messages API, counted by a policy or a configured model server.",
  tag: 'gateway',
  scope: 'ingest',
  body: { types: ['application/json'], schema: AnyRequest },
  answers: { 200: { about: 'the count', schema: Type.Object({ input_tokens: Type.Integer() }) } },
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
  summary: 'The models that are served now.',
  tag: 'gateway',
  scope: 'ingest',
  answers: { 200: { about: 'policies, checkpoints, and models of configured servers', schema: Models } },
};

const JSON_TYPE = 'application/json; charset=utf-8';
const EVENT_STREAM = { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-cache' };

/** Tokens, each with those that were drawn beside it, that take 10 ms of the event loop to write and to record. */
const LONG_TOKENS = 10_000;
/** What a choice without a limit is taken to have. */
const USUAL_TOKENS = 4_096;
const answersAtLength = ({ n, maxTokens, topLogprobs }: CompletionRequest['sampling']): boolean =>
  n * (maxTokens ?? USUAL_TOKENS) * (1 + topLogprobs) > LONG_TOKENS;

/** The context of a call of which only the model is known. */
const NO_CONTEXT = { agent: null, role: null };

/** The base path of the gateway, and the same with episode and agent in the path. */
const BASES = ['', '/e/:episode/a/:agent'] as const;

type RouteOptions = GatewayOptions &
  ForwardOptions &
  RecallOptions & {
    readonly db: Db;
    readonly replays: Replays;
    readonly bodyLimit: number;
    readonly upstreams: Upstreams;
    readonly routes: readonly Route[];
    /** Another thread, for responses that are long. Default: they are handled here. */
    readonly offload?: Pick<Offload, 'handle'> | undefined;
  };

export function gatewayRoutes(app: FastifyInstance, options: RouteOptions): void {
  const { policyServers, upstreams, routes, bodyLimit, replays } = options;
  const models = async () => {
    const routed = routes.map(({ model }) => model).filter((model) => !model.endsWith('*'));
    const others = new Set([...routed, ...(await upstreams.models())]);
    return [...(await policyServers.models()), ...[...others].sort()];
  };
  type Ask = Call & { readonly sent: JsonBody; readonly request: FastifyRequest; readonly reply: FastifyReply };

  /** A call, by the name that its answer has already, whatever becomes of it; what is refused is not recorded. */
  const begun = async (request: FastifyRequest, reply: FastifyReply): Promise<Ask> => {
    const callId = String(reply.getHeader('troupe-call-id'));
    const context = readContext(request.headers, request.params as PathContext);
    const call = { callId, context, episodeId: context.episode ?? `call-${callId}` };
    reply.header('troupe-episode-id', encodeURIComponent(call.episodeId));
    return { ...call, sent: await readJson(request, bodyLimit), request, reply };
  };

  /** Forwards a call to a model server. `flags`: those of its record, with the policy in whose place it answers. */
  const pass = (
    kind: Kind,
    found: Found,
    ask: Ask,
    { flags = [], policy }: { readonly flags?: readonly string[]; readonly policy?: string | undefined } = {},
  ) => {
    const { sent, request, reply, callId, episodeId, context } = ask;
    return forward(
      {
        ...found,
        kind,
        request: sent.value as Record<string, unknown>,
        bytes: sent.bytes,
        headers: request.headers,
        callId,
        episodeId,
        context,
        flags,
        policy,
        signal: untilGone(reply),
        requestId: request.id,
      },
      reply,
      options,
    );
  };
  /** Completes a call with the policy that it names, or with the one of a route. */
  const serve = async (
    { read, bodyOf, streamOf }: Dialect,
    { sent, request, reply, ...call }: Ask,
    route: Route | null,
  ): Promise<FastifyReply> => {
    const { context } = call;
    const asked = await read(sent.value, (id) => recall(options.db, id, { ...options, episode: context.episode }));
    if (options.offload && answersAtLength(asked.sampling))
      return relay(options.offload, request, reply, request.body as Buffer);
    const routed = route && { who: { kind: 'policy', name: route.policy } as const, route: route.name };
    const stream = new PassThrough();
    // There once the stream has begun: what fails before has a status of its own.
    let writer: StreamWriter | null = null;
    const onText = (choice: number, text: string, before: Readonly<Record<string, unknown>>) => {
      if (writer === null) {
        writer = streamOf(before, asked);
        reply.headers({ ...EVENT_STREAM, 'troupe-recorded': 'later' }).send(stream);
      }
      stream.write(streamText(writer.text(choice, text)));
    };
    const written = (): StreamWriter | null => writer;
    try {
      const { body, recorded } = await complete({ ...asked, ...routed }, call, {
        ...options,
        bodyOf,
        signal: untilGone(reply),
        onFailed: (recorded) => void (written() === null && reply.header('troupe-recorded', String(recorded))),
        ...(asked.stream === null ? {} : { onText }),
        passesOn: route !== null && route.fallback !== null,
      });
      const events = asked.stream === null ? null : (written() ?? streamOf(body, asked)).end(body);
      if (written() !== null) stream.end(streamText(events!));
      else {
        reply.header('troupe-recorded', String(recorded));
        if (events === null) reply.header('content-type', JSON_TYPE).send(JSON.stringify(body));
        else reply.headers(EVENT_STREAM).send(streamText(events));
      }
    } catch (error) {
      if (written() === null) throw error;
      // The client sees a stream that breaks off, as the stream of a model server does.
      stream.destroy(error as Error);
    }
    return reply;
  };

  /** The response of a route's policy, or of its fallback; the header Troupe-Route names which. */
  const byRoute = async <T>(
    route: Route,
    reply: FastifyReply,
    answers: { readonly policy: () => Promise<T>; readonly fallback: (found: Found) => Promise<T> },
  ): Promise<T> => {
    reply.header('troupe-route', route.name);
    try {
      return await answers.policy();
    } catch (error) {
      const found = route.fallback === null ? null : upstreams.find(route.fallback);
      if (found === null || !isUnserved(error)) throw error;
      reply.header('troupe-route', `${route.name}; fallback`);
      return answers.fallback(asHosted(found, hostedWeights(route.fallback!).checkpoint_id));
    }
  };
  /** The model that a body names; for a model outside this project, its route and its server. */
  const placeOf = ({ sent: { value }, context }: Pick<Ask, 'sent' | 'context'>) => {
    const model = isRecord(value) && typeof value.model === 'string' ? value.model : null;
    const foreign = model !== null && !OWN.test(model) ? model : null;
    return {
      model,
      route: foreign === null ? null : routeOf(routes, foreign, context),
      found: foreign === null ? null : upstreams.find(foreign),
    };
  };

  /** The server that answers for a policy in an episode of a gate whose incumbent is the model that its calls go to today. */
  const hostedIn = async (
    { episode }: CallContext,
    route: Route | null,
    own: OwnModel | null,
  ): Promise<Found | null> => {
    const policy = route?.policy ?? (own?.kind === 'policy' ? own.name : null);
    const checkpoint = policy === null ? null : await options.bound(policy, episode);
    const model = checkpoint === null ? null : hostedModel(checkpoint);
    const found = model === null ? null : upstreams.find(model);
    return found && asHosted(found, checkpoint!);
  };

  /** What is recorded as the weights of its answers: the name that maps of weights have for the model. */
  const asHosted = (found: Found, checkpoint_id: string): Found => {
    const { upstream, model } = found;
    return { ...found, upstream: { ...upstream, checkpoints: { ...upstream.checkpoints, [model]: checkpoint_id } } };
  };

  /** Answers a call of a replay from the record, and is null then; else the call as it goes on to a model. */
  const replayed = async (kind: Kind, dialect: Dialect | null, ask: Ask): Promise<Ask | null> => {
    const { sent, context, reply } = ask;
    if (context.episode === null || !MAY_REPLAY.test(context.episode) || !isRecord(sent.value)) return ask;
    const read = await readable(dialect, ask);
    const call = { kind, body: sent.value, context, read, bodyOf: dialect?.bodyOf ?? null };
    const taken = await replays.take(call);
    if (taken === null) return ask;
    if (taken.by === 'model') {
      const bytes = taken.body === sent.value ? sent.bytes : Buffer.from(JSON.stringify(taken.body));
      return { ...ask, sent: { value: taken.body, bytes }, context: taken.context };
    }
    const { body, ids, recorded } = taken;
    reply.headers({
      'troupe-call-id': ids.callId,
      'troupe-recorded': String(recorded),
      'troupe-replayed': 'true',
    });
    // The client gets no token ids that it did not ask for itself.
    const found = placeOf(ask).found;
    const added = found === null ? null : tokenFields(found.upstream, kind, sent.value);
    const shown = (added === null ? body : withoutAdded(body, added)) as typeof body;
    const request = read ?? plainRequest(kind, sent.value);
    if (request.stream === null || dialect === null)
      reply.header('content-type', JSON_TYPE).send(JSON.stringify(shown));
    else reply.headers(EVENT_STREAM).send(streamText(dialect.streamOf(shown, request).end(shown)));
    return null;
  };
  /** The request as a policy reads it; null where none can. */
  const readable = async (dialect: Dialect | null, { sent, context }: Ask): Promise<CompletionRequest | null> => {
    try {
      const remembered = (id: string) => recall(options.db, id, { ...options, episode: context.episode });
      return dialect && (await dialect.read(sent.value, remembered));
    } catch {
      return null;
    }
  };

  const answer = (dialect: Dialect) => async (request: FastifyRequest, reply: FastifyReply) => {
    const ask = await replayed(dialect.kind, dialect, await begun(request, reply));
    if (ask === null) return reply;
    const { model, route, found } = placeOf(ask);
    const own = model === null ? null : ownModel(model);
    const hosted = await hostedIn(ask.context, route, own);
    const inPlace = { flags: ['route_fallback'], policy: route?.policy ?? own?.name };
    if (hosted !== null) return pass(dialect.kind, hosted, ask, inPlace);
    if (route !== null)
      return byRoute(route, reply, {
        policy: () => serve(dialect, ask, route),
        fallback: (server) => pass(dialect.kind, server, ask, inPlace),
      });
    if (found !== null) return pass(dialect.kind, found, ask);
    if (model !== null && own === null) throw unknownModel(model, await models());
    return serve(dialect, ask, null);
  };
  const count = async (request: FastifyRequest, reply: FastifyReply) => {
    const sent = await readJson(request, bodyLimit);
    const context = readContext(request.headers, request.params as PathContext);
    const { model, ...fields } = opened(sent.value);
    const { route, found } = placeOf({ sent, context });
    const own = async (who: OwnModel): Promise<object> => {
      const checkpoint = who.kind === 'policy' ? await options.bound(who.name, context.episode) : null;
      const serving: OwnModel = checkpoint === null ? who : { kind: 'checkpoint', name: checkpoint };
      const { prompt_token_ids: ids } = await policyServers.prompt(serving, promptOf(readMessagesPrompt(fields)));
      return { input_tokens: ids.length };
    };
    const other = (server: Found): Promise<object> => {
      const { value, bytes } = sent;
      const passed = { request: value as Record<string, unknown>, bytes, headers: request.headers };
      return forwardCount({ ...server, ...passed, signal: untilGone(reply) }, reply, options);
    };
    const who = ownModel(model);
    const hosted = await hostedIn(context, route, who);
    if (hosted !== null) return other(hosted);
    if (route !== null)
      return byRoute(route, reply, { policy: () => own({ kind: 'policy', name: route.policy }), fallback: other });
    if (found !== null) return other(found);
    if (who === null) throw unknownModel(model, await models());
    return own(who);
  };
  const embed = async (request: FastifyRequest, reply: FastifyReply) => {
    const ask = await replayed('embeddings', null, await begun(request, reply));
    if (ask === null) return reply;
    const { model, found } = placeOf(ask);
    if (found !== null) return pass('embeddings', found, ask);
    if (model === null)
      throw refuse('model', "a configured server's model", (ask.sent.value as { model?: unknown })?.model);
    if (!OWN.test(model)) throw unknownModel(model, await models());
    throw refuse('model', "a configured server's model", model, 'Policies do not embed text.');
  };
  for (const base of BASES) {
    app.post(`${base}/v1/chat/completions`, documented(CHAT_DOC), answer(CHAT));
    app.post(`${base}/v1/completions`, documented(TEXT_DOC), answer(TEXT));
    app.post(`${base}/v1/responses`, documented(RESPONSES_DOC), answer(RESPONSES));
    app.post(`${base}/v1/messages`, documented(MESSAGES_DOC), answer(MESSAGES));
    app.post(`${base}/v1/messages/count_tokens`, documented(COUNT_DOC), count);
    app.post(`${base}/v1/embeddings`, documented(EMBEDDINGS_DOC), embed);
    app.get(`${base}/v1/models`, documented(MODELS_DOC), async () => ({
      object: 'list',
      data: (await models()).map((id) => ({
        id,
        object: 'model',
        created: 0,
        owned_by:
          OWN.test(id) || routeOf(routes, id, NO_CONTEXT)
            ? 'troupe'
            : (upstreams.find(id)?.upstream.name ?? 'upstream'),
      })),
    }));
  }
}

type PathContext = { readonly episode?: string; readonly agent?: string };
