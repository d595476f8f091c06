/** The routes of the OpenAI-compatible gateway, plain and with the episode and agent in the base URL. */
import { PassThrough } from 'node:stream';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { isRecord } from '../../../ingest/events/json.ts';
import { writtenJson } from '../../../ingest/events/spelling.ts';
import type { Db } from '../../../store/db/pool.ts';
import { MAY_REPLAY } from '../../../store/loop/play/ids.ts';
import { hostedModel, hostedWeights } from '../../../store/loop/play/weights.ts';
import { type AnswerBody, chatBody, textBody } from '../../gateway/answer.ts';
import { messagesBody, messagesStream } from '../../gateway/dialects/messages-answer.ts';
import { readMessagesPrompt, readMessagesRequest } from '../../gateway/dialects/messages-request.ts';
import { responsesBody, responsesStream } from '../../gateway/dialects/responses-answer.ts';
import { type Recall, readResponsesRequest } from '../../gateway/dialects/responses-request.ts';
import {
  chatStream,
  type StreamOf,
  type StreamWriter,
  streamText,
  textStream,
  UNRECORDED,
} from '../../gateway/events.ts';
import { type Call, complete, type GatewayOptions, isUnserved } from '../../gateway/gateway.ts';
import { type Route, routeOf } from '../../gateway/model-routes.ts';
import { OWN, type OwnModel, unknownModel } from '../../gateway/policy-servers.ts';
import { type RecallOptions, recall } from '../../gateway/replay/recall.ts';
import { plainRequest } from '../../gateway/replay/replayed-answer.ts';
import type { Replays } from '../../gateway/replay/replays.ts';
import {
  type CallContext,
  type CompletionRequest,
  opened,
  ownModel,
  promptOf,
  readChatRequest,
  readContext,
  readTextRequest,
} from '../../gateway/request.ts';
import { refuse } from '../../gateway/sampling.ts';
import { type ForwardOptions, forward, forwardCount } from '../../gateway/upstream/forward.ts';
import type { Kind } from '../../gateway/upstream/kind.ts';
import { tokenFields, withoutAdded } from '../../gateway/upstream/token-ids.ts';
import type { UpstreamMatch, Upstreams } from '../../gateway/upstream/upstreams.ts';
import { readJson } from '../checked-body.ts';
import { type Offload, relay } from '../offload.ts';
import { documented } from '../openapi.ts';
import { untilGone } from '../until-gone.ts';
import {
  CHAT_DOC,
  COUNT_DOC,
  EMBEDDINGS_DOC,
  MESSAGES_DOC,
  MODELS_DOC,
  RESPONSES_DOC,
  TEXT_DOC,
} from './gateway-docs.ts';

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
  const calls = new GatewayCalls(options);
  const answer = (dialect: Dialect) => (request: FastifyRequest, reply: FastifyReply) =>
    calls.answer(dialect, request, reply);
  for (const base of BASES) {
    app.post(`${base}/v1/chat/completions`, documented(CHAT_DOC), answer(CHAT));
    app.post(`${base}/v1/completions`, documented(TEXT_DOC), answer(TEXT));
    app.post(`${base}/v1/responses`, documented(RESPONSES_DOC), answer(RESPONSES));
    app.post(`${base}/v1/messages`, documented(MESSAGES_DOC), answer(MESSAGES));
    app.post(`${base}/v1/messages/count_tokens`, documented(COUNT_DOC), (request, reply) =>
      calls.count(request, reply),
    );
    app.post(`${base}/v1/embeddings`, documented(EMBEDDINGS_DOC), (request, reply) => calls.embed(request, reply));
    app.get(`${base}/v1/models`, documented(MODELS_DOC), () => calls.list());
  }
}

/** A call with its request, as it was sent or as its replay changed it. */
type HttpCall = Call & {
  readonly sent: Awaited<ReturnType<typeof readJson>>;
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
};

/** Who answers a call: a policy of this project, a configured server, or the record of another call. */
class GatewayCalls {
  readonly #options: RouteOptions;

  constructor(options: RouteOptions) {
    this.#options = options;
  }

