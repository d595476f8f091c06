/**
 * A policy that a model server outside of Troupe serves, vLLM or SGLang: each checkpoint that it is to serve is announced to it, and it is
 * asked for tokens. Only tokens and their log-probabilities cross: template, tool calls and records are those of any other policy.
 *
 * Sources: vLLM, docs/features/lora.md (`/v1/load_lora_adapter`, with VLLM_ALLOW_RUNTIME_LORA_UPDATING) and its OpenAI-compatible server;
 * SGLang, docs/basic_usage/native_api (`/generate`, `/update_weights_from_disk`, `/load_lora_adapter`, `/get_model_info`).
 */
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { isAbsolute, join } from 'node:path';
import { json } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { got, TroupeError } from '../../../errors.ts';
import { asText, isRecord, type JsonObject } from '../../../ingest/events/json.ts';
import { MANIFEST } from '../../../trainer/model/checkpoints/checkpoint-format.ts';
import type { Sample, SampleRequest } from '../../../trainer/model/weights.ts';
import { seedOfSample } from '../../../trainer/sample/growing-sample.ts';
import type { LoadPolicy, ModelPlace, Speaker } from '../../../trainer/sample/infer-batches.ts';
import { connectUpstream } from './connection.ts';
import { keyHeaders, type Upstream } from './settings.ts';
import { isDrawn, tokensOf } from './token-ids.ts';

/** A request to the server; `answer` is null where its body is no JSON object. */
type AskServer = (
  method: 'GET' | 'POST',
  path: string,
  body?: JsonObject,
  signal?: AbortSignal,
) => Promise<{ readonly status: number; readonly answer: JsonObject | null }>;

/** How a server holds a checkpoint: the name that requests call it by, and the directory of the whole weights that have to be there. */
type ServedModel = {
  readonly name: string;
  readonly weights: string;
  /** Directory of the adapter over these weights; null where the checkpoint is the weights. */
  readonly adapter: string | null;
};

/** What a server has now. */
type State = {
  /** The name of its model without an adapter. */
  readonly name: string;
  /** The directory that its whole weights are from, or what it was started with. */
  readonly weights: string;
  /** Names of the adapters that it has. */
  readonly adapters: readonly string[];
};

/** What differs between servers. */
type Engine = {
  readonly state: (ask: AskServer) => Promise<State>;
  /** Puts other whole weights in the place of those that it has. */
  readonly replace: (ask: AskServer, dir: string) => Promise<void>;
  /** Paths that load and unload an adapter. */
  readonly adapters: readonly [load: string, unload: string];
  readonly path: string;
  readonly body: (held: ServedModel, request: SampleRequest) => JsonObject;
  /** The choices of an answer, each with what `tokensOf` reads. */
  readonly choices: (answer: unknown) => readonly JsonObject[];
};

/** How long a server may take to load weights and answer as healthy again. */
const LOADED_WITHIN_MS = 300_000;
const LOOK_MS = 200;

const refused = (what: string, { status, answer }: { readonly status: number; readonly answer: unknown }) =>
  new TroupeError('upstream_failed', `The model server did not ${what}: status ${status}, ${got(answer)}.`);

const modelsOf = async (ask: AskServer): Promise<readonly JsonObject[]> => {
  const { answer } = await ask('GET', '/v1/models');
  return Array.isArray(answer?.data) ? answer.data.filter(isRecord) : [];
};

/** What vLLM calls the weights that it was started with. */
const AT_START = 'default';

