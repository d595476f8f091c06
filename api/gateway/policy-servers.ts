/**
 * The sampling processes that serve the project's models. Each registers in the database under its policy. They are looked up and
 * connected to once, and looked up again when a connection fails.
 */
import { type ErrorCode, got, TroupeError } from '../../errors.ts';
import type { Db } from '../../store/db/pool.ts';
import { query, scalarOf, sql } from '../../store/db/query.ts';
import { givenTo } from '../../store/loop/release/releases.ts';
import { servingNow } from '../../trainer/loop/release/serving.ts';
import type { InferClient } from '../../trainer/sample/infer-client.ts';
import type { OnPart, PromptAnswer, PromptAsk, SampleAnswer, SampleAsk } from '../../trainer/sample/infer-wire.ts';
import { modelOfCheckpoint } from '../../trainer/sample/infer-wire.ts';

/** A model of this project, as requests name it: the current weights of a policy, or one checkpoint. */
export type OwnModel = { readonly kind: 'policy' | 'checkpoint'; readonly name: string };

export type PolicyServers = {
  /**
   * Samples of one request. Throws `not_found` for an unknown name, `unreachable` if no process serves it now, and `interrupted`
   * once `signal` is aborted; the process then stops sampling for it.
   */
  readonly sample: (
    who: OwnModel,
    ask: SampleAsk,
    options?: { readonly signal?: AbortSignal; readonly onPart?: OnPart },
  ) => Promise<SampleAnswer>;
  /** Token ids of a prompt, after the chat template. Throws `not_found` and `unreachable` as `sample` does. */
  readonly prompt: (who: OwnModel, ask: PromptAsk) => Promise<PromptAnswer>;
  /** Names that are served now, such as `policy:solver`, sorted. */
  readonly models: () => Promise<readonly string[]>;
};

export type SamplingClient = Pick<InferClient, 'sample' | 'prompt' | 'status' | 'close'>;

/** How long a look-up is cached. A process that has stopped is noticed at once: its connection fails. */
const CACHED_MS = 1000;
/** A process that could not be reached is asked after the others for so long: on another machine it may take seconds to notice. */
const AVOIDED_MS = 5000;
/** What one process answers and another one need not: it is gone, it stops, or it has enough to do. */
const ELSEWHERE: readonly ErrorCode[] = ['unreachable', 'interrupted', 'busy'];

export function registeredPolicyServers(
  db: Pick<Db, 'query'>,
  connect: (address: string) => SamplingClient,
): PolicyServers & { readonly close: () => void } {
  const processes = new SamplingProcesses(db, connect);
  const answered = async <T>(who: OwnModel, ask: AskOne<T>, signal?: AbortSignal): Promise<T> => {
    // A seeded request can be repeated without harm, so one that was cut off is sent once more.
    const first = await processes.attempt(who, ask, { signal, fresh: false });
    const { answer, error = null } =
      first.answer === undefined ? await processes.attempt(who, ask, { signal, fresh: true }) : first;
    if (answer !== undefined) return answer;
    if (error?.code === 'busy') throw error;
    throw await unserved(db, who, await processes.models(), error);
  };
  return {
    models: () => processes.models(),
    sample: (who, ask, { signal, onPart } = {}) => {
      if (!onPart)
        return answered(who, (client, model) => client.sample({ ...ask, model }, signal ? { signal } : {}), signal);
      const given = givenText(onPart);
      const ofOneVersion = async (client: SamplingClient, model: string): Promise<SampleAnswer> => {
        const other = new AbortController();
        const take: OnPart = (part, begun) => (given.isOf(begun) ? given.take(part, begun) : other.abort());
        const either = signal ? AbortSignal.any([signal, other.signal]) : other.signal;
        const answer = client.sample({ ...ask, model }, { signal: either, onPart: take });
        const sampled = await answer.catch((error: unknown) => {
          throw other.signal.aborted && !signal?.aborted ? otherVersion() : error;
        });
        if (given.isOf(sampled)) return sampled;
        throw otherVersion();
      };
      return answered(who, ofOneVersion, signal);
    },
    prompt: (who, ask) => answered(who, (client, model) => client.prompt({ ...ask, model })),
    close: () => processes.forget(new Set()),
  };
}

type AskOne<T> = (client: SamplingClient, model: string) => Promise<T>;

