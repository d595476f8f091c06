/**
 * The sampling processes that serve the project's models. Each registers in the database under its policy. They are looked up and
 * connected to once, and looked up again when a connection fails.
 */
import { got, TroupeError } from '../errors.ts';
import type { Db } from '../store/db/pool.ts';
import { type NotNull, query, rowsOf, scalarOf, sql } from '../store/db/query.ts';
import type { InferClient } from '../trainer/sampling/infer-client.ts';
import type { OnPart, PromptAnswer, PromptAsk, SampleAnswer, SampleAsk } from '../trainer/sampling/infer-wire.ts';
import { modelOfCheckpoint } from '../trainer/sampling/infer-wire.ts';

/** A model of this project, as requests name it: the current weights of a policy, or one checkpoint. */
export type OwnModel = { readonly kind: 'policy' | 'checkpoint'; readonly name: string };

export type SampleOptions = { readonly signal?: AbortSignal; readonly onPart?: OnPart };

export type PolicyServers = {
  /**
   * Samples of one request. Throws `not_found` for an unknown name, `unreachable` if no process serves it now, and `interrupted`
   * once `signal` is aborted; the process then stops sampling for it.
   */
  readonly sample: (who: OwnModel, ask: SampleAsk, options?: SampleOptions) => Promise<SampleAnswer>;
  /** Token ids of a prompt, after the chat template. Throws `not_found` and `unreachable` as `sample` does. */
  readonly prompt: (who: OwnModel, ask: PromptAsk) => Promise<PromptAnswer>;
  /** Names that are served now, such as `policy:solver`, sorted. */
  readonly models: () => Promise<readonly string[]>;
};

export type SamplingClient = Pick<InferClient, 'sample' | 'prompt' | 'status' | 'close'>;

type Registered = { readonly policy: string; readonly address: string };

/** A process whose last heartbeat is older than this is skipped. */
const HEARTBEAT = '15 seconds';
/** How long a look-up is cached. A process that has stopped is noticed at once: its connection fails. */
const CACHED_MS = 1000;

export function registeredPolicyServers(
  db: Pick<Db, 'query'>,
  connect: (address: string) => SamplingClient,
): PolicyServers & { readonly close: () => void } {
  const clients = new Map<string, SamplingClient>();
  /** Models that are named by their checkpoint, which are never replaced by another: who asks them again needs no status first. */
  const lasting = new WeakMap<SamplingClient, Map<string, string>>();
  let known: { readonly at: number; readonly processes: Promise<readonly Registered[]> } | null = null;

  const processes = (fresh: boolean): Promise<readonly Registered[]> => {
    const now = performance.now();
    if (known && !fresh && now - known.at < CACHED_MS) return known.processes;
    const asked = lookUp(db);
    known = { at: now, processes: asked };
    asked.then(
      (list) => forget(new Set(list.map(({ address }) => address))),
      () => {
        known = null;
      },
    );
    return asked;
  };

  const forget = (alive: ReadonlySet<string>): void => {
    for (const [address, client] of clients) {
      if (alive.has(address)) continue;
      clients.delete(address);
      client.close();
    }
  };

  const clientAt = (address: string): SamplingClient => {
    let client = clients.get(address);
    if (!client) {
      client = connect(address);
      clients.set(address, client);
    }
    return client;
  };

  /** Tries each process that may serve the name, the newest first; undefined if none can be reached. */
  const attempt = async <T>(
    who: OwnModel,
    ask: (client: SamplingClient, model: string) => Promise<T>,
    fresh: boolean,
  ): Promise<T | undefined> => {
    for (const { policy, address } of await processes(fresh)) {
      if (who.kind === 'policy' && policy !== who.name) continue;
      let client: SamplingClient | undefined;
      try {
        client = clientAt(address);
        const model =
          who.kind === 'policy' ? policy : (lasting.get(client)?.get(who.name) ?? (await modelWith(client, who.name)));
        if (model !== null) return await ask(client, model);
      } catch (error) {
        if (!(error instanceof TroupeError)) throw error;
        const gone =
          error.code === 'not_found' && client !== undefined && lasting.get(client)?.delete(who.name) === true;
        if (error.code !== 'unreachable' && !gone) throw error;
      }
    }
    return undefined;
  };

  const modelWith = async (client: SamplingClient, checkpoint: string): Promise<string | null> => {
    const { models } = await client.status();
    const found = models.filter((model) => model.checkpoint === checkpoint).map(({ name }) => name);
    const own = found.find((name) => name === modelOfCheckpoint(checkpoint));
    if (own !== undefined) lasting.set(client, (lasting.get(client) ?? new Map()).set(checkpoint, own));
    return own ?? found[0] ?? null;
  };

  const statusAt = async (address: string) => clientAt(address).status();

  const models = async (): Promise<readonly string[]> => {
    const names = new Set<string>();
    for (const { policy, address } of await processes(false)) {
      const status = await statusAt(address).catch(() => null);
      if (!status) continue;
      names.add(`policy:${policy}`);
      for (const { checkpoint } of status.models) names.add(`checkpoint:${checkpoint}`);
    }
    return [...names].sort();
  };

  const answered = async <T>(who: OwnModel, ask: (client: SamplingClient, model: string) => Promise<T>): Promise<T> => {
    // A seeded request can be repeated without harm, so one that was cut off is sent once more.
    const answer = (await attempt(who, ask, false)) ?? (await attempt(who, ask, true));
    if (answer !== undefined) return answer;
    throw await unserved(db, who, await models());
  };

  return {
    models,
    sample: (who, ask, { signal, onPart } = {}) => {
      const options = { ...(signal ? { signal } : {}), ...(onPart ? { onPart: onlyNew(onPart) } : {}) };
      return answered(who, (client, model) => client.sample({ ...ask, model }, options));
    },
    prompt: (who, ask) => answered(who, (client, model) => client.prompt({ ...ask, model })),
    close: () => forget(new Set()),
  };
}