const vllm: Engine = {
  async state(ask) {
    const [models, { answer }] = await Promise.all([modelsOf(ask), ask('GET', '/weight_info')]);
    const base = models.find(({ parent }) => parent == null);
    if (base === undefined) throw new TroupeError('upstream_failed', 'The model server lists no model.');
    const version = answer?.weight_version ?? AT_START;
    return {
      name: asText(base.id),
      // Its list goes on naming what it was started with.
      weights: asText(version === AT_START ? base.root : version),
      adapters: models.filter(({ parent }) => parent != null).map(({ id }) => asText(id)),
    };
  },
  async replace(ask, dir) {
    const asked = async (what: string, path: string, body: JsonObject = {}): Promise<void> => {
      const found = await ask('POST', path, body);
      if (found.status >= 400) throw refused(what, found);
    };
    if ((await ask('GET', '/weight_info')).status === 404)
      throw new TroupeError(
        'model_unsupported',
        `vLLM should load the whole weights in ${dir}, which it does only if it was started with VLLM_SERVER_DEV_MODE=1. Without it, train with an adapter over the model that it was started with.`,
      );
    const { answer } = await ask('GET', '/server_info?config_format=json');
    const { device_config: place } = isRecord(answer?.vllm_config) ? answer.vllm_config : {};
    if (isRecord(place) && place.device === 'cpu' && (await isTied(dir)))
      throw new TroupeError(
        'model_unsupported',
        `vLLM on a processor reloads all of ${dir} but the output matrix, which this model ties to its embeddings, so it would answer by a mixture. Train an adapter over the model that it was started with, use a model made with --untied, or start it with this checkpoint.`,
      );
    await asked('wait for its requests', '/pause?mode=wait');
    try {
      // Should loading fail, half of the weights may be new: the version then says that they are nobody's.
      await asked('take a version', '/update_weight_version', { new_version: `loading ${dir}` });
      await asked(`load ${dir}`, '/collective_rpc', { method: 'reload_weights', kwargs: { weights_path: dir } });
      await asked('take a version', '/update_weight_version', { new_version: dir });
    } finally {
      await asked('go on', '/resume');
    }
  },
  adapters: ['/v1/load_lora_adapter', '/v1/unload_lora_adapter'],
  path: '/v1/completions',
  body: ({ name }, request) => ({
    model: name,
    prompt: request.promptIds,
    n: request.n,
    max_tokens: request.maxTokens,
    seed: request.seed,
    ...sampling(request),
    stop_token_ids: request.stopIds,
    logprobs: 0,
    return_token_ids: true,
  }),
  choices: (answer) => (isRecord(answer) && Array.isArray(answer.choices) ? answer.choices.filter(isRecord) : []),
};

/**
 * vLLM 0.32 keeps a packed copy of the output matrix on a processor, and its reload fills no copy of a tied one ("ParallelLMHead: Failed to load
 * weights"): after one step of training its log-probabilities were off by up to 0.14, against 5e-6 where the matrices are two.
 */
async function isTied(dir: string): Promise<boolean> {
  const config = await readFile(join(dir, 'config.json'), 'utf8').catch(() => '{}');
  return (JSON.parse(config) as JsonObject).tie_word_embeddings === true;
}

const sglang: Engine = {
  async state(ask) {
    const [models, { answer }] = await Promise.all([modelsOf(ask), ask('GET', '/get_model_info')]);
    return { name: '', weights: asText(answer?.model_path), adapters: models.map(({ id }) => asText(id)) };
  },
  async replace(ask, dir) {
    const loaded = await ask('POST', '/update_weights_from_disk', { model_path: dir });
    if (loaded.status >= 400 || loaded.answer?.success === false) throw refused(`load ${dir}`, loaded);
  },
  adapters: ['/load_lora_adapter', '/unload_lora_adapter'],
  path: '/generate',
  // One prompt for each sample: with `n` all would be drawn by one seed, which makes them the same where the server heeds seeds
  // (`--enable-deterministic-inference`).
  body: ({ name, adapter }, request) => ({
    input_ids: Array.from({ length: request.n }, () => request.promptIds),
    sampling_params: Array.from({ length: request.n }, (_, i) => ({
      max_new_tokens: request.maxTokens,
      sampling_seed: seedOfSample(request, i),
      ...sampling(request),
      stop_token_ids: request.stopIds,
    })),
    return_logprob: true,
    ...(adapter === null ? {} : { lora_path: name }),
  }),
  choices: (answer) =>
    (Array.isArray(answer) ? answer : [answer]).filter(isRecord).map((one) => {
      const finish = isRecord(one.meta_info) ? one.meta_info.finish_reason : null;
      return {
        token_ids: one.output_ids,
        meta_info: one.meta_info,
        finish_reason: isRecord(finish) ? finish.type : finish,
      };
    }),
};