  async answer(dialect: Dialect, request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const call = await this.#replayed(dialect.kind, dialect, await this.#begin(request, reply));
    if (call === null) return reply;
    const { model, route, found } = this.#placeOf(call);
    const own = model === null ? null : ownModel(model);
    const hosted = await this.#hostedIn(call.context, route, own);
    const inPlace = { flags: ['route_fallback'], policy: route?.policy ?? own?.name };
    if (hosted !== null) return this.#pass(dialect.kind, hosted, call, inPlace);
    if (route !== null)
      return this.#byRoute(route, reply, {
        policy: () => this.#serve(dialect, call, route),
        fallback: (server) => this.#pass(dialect.kind, server, call, inPlace),
      });
    if (found !== null) return this.#pass(dialect.kind, found, call);
    if (model !== null && own === null) throw unknownModel(model, await this.#models());
    return this.#serve(dialect, call, null);
  }

  async count(request: FastifyRequest, reply: FastifyReply): Promise<object> {
    const { bodyLimit, policyServers } = this.#options;
    const sent = await readJson(request, bodyLimit, { longIntegers: true });
    const context = readContext(request.headers, request.params as PathContext);
    const { model, ...fields } = opened(sent.value);
    const { route, found } = this.#placeOf({ sent, context });
    const own = async (who: OwnModel): Promise<object> => {
      const checkpoint = who.kind === 'policy' ? await this.#options.bound(who.name, context.episode) : null;
      const serving: OwnModel = checkpoint === null ? who : { kind: 'checkpoint', name: checkpoint };
      const { prompt_token_ids: ids } = await policyServers.prompt(serving, promptOf(readMessagesPrompt(fields)));
      return { input_tokens: ids.length };
    };
    const other = (server: UpstreamMatch): Promise<object> => {
      const { value, bytes } = sent;
      const passed = { request: value as Record<string, unknown>, bytes, headers: request.headers };
      return forwardCount({ ...server, ...passed, signal: untilGone(reply) }, reply, this.#options);
    };
    const who = ownModel(model);
    const hosted = await this.#hostedIn(context, route, who);
    if (hosted !== null) return other(hosted);
    if (route !== null)
      return this.#byRoute(route, reply, {
        policy: () => own({ kind: 'policy', name: route.policy }),
        fallback: other,
      });
    if (found !== null) return other(found);
    if (who === null) throw unknownModel(model, await this.#models());
    return own(who);
  }

  async embed(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const call = await this.#replayed('embeddings', null, await this.#begin(request, reply));
    if (call === null) return reply;
    const { model, found } = this.#placeOf(call);
    if (found !== null) return this.#pass('embeddings', found, call);
    const expected = "a configured server's model";
    if (model === null) throw refuse('model', expected, (call.sent.value as { model?: unknown })?.model);
    if (!OWN.test(model)) throw unknownModel(model, await this.#models());
    throw refuse('model', expected, model, 'Policies do not embed text.');
  }

  async list() {
    const { routes, upstreams } = this.#options;
    const ownerOf = (id: string): string =>
      OWN.test(id) || routeOf(routes, id, NO_CONTEXT) ? 'troupe' : (upstreams.find(id)?.upstream.name ?? 'upstream');
    const data = (await this.#models()).map((id) => ({ id, object: 'model', created: 0, owned_by: ownerOf(id) }));
    return { object: 'list', data };
  }

  async #models(): Promise<readonly string[]> {
    const { policyServers, upstreams, routes } = this.#options;
    const routed = routes.map(({ model }) => model).filter((model) => !model.endsWith('*'));
    const others = new Set([...routed, ...(await upstreams.models())]);
    return [...(await policyServers.models()), ...[...others].sort()];
  }

  /** A call, by the name that its answer has already, whatever becomes of it; what is refused is not recorded. */
  async #begin(request: FastifyRequest, reply: FastifyReply): Promise<HttpCall> {
    const callId = String(reply.getHeader('troupe-call-id'));
    const context = readContext(request.headers, request.params as PathContext);
    const call = { callId, context, episodeId: context.episode ?? `call-${callId}` };
    reply.header('troupe-episode-id', encodeURIComponent(call.episodeId));
    return { ...call, sent: await readJson(request, this.#options.bodyLimit, { longIntegers: true }), request, reply };
  }

  /** Forwards a call to a model server. `flags`: those of its record, with the policy in whose place it answers. */
  #pass(
    kind: Kind,
    found: UpstreamMatch,
    { sent, request, reply, callId, episodeId, context }: HttpCall,
    { flags = [], policy }: { readonly flags?: readonly string[]; readonly policy?: string | undefined } = {},
  ): Promise<FastifyReply> {
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
      this.#options,
    );
  }

  /** Completes a call with the policy that it names, or with the one of a route. */
  async #serve(
    { read, bodyOf, streamOf }: Dialect,
    { sent, request, reply, ...call }: HttpCall,
    route: Route | null,
  ): Promise<FastifyReply> {
    const options = this.#options;
    const asked = await read(sent.value, this.#recall(call.context));
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
      const begun = written();
      if (begun === null) sendAnswer(reply.header('troupe-recorded', String(recorded)), body, asked, streamOf);
      else stream.end(streamText(begun.end(body)) + (recorded ? '' : UNRECORDED));
    } catch (error) {
      if (written() === null) throw error;
      // The client sees a stream that breaks off, as the stream of a model server does.
      stream.destroy(error as Error);
    }
    return reply;
  }

  /** The response of a route's policy, or of its fallback; the header Troupe-Route names which. */
  async #byRoute<T>(
    route: Route,
    reply: FastifyReply,
    answers: { readonly policy: () => Promise<T>; readonly fallback: (found: UpstreamMatch) => Promise<T> },
  ): Promise<T> {
    reply.header('troupe-route', route.name);
    try {
      return await answers.policy();
    } catch (error) {
      const found = route.fallback === null ? null : this.#options.upstreams.find(route.fallback);
      if (found === null || !isUnserved(error)) throw error;
      reply.header('troupe-route', `${route.name}; fallback`);
      return answers.fallback(asHosted(found, hostedWeights(route.fallback!).checkpoint_id));
    }
  }

  /** The model that a body names; for a model outside this project, its route and its server. */
  #placeOf({ sent: { value }, context }: Pick<HttpCall, 'sent' | 'context'>) {
    const { routes, upstreams } = this.#options;
    const model = isRecord(value) && typeof value.model === 'string' ? value.model : null;
    if (model === null || OWN.test(model)) return { model, route: null, found: null };
    return { model, route: routeOf(routes, model, context), found: upstreams.find(model) };
  }

  /** The server that answers for a policy in an episode of a gate whose incumbent is the model that its calls go to today. */
  async #hostedIn({ episode }: CallContext, route: Route | null, own: OwnModel | null): Promise<UpstreamMatch | null> {
    const policy = route?.policy ?? (own?.kind === 'policy' ? own.name : null);
    const checkpoint = policy === null ? null : await this.#options.bound(policy, episode);
    const model = checkpoint === null ? null : hostedModel(checkpoint);
    const found = model === null ? null : this.#options.upstreams.find(model);
    return found && asHosted(found, checkpoint!);
  }

  /** Answers a call of a replay from the record, and is null then; else the call as it goes on to a model. */
  async #replayed(kind: Kind, dialect: Dialect | null, call: HttpCall): Promise<HttpCall | null> {
    const { sent, context, reply } = call;
    if (context.episode === null || !MAY_REPLAY.test(context.episode) || !isRecord(sent.value)) return call;
    const read = await this.#readable(dialect, call);
    const bodyOf = dialect?.bodyOf ?? null;
    const taken = await this.#options.replays.take({ kind, body: sent.value, context, read, bodyOf });
    if (taken === null) return call;
    if (taken.by === 'model') {
      const bytes = taken.body === sent.value ? sent.bytes : Buffer.from(writtenJson(taken.body));
      return { ...call, sent: { value: taken.body, bytes }, context: taken.context };
    }
    const { body, ids, recorded } = taken;
    reply.headers({
      'troupe-call-id': ids.callId,
      'troupe-recorded': String(recorded),
      'troupe-replayed': 'true',
    });
    // The client gets no token ids that it did not ask for itself.
    const { found } = this.#placeOf(call);
    const added = found === null ? null : tokenFields(found.upstream, kind, sent.value);
    const shown = (added === null ? body : withoutAdded(body, added)) as typeof body;
    sendAnswer(reply, shown, read ?? plainRequest(kind, sent.value), dialect?.streamOf ?? null);
    return null;
  }

  /** The request as a policy reads it; null where none can. */
  async #readable(dialect: Dialect | null, { sent, context }: HttpCall): Promise<CompletionRequest | null> {
    try {
      return dialect && (await dialect.read(sent.value, this.#recall(context)));
    } catch {
      return null;
    }
  }

  #recall({ episode }: CallContext): Recall {
    return (id) => recall(this.#options.db, id, { ...this.#options, episode });
  }
}

/** A whole answer, as one body or as a stream. */
function sendAnswer(
  reply: FastifyReply,
  body: Parameters<StreamWriter['end']>[0],
  request: CompletionRequest,
  streamOf: StreamOf | null,
): void {
  if (request.stream === null || streamOf === null) reply.header('content-type', JSON_TYPE).send(writtenJson(body));
  else reply.headers(EVENT_STREAM).send(streamText(streamOf(body, request).end(body)));
}

/** What is recorded as the weights of its answers: the name that maps of weights have for the model. */
const asHosted = (found: UpstreamMatch, checkpoint_id: string): UpstreamMatch => {
  const { upstream, model } = found;
  return { ...found, upstream: { ...upstream, checkpoints: { ...upstream.checkpoints, [model]: checkpoint_id } } };
};

type PathContext = { readonly episode?: string; readonly agent?: string };