/** Leaves out text that was given before: a request that was cut off is sent once more, and samples the same. */
function onlyNew(onPart: OnPart): OnPart {
  const given = new Map<number, number>();
  return ({ choice, at, text }, begun) => {
    const end = given.get(choice) ?? 0;
    if (at + text.length <= end) return;
    given.set(choice, at + text.length);
    onPart({ choice, at: end, text: text.slice(end - at) }, begun);
  };
}

async function lookUp(db: Pick<Db, 'query'>): Promise<readonly Registered[]> {
  return rowsOf(
    db,
    query
      .selectFrom('troupe.processes')
      .select(['policy', 'address'])
      .where('role', '=', 'infer')
      .where('policy', 'is not', null)
      .where('address', 'is not', null)
      .where('heartbeat_at', '>', sql<string>`clock_timestamp() - ${HEARTBEAT}::interval`)
      .orderBy('started_at', 'desc')
      .orderBy('process_id')
      .$narrowType<{ policy: NotNull; address: NotNull }>(),
  );
}

/** The error for a name that no process serves: `unreachable` if the name is known, otherwise `not_found`. */
async function unserved(
  db: Pick<Db, 'query'>,
  { kind, name }: OwnModel,
  models: readonly string[],
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
  if (known) {
    const hint =
      kind === 'policy'
        ? `Start it with: troupe run infer --policy ${name}`
        : 'Start a policy with it: troupe run infer --policy NAME --model DIR';
    return new TroupeError('unreachable', `No process serves ${kind}:${name} now.`, {
      field: 'model',
      got: `${kind}:${name}`,
      expected: answered,
      hint,
    });
  }
  return unknownModel(`${kind}:${name}`, models);
}

/** The error for an unknown model name. It lists the models that are served now. */
export const unknownModel = (model: unknown, models: readonly string[]): TroupeError => {
  const names = models.length === 0 ? 'none' : models.join(', ');
  return new TroupeError('not_found', `There is no model ${got(model)}; served now: ${names}.`, {
    field: 'model',
    expected: models.length === 0 ? 'policy:NAME or checkpoint:ID' : names,
    got: got(model),
    hint: 'A policy is served while its process runs: troupe run infer --policy NAME.',
  });
};
