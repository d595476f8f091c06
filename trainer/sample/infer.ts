/**
 * The sampling process: models behind a Unix domain socket. A run of a model blocks the event loop, so this
 * process does nothing else; what arrives during a run waits in the socket and joins the next one.
 */
import { chmod, rm } from 'node:fs/promises';
import { createServer, type Server, type Socket } from 'node:net';
import { TroupeError } from '../../errors.ts';
import { listensAt } from '../../store/server/sockets.ts';
import { errorReply, parseRequest, perform } from './infer-answer.ts';
import { Batches, type BatchOptions, type LoadPolicy } from './infer-batches.ts';
import {
  type CancelAnswer,
  checkSocketPath,
  type LoadAnswer,
  type LoadAsk,
  type OnPart,
  type PartLine,
  readLines,
  type StatusAnswer,
} from './infer-wire.ts';

export type InferOptions = BatchOptions & {
  /** Path of the socket, at most 100 bytes. Only this user can open it. */
  readonly socket: string;
  /** Called with the seconds from a request to its reply. */
  readonly onReply?: (operation: string, seconds: number) => void;
};

const OPERATIONS = ['sample', 'prompt', 'load', 'logprobs'] as const;

/** What a client has asked and has no answer yet, with its id as JSON. */
type UnderWay = Map<AbortController, string>;

export type InferServer = {
  /** Loads or replaces a model, as the `load` request does. */
  load(ask: LoadAsk): Promise<LoadAnswer>;
  /** Takes no more requests for a model; those under way are answered. */
  unload(name: string): void;
  status(): StatusAnswer;
  /** Ends after the run of a model that is under way; requests without an answer are answered `interrupted`. */
  close(): Promise<void>;
};

/**
 * Listens and answers; resolves once clients can connect. `loadPolicy` makes a policy of a model's weights.
 * Throws `config_invalid` for a socket path that is too long, `port_taken` where another process answers there already.
 */
export async function startInfer(
  { socket: path, onReply = () => {}, ...options }: InferOptions,
  loadPolicy: LoadPolicy,
): Promise<InferServer> {
  checkSocketPath(path);
  const batches = new Batches(options, loadPolicy);
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    const asked: UnderWay = new Map();
    socket.on('close', () => {
      sockets.delete(socket);
      for (const request of asked.keys()) request.abort();
    });
    socket.on('error', () => socket.destroy());
    readLines(socket, (line) => void answer(socket, asked, line));
  });

  async function answer(socket: Socket, asked: UnderWay, line: string): Promise<void> {
    let id: unknown = null;
    let reply: object;
    const began = performance.now();
    const request = new AbortController();
    let isFirst = true;
    const onPart: OnPart = (part, begun) => {
      if (!socket.destroyed)
        socket.write(`${JSON.stringify({ id, part, ...(isFirst ? { begun } : {}) } satisfies PartLine)}\n`);
      isFirst = false;
    };
    try {
      const { op, ...ask } = parseRequest(line);
      id = ask.id ?? null;
      if (op === 'cancel') reply = { id, ...cancel(asked, ask) };
      else {
        asked.set(request, JSON.stringify(id));
        reply = { id, ...(await perform(batches, OPERATIONS, { op, ask }, { signal: request.signal, onPart })) };
        onReply(String(op), (performance.now() - began) / 1000);
      }
    } catch (error) {
      reply = errorReply(id, error);
    }
    asked.delete(request);
    // Replies of one batch leave together: they are written in one turn of the event loop.
    if (socket.destroyed) return;
    if (socket.writableCorked === 0) {
      socket.cork();
      setImmediate(() => socket.uncork());
    }
    socket.write(`${JSON.stringify(reply)}\n`);
  }

  function cancel(asked: UnderWay, { request }: Record<string, unknown>): CancelAnswer {
    const found = [...asked].filter(([, id]) => id === JSON.stringify(request));
    for (const [each] of found) each.abort();
    return { cancelled: found.length > 0 };
  }

  await listen(server, path);
  return {
    load: (ask) => batches.submit({ op: 'load', ask }) as Promise<LoadAnswer>,
    unload: (name) => batches.unload(name),
    status: () => batches.status(),
    async close() {
      const ended = new Promise<void>((resolve) => server.close(() => resolve()));
      await batches.close();
      await new Promise(setImmediate);
      for (const socket of sockets) socket.destroySoon();
      await ended;
    },
  };
}

/** Listens at a path; the socket file of a process that died is taken over, that of a living one is not. */
async function listen(server: Server, path: string): Promise<void> {
  const attempt = (): Promise<NodeJS.ErrnoException | null> =>
    new Promise((resolve) => {
      server.once('error', resolve);
      server.listen(path, () => {
        server.off('error', resolve);
        resolve(null);
      });
    });
  let error = await attempt();
  if (error?.code === 'EADDRINUSE') {
    if (await listensAt(path)) {
      throw new TroupeError('port_taken', `Another process answers at ${path}; stop it or choose another socket.`);
    }
    await rm(path, { force: true });
    error = await attempt();
  }
  if (error) {
    throw new TroupeError('config_invalid', `The socket ${path} cannot be opened: ${error.message}.`, { cause: error });
  }
  await chmod(path, 0o600);
}
