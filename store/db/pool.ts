/**
 * The wrapper of the PostgreSQL driver: the only file that imports it. Everything else sees `Db` and `Session`.
 *
 * Every connection starts with the same settings (UTC, ISO dates), given at start-up, so that RESET ALL and DISCARD ALL
 * come back to them and no round trip is spent on them. Values are decoded by `values.ts`.
 */

import { Socket } from 'node:net';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import copy from 'pg-copy-streams';
import Cursor from 'pg-cursor';
import { TroupeError } from '../../errors.ts';
import { type Backend, requestCancel } from './cancel.ts';
import { CopyOut, ReadingSocket } from './copy-out.ts';
import { connectError, parseAddress, sqlState, valueTooLarge } from './faults.ts';
import { parserOf, shownParserOf } from './values.ts';

export type ResultColumn = { readonly name: string; readonly type: number };

/** `count` is what the server reported (rows selected, inserted, updated or deleted), 0 when it reported none. */
type Result<Row> = {
  readonly rows: Row[];
  readonly count: number;
  readonly columns: readonly ResultColumn[];
  /** Bytes that the server sent, where `maxBytes` was given. */
  readonly bytes?: number;
};

export type QueryOptions = {
  /** Prepares the statement under this name on each connection; the same name must always go with the same text. */
  readonly name?: string;
  /** Rows as arrays of values in column order, instead of objects by column name. */
  readonly array?: boolean;
  /** Forces the extended protocol, which takes exactly one statement; the default without parameters takes several. */
  readonly extended?: boolean;
  /** Bytes of the result at most, as the server sends it. One with more closes the connection and throws `too_large`. */
  readonly maxBytes?: number;
  /** Bytes of each value at most, as the server writes it. A longer one throws `too_large`. Values are then as they are shown: `shownParserOf`. */
  readonly maxValueBytes?: number;
};

export type Params = readonly unknown[];

/** The operations of the database, on the pool as well as inside a transaction. */
export type Session = {
  /** Runs one statement; without `params` also a script of several, whose last result is returned. Errors are the driver's, with SQLSTATE in `code`. */
  query<Row = Record<string, unknown>>(sql: string, params?: Params, options?: QueryOptions): Promise<Result<Row>>;
  /** Rows through a cursor, `batch` (1000) at a time, so memory holds one batch. Leaving the loop early closes the cursor. */
  stream<Row = Record<string, unknown>>(
    sql: string,
    params?: Params,
    options?: { readonly batch?: number; readonly array?: boolean },
  ): AsyncGenerator<Row[], void, undefined>;
  /** Feeds a `COPY … FROM STDIN`; returns the rows copied. When the source or the server fails, nothing is copied. */
  copyIn(sql: string, source: AsyncIterable<Uint8Array> | Readable): Promise<number>;
  /**
   * The bytes of a `COPY … TO STDOUT`. Leaving the loop early, or an error, closes its connection: it never goes back to the pool.
   * With `again`, a piece of them is good only until the next is asked for.
   */
  copyOut(sql: string, options?: { readonly again?: boolean }): AsyncGenerator<Buffer, void, undefined>;
};

type TransactionOptions = {
  readonly isolation?: 'read committed' | 'repeatable read' | 'serializable';
  readonly readOnly?: boolean;
  /** Statements that go with BEGIN, without a round trip of their own: what is set for this transaction alone. */
  readonly settings?: string;
  /**
   * When it aborts, the server is asked to cancel the statement under way, and 750 ms later the connection is cut if the transaction
   * has not ended. The connection is not used again.
   */
  readonly signal?: AbortSignal;
};

type Subscription = { close(): Promise<void> };

/** A pool of connections to one database. */
export type Db = Session & {
  /** Commits what `fn` did, or rolls back when it throws. The session handed to `fn` ends with it. */
  transaction<T>(fn: (tx: Session) => Promise<T>, options?: TransactionOptions): Promise<T>;
  /**
   * Listens on a connection of its own, which reconnects by itself. `onPayload` gets each payload, and null after a
   * reconnect: something may have been missed meanwhile, look for yourself.
   */
  listen(channel: string, onPayload: (payload: string | null) => void): Promise<Subscription>;
  /** Waits for work under way, then closes every connection. Idempotent. */
  close(): Promise<void>;
};

export type PoolOptions = {
  /** Connections at most; work beyond waits its turn. */
  readonly max?: number;
  readonly applicationName?: string;
  readonly connectTimeoutMs?: number;
  /** Is given the process id of the server's backend before a connection is used; where it throws, there is no connection. */
  readonly onBackend?: (pid: number) => Promise<void>;
  /** Is given the process id of a backend whose connection was cut because its statement did not end when it was asked to. */
  readonly onCut?: (pid: number) => void;
};