const ENGINES = { vllm, sglang } as const;

/** Both servers take a top_k of -1 for none. What is left out they may take from the model's own defaults, penalties too. */
const sampling = ({ temperature, topK = 0, topP = 1, minP = 0 }: SampleRequest): JsonObject => ({
  temperature,
  top_k: topK === 0 ? -1 : topK,
  top_p: topP,
  min_p: minP,
  repetition_penalty: 1,
  presence_penalty: 0,
  frequency_penalty: 0,
});

/**
 * What loads and asks the policies of one server.
 * @param upstream with `token_ids`, which says what it is
 * @throws TroupeError `config_invalid` without it
 */
export function outsidePolicies(upstream: Upstream): LoadPolicy {
  const engine = upstream.tokenIds === null ? null : ENGINES[upstream.tokenIds];
  if (engine === null)
    throw new TroupeError(
      'config_invalid',
      `upstreams.${upstream.name}.token_ids should say whether the server is vllm or sglang, so that releases can be loaded into it.`,
      { field: `upstreams.${upstream.name}.token_ids` },
    );
  // Both have paths beside those of the OpenAI interface, from their root.
  const connection = connectUpstream({ ...upstream, baseUrl: upstream.baseUrl.replace(/\/v1$/, '') });
  const ask: AskServer = async (method, path, body, signal) => {
    const headers = { 'content-type': 'application/json', accept: 'application/json', ...keyHeaders(upstream) };
    const answer = await connection
      .send({
        method,
        path,
        headers,
        ...(body === undefined ? {} : { body: Buffer.from(JSON.stringify(body)) }),
        ...(signal === undefined ? {} : { signal }),
      })
      .catch((error: TroupeError) => {
        // So that another process, or the fallback of a route, answers in the place of a server that is gone.
        throw error.code === 'upstream_failed'
          ? new TroupeError('unreachable', error.message, { cause: error })
          : error;
      });
    const value: unknown = await json(answer).catch(() => null);
    return { status: answer.statusCode!, answer: value as JsonObject | null };
  };
  const server = serverOf(upstream, engine, ask);
  return async (_config, _weights, { model }) => speakerOf(server, upstream, model);
}

/** A server as all speakers of this process share it. */
type Server = ReturnType<typeof serverOf>;

