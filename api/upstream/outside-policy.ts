/**
 * A policy that a model server outside of Troupe serves, vLLM or SGLang: told of every checkpoint that the sampling process is to speak with,
 * and asked for tokens. Only tokens and their log-probabilities cross: template, tool calls and records are those of any other policy.
 *
 * Sources: vLLM, docs/features/lora.md (`/v1/load_lora_adapter`, with VLLM_ALLOW_RUNTIME_LORA_UPDATING) and its OpenAI-compatible server;
 * SGLang, docs/basic_usage/native_api (`/generate`, `/update_weights_from_disk`, `/load_lora_adapter`, `/get_model_info`).
 */
import { stat } from 'node:fs/promises';
import { json } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { got, TroupeError } from '../../errors.ts';
import { isRecord } from '../../ingest/json.ts';
import type { Sample, SampleRequest } from '../../trainer/models/weights.ts';
import type { LoadPolicy, ModelPlace, Speaker } from '../../trainer/sampling/infer-batches.ts';
import { connectUpstream } from './connection.ts';
import { keyHeaders, type Upstream } from './settings.ts';
import { isDrawn, tokensOf } from './token-ids.ts';

type Fields = Readonly<Record<string, unknown>>;
/** A request to the server; `answer` is null where its body is no JSON object. */
type Ask = (
  method: 'GET' | 'POST',
  path: string,
  body?: Fields,
  signal?: AbortSignal,
) => Promise<{ readonly status: number; readonly answer: Fields | null }>;

/** What differs between servers. A name is what a request calls the loaded weights. */
type Engine = {
  /** Has the server load a checkpoint where it has not, and returns its name. */
  readonly load: (ask: Ask, place: ModelPlace) => Promise<string>;
  readonly unload: (ask: Ask, name: string) => Promise<void>;
  /** Whether it has these weights under the name now. */
  readonly has: (ask: Ask, name: string, place: ModelPlace) => Promise<boolean>;
  readonly path: string;
  readonly body: (name: string, request: SampleRequest) => Fields;
  /** The choices of an answer, each with what `tokensOf` reads. */
  readonly choices: (answer: unknown) => readonly Fields[];
};

/** How long a server may take to load weights and answer as healthy again. */
const LOADED_WITHIN_MS = 300_000;
const LOOK_MS = 200;

/** The adapter that training published beside a checkpoint, as PEFT reads it; null where whole weights were trained. */
async function adapterOf({ dir }: ModelPlace): Promise<string | null> {
  const beside = `${dir}-adapter`;
  return (await stat(beside).catch(() => null)) === null ? null : beside;
}

const refused = (what: string, { status, answer }: { readonly status: number; readonly answer: unknown }) =>
  new TroupeError('upstream_failed', `The model server did not ${what}: status ${status}, ${got(answer)}.`);

const vllm: Engine = {
  async load(ask, place) {
    const known = await vllmName(ask, place);
    if (known !== null) return known;
    const adapter = await adapterOf(place);
    if (adapter === null)
      throw new TroupeError(
        'model_unsupported',
        `vLLM loads adapters while it runs, and ${place.dir} has none beside it. Train with an adapter, start vLLM with this model, or use SGLang.`,
      );
    const loaded = await ask('POST', '/v1/load_lora_adapter', { lora_name: place.id, lora_path: adapter });
    if (loaded.status >= 400) throw refused(`load ${adapter}`, loaded);
    return place.id;
  },
  async unload(ask, name) {
    await ask('POST', '/v1/unload_lora_adapter', { lora_name: name });
  },
  has: async (ask, name, place) => (await vllmName(ask, place)) === name,
  path: '/v1/completions',
  body: (name, request) => ({
    ...{ model: name, prompt: request.promptIds, n: request.n, max_tokens: request.maxTokens, seed: request.seed },
    ...{ ...sampling(request), stop_token_ids: request.stopIds, logprobs: 0, return_token_ids: true },
  }),
  choices: (answer) => (isRecord(answer) && Array.isArray(answer.choices) ? answer.choices.filter(isRecord) : []),
};

/** The name under which vLLM lists these weights: the id of the checkpoint, or a model that was started from the directory. */
async function vllmName(ask: Ask, { id, dir }: ModelPlace): Promise<string | null> {
  const { answer } = await ask('GET', '/v1/models');
  const models = Array.isArray(answer?.data) ? answer.data.filter(isRecord) : [];
  const found = models.find((model) => model.id === id) ?? models.find(({ root }) => root === dir);
  return found === undefined ? null : String(found.id);
}

