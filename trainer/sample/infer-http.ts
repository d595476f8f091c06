/**
 * The sampling process for other machines: the same requests over HTTP, one a POST, with a key. The response is what the socket sends:
 * parts of text and one reply, a JSON document a line. Empty lines while it is under way show that the process still works.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { ERRORS, got, TroupeError } from '../../errors.ts';
import type { InferServer } from './infer.ts';
import { errorReply, parseRequest, perform } from './infer-answer.ts';
import { Batches, type BatchOptions, type LoadPolicy } from './infer-batches.ts';
import { INFER_PATH, type LoadAnswer, MAX_LINE_CHARACTERS, type OnPart, SHORTEST_KEY } from './infer-wire.ts';

export type InferHttpOptions = BatchOptions & {
  readonly host: string;
  /** 0 takes any free port. */
  readonly port: number;
  /** Who has it may ask; at least 16 characters. */
  readonly key: string;
  /** Called with the seconds from a request to its reply. */
  readonly onReply?: (operation: string, seconds: number) => void;
  /** Milliseconds between two empty lines. */
  readonly aliveMs?: number;
};

/** Loading is not among them: a path of this machine is no matter of another. */
const OPERATIONS = ['sample', 'prompt', 'logprobs'] as const;
/** A run of a model holds up the event loop for less than a second; clients wait for several of these. */
const ALIVE_MS = 2000;

/**
 * Listens and answers; resolves once clients can connect.
 * @throws TroupeError `config_invalid` for a short key or an address that cannot be listened on, `port_taken`
 */
export async function startInferHttp(
  { host, port, key, onReply = () => {}, aliveMs = ALIVE_MS, ...options }: InferHttpOptions,
  loadPolicy: LoadPolicy,
): Promise<InferServer & { readonly port: number }> {
  if (key.length < SHORTEST_KEY)
    throw new TroupeError(
      'config_invalid',
      `The setting infer_key (TROUPE_INFER_KEY) should have at least ${SHORTEST_KEY} characters, but it has ${key.length}; make one with: openssl rand -hex 32.`,
      { field: 'infer_key' },
    );
  const wanted = digest(`Bearer ${key}`);
  const batches = new Batches(options, loadPolicy);
  const server = createServer((request, response) => void answer(request, response));

  function refusal({ method, url, headers }: IncomingMessage): TroupeError | null {
    if (!timingSafeEqual(digest(headers.authorization ?? ''), wanted))
      return new TroupeError('unauthorized', 'The sampling process wants the key of its setting infer_key as bearer.');
    if (method !== 'POST' || url !== INFER_PATH)
      return new TroupeError('not_found', `Requests are POST ${INFER_PATH}; this is ${got(`${method} ${url}`)}.`);
    return null;
  }

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const began = performance.now();
    const gone = new AbortController();
    response.once('close', () => gone.abort());
    request.on('error', () => response.destroy());
    const refused = refusal(request);
    if (refused !== null) return refuse(response, refused);
    let text: string;
    try {
      text = await bodyOf(request);
    } catch (error) {
      if (error instanceof TroupeError) return refuse(response, error);
      return void response.destroy();
    }
    const write = (line: string): void => {
      if (!response.destroyed) response.write(`${line}\n`);
    };
    response.writeHead(200, { 'content-type': 'application/x-ndjson' });
    response.flushHeaders();
    const alive = setInterval(write, aliveMs, '');
    let isFirst = true;
    const onPart: OnPart = (part, begun) => {
      write(JSON.stringify({ part, ...(isFirst ? { begun } : {}) }));
      isFirst = false;
    };
    let reply: object;
    try {
      const { op, ...ask } = parseRequest(text);
      reply = await perform(batches, OPERATIONS, { op, ask }, { signal: gone.signal, onPart });
      onReply(String(op), (performance.now() - began) / 1000);
    } catch (error) {
      reply = errorReply(null, error);
    }
    clearInterval(alive);
    if (!response.destroyed) response.end(`${JSON.stringify(reply)}\n`);
  }

  const taken = await listen(server, host, port);
  return {
    port: taken,
    load: (ask) => batches.submit({ op: 'load', ask }) as Promise<LoadAnswer>,
    unload: (name) => batches.unload(name),
    status: () => batches.status(),
    async close() {
      const ended = new Promise<void>((resolve) => server.close(() => resolve()));
      await batches.close();
      // Replies to those who were interrupted are written in this turn of the event loop and leave in the next.
      await new Promise((resolve) => setTimeout(resolve, 50));
      server.closeAllConnections();
      await ended;
    },
  };
}

const digest = (text: string): Buffer => createHash('sha256').update(text).digest();

function refuse(response: ServerResponse, error: TroupeError): void {
  response.writeHead(ERRORS[error.code].status, { 'content-type': 'application/json', connection: 'close' });
  response.end(`${JSON.stringify(errorReply(null, error))}\n`);
}

/** @throws TroupeError `too_large` */
async function bodyOf(request: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const part of request as AsyncIterable<Buffer>) {
    bytes += part.length;
    if (bytes > MAX_LINE_CHARACTERS)
      throw new TroupeError('too_large', `A request should have at most ${MAX_LINE_CHARACTERS} bytes.`);
    parts.push(part);
  }
  return Buffer.concat(parts).toString('utf8');
}

function listen(server: Server, host: string, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', (cause: NodeJS.ErrnoException) => {
      const taken = cause.code === 'EADDRINUSE';
      const text = taken
        ? `Another program listens on ${host} port ${port}; choose another with --port.`
        : `Cannot listen on ${host} port ${port}: ${cause.message}. Choose another address with --host and --port.`;
      reject(new TroupeError(taken ? 'port_taken' : 'config_invalid', text, { got: String(cause.code), cause }));
    });
    server.listen(port, host, () => resolve((server.address() as AddressInfo).port));
  });
}