/** The registered processes, with a connection to each that has been asked. */
class SamplingProcesses {
  readonly #db: Pick<Db, 'query'>;
  readonly #connect: (address: string) => SamplingClient;
  readonly #clients = new Map<string, SamplingClient>();
  /** Models that are named by their checkpoint, which are never replaced by another: who asks them again needs no status first. */
  readonly #lasting = new WeakMap<SamplingClient, Map<string, string>>();
  /** Requests under way at each address, and until when an address comes last. */
  readonly #underWay = new Map<string, number>();
  readonly #avoided = new Map<string, number>();
  #known: { readonly at: number; readonly processes: ReturnType<typeof lookUp> } | null = null;

  constructor(db: Pick<Db, 'query'>, connect: (address: string) => SamplingClient) {
    this.#db = db;
    this.#connect = connect;
  }

  /** Tries each process that may serve the name; without an answer if none can, with the error of the first. */
  async attempt<T>(
    who: OwnModel,
    ask: AskOne<T>,
    { signal, fresh }: { readonly signal: AbortSignal | undefined; readonly fresh: boolean },
  ): Promise<{ readonly answer?: T; readonly error?: TroupeError | null }> {
    let error: TroupeError | null = null;
    for (const { policy, address } of this.#inOrder(await this.#processes(fresh))) {
      if (who.kind === 'policy' && policy !== who.name) continue;
      let client: SamplingClient | undefined;
      let remembered: string | undefined;
      this.#underWay.set(address, (this.#underWay.get(address) ?? 0) + 1);
      try {
        client = this.#clientAt(address);
        remembered = who.kind === 'policy' ? undefined : this.#lasting.get(client)?.get(who.name);
        const model = who.kind === 'policy' ? policy : (remembered ?? (await this.#modelWith(client, who.name)));
        if (model === null) continue;
        const answer = await ask(client, model);
        this.#avoided.delete(address);
        return { answer };
      } catch (failed) {
        if (!(failed instanceof TroupeError)) throw failed;
        // Of many requests at once each finds that the name is gone, and looks again; the first takes it away.
        const gone = failed.code === 'not_found' && remembered !== undefined;
        const names = this.#lasting.get(client!);
        if (gone && names?.get(who.name) === remembered) names!.delete(who.name);
        if (signal?.aborted || (!ELSEWHERE.includes(failed.code) && !gone)) throw failed;
        if (failed.code === 'unreachable') this.#avoided.set(address, performance.now() + AVOIDED_MS);
        error ??= failed;
      } finally {
        this.#underWay.set(address, this.#underWay.get(address)! - 1);
      }
    }
    return { error };
  }

  async models(): Promise<readonly string[]> {
    const names = new Set<string>();
    for (const { policy, address } of await this.#processes(false)) {
      const status = await this.#statusAt(address).catch(() => null);
      if (!status) continue;
      names.add(`policy:${policy}`);
      for (const { checkpoint } of status.models) names.add(`checkpoint:${checkpoint}`);
    }
    return [...names].sort();
  }

  forget(alive: ReadonlySet<string>): void {
    for (const [address, client] of this.#clients) {
      if (alive.has(address)) continue;
      this.#clients.delete(address);
      client.close();
    }
  }

  #processes(fresh: boolean): ReturnType<typeof lookUp> {
    const now = performance.now();
    if (this.#known && !fresh && now - this.#known.at < CACHED_MS) return this.#known.processes;
    const processes = lookUp(this.#db);
    this.#known = { at: now, processes };
    processes.then(
      (list) => this.forget(new Set(list.map(({ address }) => address))),
      () => {
        this.#known = null;
      },
    );
    return processes;
  }

  #clientAt(address: string): SamplingClient {
    let client = this.#clients.get(address);
    if (!client) {
      client = this.#connect(address);
      this.#clients.set(address, client);
    }
    return client;
  }

  async #statusAt(address: string) {
    return this.#clientAt(address).status();
  }

  /** Those that serve what is released come first, then those with the fewest requests of this gateway, the newest first among equals. */
  #inOrder(list: Awaited<ReturnType<typeof lookUp>>) {
    const now = performance.now();
    const ranked = list.map((process) => ({
      process,
      late: (this.#avoided.get(process.address) ?? 0) > now ? 1 : 0,
      other: process.released ? 0 : 1,
      requests: this.#underWay.get(process.address) ?? 0,
    }));
    ranked.sort((a, b) => a.late - b.late || a.other - b.other || a.requests - b.requests);
    return ranked.map(({ process }) => process);
  }

  async #modelWith(client: SamplingClient, checkpoint: string): Promise<string | null> {
    const { models } = await client.status();
    const found = models.filter((model) => model.checkpoint === checkpoint).map(({ name }) => name);
    const own = found.find((name) => name === modelOfCheckpoint(checkpoint));
    if (own !== undefined) this.#lasting.set(client, (this.#lasting.get(client) ?? new Map()).set(checkpoint, own));
    return own ?? found[0] ?? null;
  }
}

