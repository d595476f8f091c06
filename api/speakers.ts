/**
 * Who speaks for a model name. Sampling processes register in the database under the policy they speak for; here they are looked
 * up, connected to once, and looked up again when one has gone.
 */
import { got, TroupeError } from '../errors.ts';
import type { Db } from '../store/db/pool.ts';
import { type NotNull, query, rowsOf, scalarOf, sql } from '../store/db/query.ts';
import type { InferClient } from '../trainer/sampling/infer-client.ts';
import type { PromptAnswer, PromptAsk, SampleAnswer, SampleAsk } from '../trainer/sampling/infer-wire.ts';

/** An own model, as requests name it: the weights a policy has now, or one checkpoint. */
export type Spoken = { readonly kind: 'policy' | 'checkpoint'; readonly name: string };

export type SpeakOptions = { readonly signal?: AbortSignal };

export type Speakers = {
  /**
   * Samples of one request. Throws `not_found` for a name nobody has, `unreachable` where nobody speaks for it now, and
   * `interrupted` once `signal` is aborted; the process then draws no more for it.
   */
  readonly speak: (who: Spoken, ask: SampleAsk, options?: SpeakOptions) => Promise<SampleAnswer>;
  /** Token ids of a prompt, as the model would read it. Throws `not_found` and `unreachable` as `speak` does. */
  readonly prompt: (who: Spoken, ask: PromptAsk) => Promise<PromptAnswer>;
  /** Names that are answered now, such as `policy:solver`, sorted. */
  readonly models: () => Promise<readonly string[]>;
};

export type SpeakerClient = Pick<InferClient, 'sample' | 'prompt' | 'status' | 'close'>;

type Registered = { readonly policy: string; readonly address: string };

/** A process that has not been heard of for so long is not asked. */
const HEARTBEAT = '15 seconds';
/** How long a look-up is believed; a process that has gone is noticed at once, because it does not answer. */
const BELIEVED_MS = 1000;

export function registeredSpeakers(
  db: Pick<Db, 'query'>,
  connect: (address: string) => SpeakerClient,
): Speakers & { readonly close: () => void } {
  const clients = new Map<string, SpeakerClient>();
  let known: { readonly at: number; readonly processes: Promise<readonly Registered[]> } | null = null;

  const processes = (fresh: boolean): Promise<readonly Registered[]> => {
    const now = performance.now();
    if (known && !fresh && now - known.at < BELIEVED_MS) return known.processes;
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

  const clientAt = (address: string): SpeakerClient => {
    let client = clients.get(address);
    if (!client) {
      client = connect(address);
      clients.set(address, client);
    }
    return client;
  };

  /** Tries each process that may speak for the name, the newest first; undefined where none of them is there. */
  const attempt = async <T>(
    who: Spoken,
    ask: (client: SpeakerClient, model: string) => Promise<T>,
    fresh: boolean,
  ): Promise<T | undefined> => {
    for (const { policy, address } of await processes(fresh)) {
      try {
        const client = clientAt(address);
        const model = who.kind === 'policy' ? (policy === who.name ? policy : null) : await modelWith(client, who.name);
        if (model !== null) return await ask(client, model);
      } catch (error) {
        if (!(error instanceof TroupeError) || error.code !== 'unreachable') throw error;
      }
    }
    return undefined;
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

  const answered = async <T>(who: Spoken, ask: (client: SpeakerClient, model: string) => Promise<T>): Promise<T> => {
    // With the same seed a question can be asked again without harm, so one that was cut off is asked once more.
    const answer = (await attempt(who, ask, false)) ?? (await attempt(who, ask, true));
    if (answer !== undefined) return answer;
    throw await silence(db, who, await models());
  };

  return {
    models,
    speak: (who, ask, options = {}) => answered(who, (client, model) => client.sample({ ...ask, model }, options)),
    prompt: (who, ask) => answered(who, (client, model) => client.prompt({ ...ask, model })),
    close: () => forget(new Set()),
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

async function modelWith(client: SpeakerClient, checkpoint: string): Promise<string | null> {
  const { models } = await client.status();
  return models.find((model) => model.checkpoint === checkpoint)?.name ?? null;
}

/** Nobody answered: is the name unknown, or is its process away? */
async function silence(db: Pick<Db, 'query'>, { kind, name }: Spoken, models: readonly string[]): Promise<TroupeError> {
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
    return new TroupeError('unreachable', `No process speaks for ${kind}:${name} now.`, {
      field: 'model',
      got: `${kind}:${name}`,
      expected: answered,
      hint,
    });
  }
  return unknownModel(`${kind}:${name}`, models);
}

/** The answer to a model name that nobody has, with those that are answered. */
export const unknownModel = (model: unknown, models: readonly string[]): TroupeError => {
  const names = models.length === 0 ? 'none' : models.join(', ');
  return new TroupeError('not_found', `There is no model ${got(model)}; answered now: ${names}.`, {
    field: 'model',
    expected: models.length === 0 ? 'policy:NAME or checkpoint:ID' : names,
    got: got(model),
    hint: 'A policy is answered while its process runs: troupe run infer --policy NAME.',
  });
};