const sglang: Engine = {
  async load(ask, place) {
    const adapter = await adapterOf(place);
    if (await sglang.has(ask, adapter === null ? '' : place.id, place)) return adapter === null ? '' : place.id;
    const loaded =
      adapter === null
        ? await ask('POST', '/update_weights_from_disk', { model_path: place.dir })
        : await ask('POST', '/load_lora_adapter', { lora_name: place.id, lora_path: adapter });
    if (loaded.status >= 400 || loaded.answer?.success === false) throw refused(`load ${adapter ?? place.dir}`, loaded);
    return adapter === null ? '' : place.id;
  },
  async unload(ask, name) {
    if (name !== '') await ask('POST', '/unload_lora_adapter', { lora_name: name });
  },
  /** Whole weights have no name: the server says from which directory it has them. */
  async has(ask, name, { dir }) {
    if (name === '') return (await ask('GET', '/get_model_info')).answer?.model_path === dir;
    const { answer } = await ask('GET', '/v1/models');
    const models = Array.isArray(answer?.data) ? answer.data.filter(isRecord) : [];
    return models.some(({ id }) => id === name);
  },
  path: '/generate',
  body: (name, request) => ({
    input_ids: request.promptIds,
    sampling_params: {
      ...{ n: request.n, max_new_tokens: request.maxTokens, sampling_seed: request.seed },
      ...{ ...sampling(request), stop_token_ids: request.stopIds },
    },
    return_logprob: true,
    ...(name === '' ? {} : { lora_path: name }),
  }),
  choices: (answer) =>
    (Array.isArray(answer) ? answer : [answer]).filter(isRecord).map((one) => {
      const finish = isRecord(one.meta_info) ? one.meta_info.finish_reason : null;
      return {
        ...{ token_ids: one.output_ids, meta_info: one.meta_info },
        finish_reason: isRecord(finish) ? finish.type : finish,
      };
    }),
};

const ENGINES = { vllm, sglang } as const;

/** Both servers take a top_k of -1 for none. */
const sampling = ({ temperature, topK = 0, topP = 1, minP = 0 }: SampleRequest): Fields => ({
  ...{ temperature, top_k: topK === 0 ? -1 : topK, top_p: topP, min_p: minP },
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
  const ask: Ask = async (method, path, body, signal) => {
    const headers = { 'content-type': 'application/json', accept: 'application/json', ...keyHeaders(upstream) };
    const answer = await connection.send({
      ...{ method, path, headers },
      ...(body === undefined ? {} : { body: Buffer.from(JSON.stringify(body)) }),
      ...(signal === undefined ? {} : { signal }),
    });
    const value: unknown = await json(answer).catch(() => null);
    return { status: answer.statusCode!, answer: value as Fields | null };
  };
  return async (_config, _weights, { model }) => speakerOf(engine, ask, upstream, model);
}

async function speakerOf(engine: Engine, ask: Ask, upstream: Upstream, first: ModelPlace): Promise<Speaker> {
  let place = first;
  let name = await loaded(engine, ask, place);
  /** Loads what the server has lost, as after its restart. Requests that find that out at once wait for one load. */
  let again: Promise<void> | null = null;
  const reload = (): Promise<void> => {
    again ??= loaded(engine, ask, place)
      .then((now) => {
        name = now;
      })
      .finally(() => {
        again = null;
      });
    return again;
  };
  const generate = async (request: SampleRequest, signal: AbortSignal | undefined, retry = true): Promise<Sample[]> => {
    const body = engine.body(name, request);
    const found = await ask('POST', engine.path, body, signal);
    const choices = engine.choices(found.answer);
    if (found.status < 400 && choices.length === request.n)
      return choices.map((choice, i) => sampleOf(choice, request, i));
    if (retry && found.status >= 400 && !(await engine.has(ask, name, place))) {
      await reload();
      return generate(request, signal, false);
    }
    throw refused('generate', found);
  };
  const samplesOnly = async (): Promise<never> => {
    throw new TroupeError(
      'input_refused',
      `The model server ${upstream.name} can only sample: it computes no values and no log-probabilities of given texts.`,
    );
  };
  return {
    sample: async (requests, { signal } = {}) => {
      for (const request of requests) requireServable(request, upstream);
      return Promise.all(requests.map((request) => generate(request, signal)));
    },
    logprobs: samplesOnly,
    values: samplesOnly,
    async setWeights(_weights, model) {
      const before = name;
      name = await loaded(engine, ask, model);
      place = model;
      if (before !== name) await engine.unload(ask, before).catch(() => {});
    },
    close: () => engine.unload(ask, name).catch(() => {}),
  };
}

/** Loads the weights, waits until the server is healthy, and asks whether it serves them. */
async function loaded(engine: Engine, ask: Ask, place: ModelPlace): Promise<string> {
  const until = performance.now() + LOADED_WITHIN_MS;
  const name = await engine.load(ask, place);
  for (;;) {
    const { status } = await ask('GET', '/health');
    if (status === 200 && (await engine.has(ask, name, place))) return name;
    if (performance.now() > until)
      throw new TroupeError(
        'upstream_timeout',
        `The model server should serve ${place.id}, which it was asked to load, but after ${LOADED_WITHIN_MS / 1000} s it does not; /health has status ${status}.`,
      );
    await sleep(LOOK_MS);
  }
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
function sampleOf(choice: Fields, { ended, drew, rawLogprobs }: SampleRequest, at = 0): Sample {
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