type Client = pg.ClientBase;

const types = { getTypeParser: parserOf } as unknown as pg.CustomTypesConfig;
const CONNECT_TIMEOUT_MS = 10_000;

function clientConfig(url: string, options: PoolOptions): pg.ClientConfig {
  const address = parseAddress(url);
  const asked = address.searchParams.get('options');
  address.searchParams.delete('options');
  const settings = '-c timezone=UTC -c datestyle=ISO -c intervalstyle=postgres -c bytea_output=hex';
  return {
    connectionString: address.href,
    application_name: options.applicationName ?? 'troupe',
    options: asked ? `${asked} ${settings}` : settings,
    connectionTimeoutMillis: options.connectTimeoutMs ?? CONNECT_TIMEOUT_MS,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    // Under TLS another socket does the reading.
    stream: ((config: pg.ClientConfig) => (config.ssl ? new Socket() : new ReadingSocket())) as () => Socket,
    types,
  };
}

/** A server that is still recovering answers 57P03 and is waited for; any other failure is final. */
async function untilStarted<T>(attempt: () => Promise<T>, url: string, options: PoolOptions): Promise<T> {
  const deadline = performance.now() + (options.connectTimeoutMs ?? CONNECT_TIMEOUT_MS);
  for (;;) {
    try {
      return await attempt();
    } catch (error) {
      if (sqlState(error) !== '57P03' || performance.now() > deadline) throw connectError(error, url);
      await sleep(100);
    }
  }
}

/** Closes the socket under a client; what waits on it fails at once instead of for ever. */
function sever(client: Client): void {
  socketOf(client).destroy();
}

const socketOf = (client: Client): Socket =>
  (client as unknown as { connection: { stream: Socket } }).connection.stream;

/** A statement that is cancelled has this long to end before its connection is cut, in milliseconds. */
const CUT_AFTER_MS = 750;
const CANCEL_EVERY_MS = 150;

/** Ends the work on the connection once the signal aborts. Call what it returns when the work is over: true where it was ended. */
function endOn(client: Client, signal: AbortSignal, onCut?: (pid: number) => void): () => boolean {
  const { host, port, processID, secretKey } = client as unknown as Backend;
  let again: NodeJS.Timeout | undefined;
  let cut: NodeJS.Timeout | undefined;
  const cancel = () => requestCancel({ host, port, processID, secretKey });
  const end = () => {
    cancel();
    // A request that comes between two statements has no effect.
    again = setInterval(cancel, CANCEL_EVERY_MS);
    cut = setTimeout(() => {
      cancel();
      sever(client);
      onCut?.(processID);
    }, CUT_AFTER_MS);
  };
  if (signal.aborted) end();
  else signal.addEventListener('abort', end, { once: true });
  return () => {
    signal.removeEventListener('abort', end);
    clearInterval(again);
    clearTimeout(cut);
    return signal.aborted;
  };
}

/** Closes the connection once more than `most` bytes have come. Returns how many came, and stops counting. */
function countBytes(client: Client, most: number): () => number {
  const socket = socketOf(client);
  let bytes = 0;
  const count = (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes <= most) return;
    const size = `at most ${Math.floor(most / 1024 / 1024)} MiB`;
    socket.destroy(
      new TroupeError('too_large', `A row, or a few hundred together, should have ${size}; these have more.`, {
        expected: size,
        hint: 'Select fewer columns, or the beginning of long text: left(text, 1000).',
      }),
    );
  };
  socket.on('data', count);
  return () => {
    socket.off('data', count);
    return bytes;
  };
}

/** The parsers of what is shown, each of which refuses a text of more bytes than that. A value is never fewer bytes than UTF-16 units. */
const typesUpTo = (most: number) => ({
  getTypeParser: (oid: number) => {
    const parse = shownParserOf(oid);
    return (text: string) => {
      if (text.length * 3 > most && Buffer.byteLength(text) > most) throw valueTooLarge(most);
      return parse(text);
    };
  },
});