function serverOf({ name, policies, checkpoints }: Upstream, engine: Engine, ask: AskServer) {
  const turns = inTurns(async (weights) => {
    if ((await engine.state(ask)).weights === weights) return;
    if (Object.keys(checkpoints).length > 0)
      throw new TroupeError(
        'config_invalid',
        `upstreams.${name}.checkpoints says which checkpoint a model of the server is, but whole weights of ${policies.join(' and ')} would take its place. Leave checkpoints out, or train adapters over the model that it was started with.`,
        { field: `upstreams.${name}.checkpoints` },
      );
    if (policies.length > 1)
      throw new TroupeError(
        'model_unsupported',
        `The model server ${name} has one set of whole weights, but upstreams.${name}.policies names ${policies.join(' and ')}. Train adapters over the model that it was started with, or give each policy a server.`,
        { field: `upstreams.${name}.policies` },
      );
    await engine.replace(ask, weights);
  });
  /** How many speakers use an adapter: one that is played with may be released while it is. */
  const users = new Map<string, number>();

  const heldAs = async ({ id, dir }: ModelPlace): Promise<ServedModel> => {
    const { name, weights } = await engine.state(ask);
    const adapter = await adapterOver(dir, weights);
    return adapter === null ? { name, weights: dir, adapter } : { name: id, weights, adapter };
  };
  const has = async ({ name, weights, adapter }: ServedModel): Promise<boolean> => {
    const now = await engine.state(ask);
    return now.weights === weights && (adapter === null || now.adapters.includes(name));
  };
  /** Loads what it has not, waits until it is healthy, and asks whether it serves it. Within a turn of the weights. */
  const bring = async (held: ServedModel): Promise<void> => {
    const until = performance.now() + LOADED_WITHIN_MS;
    const { name, weights, adapter } = held;
    if (adapter !== null && !(await has(held))) {
      const loaded = await ask('POST', engine.adapters[0], { lora_name: name, lora_path: adapter });
      if (loaded.status >= 400 || loaded.answer?.success === false) throw refused(`load ${adapter}`, loaded);
    }
    for (;;) {
      const { status } = await ask('GET', '/health');
      if (status === 200 && (await has(held))) return;
      if (performance.now() > until)
        throw new TroupeError(
          'upstream_timeout',
          `The model server should serve ${adapter ?? weights}, which it was asked to load, but after ${LOADED_WITHIN_MS / 1000} s it does not; /health has status ${status}.`,
        );
      await sleep(LOOK_MS);
    }
  };

  return {
    /** Loads a checkpoint; it stays until as many have let it go. */
    async take(place: ModelPlace): Promise<ServedModel> {
      const held = await heldAs(place);
      await turns.use(held.weights, () => bring(held));
      if (held.adapter !== null) users.set(held.name, (users.get(held.name) ?? 0) + 1);
      return held;
    },
    async leave({ name, adapter }: ServedModel): Promise<void> {
      if (adapter === null) return;
      users.set(name, users.get(name)! - 1);
      if (users.get(name) === 0) await ask('POST', engine.adapters[1], { lora_name: name }).catch(() => {});
    },
    /** The choices of a request, by these weights alone: an answer is taken only if the server has them after it too. */
    async generate(
      held: ServedModel,
      request: SampleRequest,
      signal: AbortSignal | undefined,
    ): Promise<readonly JsonObject[]> {
      for (let attempt = 1; ; attempt++) {
        const { found, isTheirs } = await turns.use(held.weights, async () => {
          if (attempt > 1) await bring(held);
          const found = await ask('POST', engine.path, engine.body(held, request), signal);
          const isTheirs = found.status < 400 && held.adapter !== null ? true : await has(held);
          return { found, isTheirs };
        });
        const choices = engine.choices(found.answer);
        if (isTheirs && found.status < 400 && choices.length === request.n) return choices;
        if (isTheirs || attempt === 2) throw refused('generate', found);
        // It was restarted: it has what it was started with.
        turns.forget();
      }
    },
  };
}

/**
 * The adapter that training published beside a checkpoint, as PEFT reads it; null where there is none over these weights. An adapter over others
 * would give another model.
 */
async function adapterOver(dir: string, weights: string): Promise<string | null> {
  const adapter = `${dir}-adapter`;
  const config = await readFile(join(adapter, 'adapter_config.json'), 'utf8').catch(() => null);
  const base = config === null ? null : (JSON.parse(config) as JsonObject).base_model_name_or_path;
  if (typeof base !== 'string') return null;
  if (base === weights) return adapter;
  // A name at a hub stands for any copy of it, which is not what training wrote.
  return !isAbsolute(weights) && !existsSync(join(base, MANIFEST)) ? adapter : null;
}

/**
 * Who needs the same whole weights of a server uses it together; who needs others waits until these have ended, and then has them brought.
 * First come, first served.
 */