/** Text of one answer: left out where it was given before, for a request that was cut off is sent once more; and of one version of the weights. */
function givenText(onPart: OnPart): {
  readonly take: OnPart;
  readonly isOf: (begun: Pick<SampleAnswer, 'checkpoint'>) => boolean;
} {
  const given = new Map<number, number>();
  let checkpoint: string | null = null;
  return {
    isOf: (begun) => checkpoint === null || checkpoint === begun.checkpoint,
    take: (part, begun) => {
      checkpoint = begun.checkpoint;
      const end = given.get(part.choice) ?? 0;
      if (part.at + part.text.length <= end) return;
      given.set(part.choice, part.at + part.text.length);
      onPart({ choice: part.choice, at: end, text: part.text.slice(end - part.at) }, begun);
    },
  };
}

/** Another process could still go on. */
const otherVersion = (): TroupeError =>
  new TroupeError('interrupted', 'The process that began the answer is gone, and another one has other weights.');

async function lookUp(db: Pick<Db, 'query'>) {
  return (await servingNow(db)).flatMap(({ policy, address, checkpoint, released }) =>
    address === null ? [] : [{ policy, address, released: checkpoint !== null && checkpoint === released }],
  );
}

/** The error for a name that no process serves: `unreachable` if the name is known, otherwise `not_found`. */
async function unserved(
  db: Pick<Db, 'query'>,
  { kind, name }: OwnModel,
  models: readonly string[],
  last: TroupeError | null,
): Promise<TroupeError> {
  const one = sql.lit(1).as('one');
  const checkpoints = query.selectFrom('facts.checkpoints').select(one);
  const places =
    kind === 'checkpoint'
      ? [checkpoints.where('checkpoint_id', '=', name)]
      : [
          query.selectFrom('troupe.processes').select(one).where('role', '=', 'infer').where('policy', '=', name),
          checkpoints.where('policy', '=', name),
          query.selectFrom('traj.releases').select(one).where('policy', '=', name),
        ];
  const known = await scalarOf(
    db,
    sql<boolean>`${sql.join(
      places.map((rows) => sql`exists (${rows})`),
      sql` or `,
    )}`,
  );
  const answered = models.length === 0 ? 'none' : models.join(', ');
  const who = `${kind}:${name}`;
  // Its process runs, and what it asks does not.
  if (last !== null && models.includes(who))
    return new TroupeError('unreachable', `${who} cannot be answered now. ${last.message}`, {
      field: 'model',
      got: who,
    });
  if (known) {
    const given = kind === 'policy' ? await givenTo(db, name) : null;
    const hint =
      given?.directory === null
        ? `The last release gives ${name} to ${given.checkpoint_id}, which answers calls of its route only.`
        : kind === 'policy'
          ? `Start it with: troupe run infer --policy ${name}`
          : 'Start a policy with it: troupe run infer --policy NAME --model DIR';
    return new TroupeError('unreachable', `No process serves ${who} now.`, {
      field: 'model',
      got: who,
      expected: answered,
      hint: last === null ? hint : `${last.message} ${hint}`,
    });
  }
  return unknownModel(who, models);
}

/** What models of this project are called by; any other name is one of a model server. */
export const OWN = /^(?:policy|checkpoint):/;

/** The error for an unknown model name. It lists the models that are served now. */
export const unknownModel = (model: unknown, models: readonly string[]): TroupeError => {
  const names = models.length === 0 ? 'none' : models.join(', ');
  return new TroupeError('not_found', `There is no model ${got(model)}; served now: ${names}.`, {
    field: 'model',
    expected: models.length === 0 ? 'policy:NAME or checkpoint:ID' : names,
    got: got(model),
    hint:
      typeof model === 'string' && !OWN.test(model)
        ? 'Calls are passed on to the models that troupe.yaml lists under upstreams where `troupe up` is started.'
        : 'A policy is served while its process runs: troupe run infer --policy NAME.',
  });
};