async function run<Row>(
  client: Client,
  sql: string,
  params?: Params,
  options: QueryOptions = {},
): Promise<Result<Row>> {
  const config: Record<string, unknown> = { text: sql };
  if (params !== undefined) config.values = params;
  if (options.name !== undefined) config.name = options.name;
  if (options.array) config.rowMode = 'array';
  if (options.extended) config.queryMode = 'extended';
  if (options.maxValueBytes !== undefined) config.types = typesUpTo(options.maxValueBytes);
  const counted = options.maxBytes === undefined ? null : countBytes(client, options.maxBytes);
  const asked = client.query(config as unknown as pg.QueryConfig) as Promise<pg.QueryResult | pg.QueryResult[]>;
  const answer = await asked.finally(counted ?? (() => {}));
  const last = Array.isArray(answer) ? answer.at(-1)! : answer;
  return {
    rows: last.rows as Row[],
    count: last.rowCount ?? 0,
    columns: last.fields.map((field) => ({ name: field.name, type: field.dataTypeID })),
    ...(counted === null ? {} : { bytes: counted() }),
  };
}

async function* batches<Row>(
  client: Client,
  sql: string,
  params: Params = [],
  options: { readonly batch?: number; readonly array?: boolean } = {},
): AsyncGenerator<Row[], void, undefined> {
  const cursor = client.query(
    new Cursor<Row>(sql, [...params], { types, ...(options.array ? { rowMode: 'array' as const } : {}) }),
  );
  let open = true;
  try {
    for (;;) {
      const rows = await cursor.read(options.batch ?? 1000);
      if (rows.length === 0) break;
      yield rows;
    }
    open = false;
  } catch (error) {
    open = false;
    throw error;
  } finally {
    if (open) await Promise.race([cursor.close(), new Promise((resolve) => client.once('end', resolve))]);
  }
}

async function copyInto(client: Client, sql: string, source: AsyncIterable<Uint8Array> | Readable): Promise<number> {
  const sink = client.query(copy.from(sql));
  await pipeline(source, sink);
  return sink.rowCount;
}

async function* copyFrom(client: Client, sql: string, again = false): AsyncGenerator<Buffer, void, undefined> {
  const out = client.query(new CopyOut(sql, again) as unknown as pg.Submittable & CopyOut);
  let complete = false;
  try {
    yield* out.chunks();
    complete = true;
  } finally {
    // The server goes on sending into a stream nobody reads, so the connection can never be used again.
    if (!complete) sever(client);
  }
}

function sessionOn(client: Client, open: () => boolean = () => true): Session {
  const live = (): Client => {
    if (!open()) throw new TroupeError('internal', 'A transaction was used after it had ended.');
    return client;
  };
  // One after the other: the driver deprecates a query that is given to a connection which has another.
  let last: Promise<unknown> = Promise.resolve();
  return {
    query: (sql, params, options) => {
      const asked = last.then(() => run<never>(live(), sql, params, options));
      last = asked.catch(() => {});
      return asked;
    },
    stream: (sql, params, options) => batches(live(), sql, params, options),
    copyIn: async (sql, source) => copyInto(live(), sql, source),
    copyOut: (sql, copyOptions) => copyFrom(live(), sql, copyOptions?.again),
  };
}

const begin = ({ isolation, readOnly, settings }: TransactionOptions): string =>
  ['BEGIN', isolation && `ISOLATION LEVEL ${isolation}`, readOnly && 'READ ONLY', settings && `; ${settings}`]
    .filter(Boolean)
    .join(' ');

async function transact<T>(client: Client, fn: (tx: Session) => Promise<T>, options: TransactionOptions): Promise<T> {
  let open = true;
  await client.query(begin(options));
  try {
    const value = await fn(sessionOn(client, () => open));
    open = false;
    const end = await client.query('COMMIT');
    if (end.command !== 'COMMIT') {
      throw new TroupeError('internal', 'Nothing was committed: a statement of the transaction had failed unheeded.');
    }
    return value;
  } finally {
    open = false;
  }
}

function driverPool(url: string, options: PoolOptions): pg.Pool {
  const config = clientConfig(url, options);
  // The driver's pool applies its timeout also to waiting for a turn; here only connecting is bounded.
  class PooledClient extends pg.Client {
    constructor() {
      super(config);
      this.on('error', () => {}); // The statement under way gets the error; without a listener it would end the process.
    }
  }
  const { onBackend } = options;
  const pool = new pg.Pool({
    ...(onBackend && { onConnect: (client: unknown) => onBackend((client as Backend).processID) }),
    max: options.max ?? 10,
    idleTimeoutMillis: 30_000,
    allowExitOnIdle: true,
    Client: PooledClient,
  });
  pool.on('error', () => {}); // An idle connection was lost; the pool has dropped it already.
  return pool;
}