function inTurns(bring: (weights: string) => Promise<void>) {
  let there: string | null = null;
  let using = 0;
  let isIdle = (): void => {};
  let entering: Promise<unknown> = Promise.resolve();
  return {
    async use<T>(weights: string, work: () => Promise<T>): Promise<T> {
      const entered = entering.then(async () => {
        if (there !== weights) {
          while (using > 0)
            await new Promise<void>((resolve) => {
              isIdle = resolve;
            });
          there = null;
          await bring(weights);
          there = weights;
        }
        using++;
      });
      entering = entered.catch(() => {});
      await entered;
      try {
        return await work();
      } finally {
        using--;
        if (using === 0) isIdle();
      }
    },
    forget(): void {
      there = null;
    },
  };
}

async function speakerOf(server: Server, upstream: Upstream, first: ModelPlace): Promise<Speaker> {
  let held = await server.take(first);
  const samplesOnly = async (): Promise<never> => {
    throw new TroupeError(
      'input_refused',
      `The model server ${upstream.name} can only sample: it computes no values and no log-probabilities of given texts.`,
    );
  };
  return {
    sample: async (requests, { signal } = {}) => {
      for (const request of requests) requireServable(request, upstream);
      const now = held;
      return Promise.all(
        requests.map(async (request) =>
          (await server.generate(now, request, signal)).map((choice, i) => sampleOf(choice, request, i)),
        ),
      );
    },
    logprobs: samplesOnly,
    values: samplesOnly,
    async setWeights(_weights, model) {
      const before = held;
      held = await server.take(model);
      await server.leave(before);
    },
    close: () => server.leave(held),
  };
}

/** @throws TroupeError `input_refused` for what the server would answer otherwise than the sampling process does */
function requireServable(request: SampleRequest, upstream: Upstream): void {
  const { temperature, constraint, topLogprobs = 0, rawLogprobs } = request;
  const no = (what: string) =>
    new TroupeError('input_refused', `The model server ${upstream.name} cannot be asked for ${what}.`);
  if (constraint !== undefined) throw no('constrained samples');
  if (topLogprobs > 0) throw no('the most probable tokens');
  const plain = isDrawn({ tokenIds: upstream.tokenIds, logprobs: 'raw' }, sampling(request));
  if (rawLogprobs && !plain) throw no('log-probabilities before temperature and filters beside those after them');
  if (temperature === 0 || isDrawn(upstream, sampling(request))) return;
  throw new TroupeError(
    'input_refused',
    `The model server ${upstream.name} returns log-probabilities that are not those of what it draws. Ask with temperature 1, top_p 1 and no top_k, or start it so that it returns those after temperature and filters, which vLLM can, and set logprobs: processed.`,
  );
}

/** What a request has to be was checked before. */
const AS_DRAWN = { upstream: { tokenIds: 'vllm', logprobs: 'processed' }, request: {}, response: null } as const;

/** The tokens of a choice, up to where the request ends it. @throws TroupeError `upstream_failed` where ids and log-probabilities do not fit together */
function sampleOf(choice: JsonObject, { ended, drew, rawLogprobs }: SampleRequest, at = 0): Sample {
  const { token_ids: ids, logprobs } = tokensOf(choice, AS_DRAWN) as {
    readonly token_ids?: readonly number[];
    readonly logprobs?: readonly number[];
  };
  if (ids === undefined || (logprobs === undefined && ids.length > 0))
    throw new TroupeError('upstream_failed', 'The model server answered without ids and log-probabilities of tokens.');
  const cut = ended === undefined ? -1 : ids.findIndex((_, i) => ended(ids.slice(0, i + 1)));
  const length = cut < 0 ? ids.length : cut + 1;
  const values = (logprobs ?? []).slice(0, length);
  for (let i = 1; i <= length; i++) drew?.(at, ids.slice(0, i));
  return {
    tokenIds: ids.slice(0, length),
    logprobs: values,
    finish: cut < 0 && choice.finish_reason === 'length' ? 'length' : 'stop',
    ...(rawLogprobs ? { rawLogprobs: values } : {}),
  };
}