/**
 * Opens a pool; the first connection is made when it is needed. An idle pool does not keep the process alive.
 * @throws TroupeError `config_invalid` for a malformed address; its calls throw `unreachable`, `busy` or `not_found` when no connection can be had.
 */
export function openPool(url: string, options: PoolOptions = {}): Db {
  const pool = driverPool(url, options);
  const subscriptions = new Set<Subscription>();
  let closing: Promise<void> | undefined;

  const acquire = (): Promise<pg.PoolClient> => {
    if (closing) throw new TroupeError('internal', 'A database was used after it had been closed.');
    return untilStarted(() => pool.connect(), url, options);
  };

  const borrow = async <T>(
    work: (client: Client) => Promise<T>,
    usableAfter: (error: unknown) => boolean,
  ): Promise<T> => {
    const client = await acquire();
    let failure: unknown = null;
    try {
      return await work(client);
    } catch (error) {
      failure = error;
      throw error;
    } finally {
      client.release(!usableAfter(failure));
    }
  };

  /** A generator's connection goes back only after its natural end; anything else destroys it. */
  async function* lend<T>(
    work: (client: Client) => AsyncGenerator<T, void, undefined>,
  ): AsyncGenerator<T, void, undefined> {
    const client = await acquire();
    let complete = false;
    try {
      yield* work(client);
      complete = true;
    } finally {
      client.release(!complete);
    }
  }

  return {
    // After an error that the server itself reported both sides agree on the connection's state.
    query: (sql, params, queryOptions) =>
      borrow(
        (client) => run(client, sql, params, queryOptions),
        (error) => error === null || sqlState(error) !== null,
      ),
    stream: (sql, params, streamOptions) => lend((client) => batches(client, sql, params, streamOptions)),
    copyIn: (sql, source) =>
      borrow(
        (client) => copyInto(client, sql, source),
        (error) => error === null,
      ),
    copyOut: (sql, copyOptions) => lend((client) => copyFrom(client, sql, copyOptions?.again)),
    transaction: (fn, transactionOptions = {}) => {
      let usable = true;
      const { signal } = transactionOptions;
      const work = async (client: Client) => {
        // Ended while it waited for a connection, which has seen nothing of it.
        signal?.throwIfAborted();
        const ended = signal === undefined ? () => false : endOn(client, signal, options.onCut);
        try {
          return await transact(client, fn, transactionOptions);
        } catch (error) {
          await client.query('ROLLBACK').catch(() => {
            usable = false;
          });
          throw error;
        } finally {
          // A cancel request that is still on its way would hit the next statement.
          if (ended()) usable = false;
        }
      };
      return borrow(work, () => usable);
    },
    listen: async (channel, onPayload) => {
      const subscription = await subscribe(url, options, channel, onPayload);
      const listed: Subscription = {
        close: async () => {
          subscriptions.delete(listed);
          await subscription.close();
        },
      };
      subscriptions.add(listed);
      return listed;
    },
    close: () => {
      closing ??= (async () => {
        await Promise.all([...subscriptions].map((subscription) => subscription.close()));
        // The driver's pool forgets who still waits for a turn when it ends.
        while (pool.waitingCount > 0) await sleep(5);
        await pool.end();
      })();
      return closing;
    },
  };
}

async function connect(url: string, options: PoolOptions): Promise<pg.Client> {
  const config = clientConfig(url, options);
  return untilStarted(
    async () => {
      const client = new pg.Client(config);
      client.on('error', () => {});
      await client.connect();
      return client;
    },
    url,
    options,
  );
}

const LONGEST_PAUSE_MS = 5000;

async function subscribe(
  url: string,
  options: PoolOptions,
  channel: string,
  onPayload: (payload: string | null) => void,
): Promise<Subscription> {
  let closed = false;
  let client = await start();

  async function start(): Promise<pg.Client> {
    const fresh = await connect(url, options);
    fresh.on('notification', (message) => onPayload(message.payload ?? ''));
    await fresh.query(`LISTEN ${pg.escapeIdentifier(channel)}`);
    fresh.once('end', () => void again());
    return fresh;
  }

  async function again(): Promise<void> {
    for (let pause = 100; !closed; pause = Math.min(pause * 2, LONGEST_PAUSE_MS)) {
      await sleep(pause, undefined, { ref: false });
      if (closed) return;
      const fresh = await start().catch(() => null);
      if (fresh === null) continue;
      client = fresh;
      if (closed) await client.end();
      else onPayload(null);
      return;
    }
  }

  return {
    close: async () => {
      closed = true;
      await client.end();
    },
  };
}
