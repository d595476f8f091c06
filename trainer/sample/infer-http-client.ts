/** A client of a sampling process on another machine: each request is a POST of its own, over connections that are kept. */
import http, { type ClientRequest, type IncomingMessage } from 'node:http';
import https from 'node:https';
import { TroupeError } from '../../errors.ts';
import { type InferClient, toError } from './infer-client.ts';
import {
  type ErrorReply,
  INFER_PATH,
  type OnPart,
  type Operations,
  type PartLine,
  readLines,
  type SampleStart,
} from './infer-wire.ts';

/** How long is waited, in milliseconds: for a connection, and for any byte of a response that is under way. */
export type Patience = { readonly connectMs: number; readonly silentMs: number };
const PATIENCE: Patience = { connectMs: 3000, silentMs: 15_000 };

/** What can be asked of a process at `address`, a URL, with its key; `headers` are added to each request. Nothing is opened yet. Calls reject as those of `connectInfer` do. */
export function connectInferHttp(
  address: string,
  key: string | null,
  patience: Patience = PATIENCE,
  headers: () => Readonly<Record<string, string>> = () => ({}),
): Omit<InferClient, 'load'> {
  const url = new URL(INFER_PATH, address);
  const { Agent, request } = url.protocol === 'https:' ? https : http;
  const agent = new Agent({ keepAlive: true });
  const away = (why: string, cause?: unknown): TroupeError =>
    new TroupeError('unreachable', `The sampling process at ${address} ${why}.`, {
      hint: 'Start it with: troupe run infer. With the same seed a question can be asked again without harm.',
      cause,
    });

  /** The response once its headers are there. */
  const send = (
    line: object,
    signal: AbortSignal | undefined,
  ): Promise<{ asked: ClientRequest; response: IncomingMessage }> =>
    new Promise((resolve, reject) => {
      const body = Buffer.from(JSON.stringify(line));
      const asked = request(url, {
        method: 'POST',
        agent,
        headers: {
          ...headers(),
          authorization: `Bearer ${key}`,
          'content-type': 'application/json',
          'content-length': body.byteLength,
        },
        ...(signal ? { signal } : {}),
      });
      const late = setTimeout(() => asked.destroy(away('cannot be connected to')), patience.connectMs);
      asked.once('socket', (socket) => {
        const connected = () => clearTimeout(late);
        if (socket.connecting) socket.once('connect', connected);
        else connected();
      });
      asked.setTimeout(patience.silentMs, () => asked.destroy(away(`sent nothing for ${patience.silentMs / 1000} s`)));
      asked.once('response', (response) => resolve({ asked, response }));
      asked.once('error', (error) => {
        clearTimeout(late);
        reject(error);
      });
      asked.end(body);
    });

  async function ask<Op extends keyof Operations>(
    op: Op,
    request: Operations[Op]['ask'],
    { signal, onPart }: { readonly signal?: AbortSignal | undefined; readonly onPart?: OnPart | undefined } = {},
  ): Promise<Operations[Op]['answer']> {
    if (key === null) throw away('wants a key; set TROUPE_INFER_KEY here as it is set there');
    try {
      const { asked, response } = await send({ ...request, op }, signal);
      asked.on('error', (error) => response.destroy(error));
      let begun: SampleStart | null = null;
      let reply: (Operations[Op]['answer'] & Partial<ErrorReply>) | null = null;
      await readToEnd(response, (line) => {
        const { part, ...rest } = JSON.parse(line) as Partial<PartLine>;
        if (part === undefined) reply = rest as typeof reply;
        else {
          begun = rest.begun ?? begun;
          onPart?.(part, begun!);
        }
      });
      if (response.statusCode === 401) throw away('refused the key; set TROUPE_INFER_KEY here as it is set there');
      if (reply === null) throw away(`answered with status ${response.statusCode} and no reply`);
      const { error, ...answer } = reply as Operations[Op]['answer'] & Partial<ErrorReply>;
      if (error) throw toError(error);
      return answer as unknown as Operations[Op]['answer'];
    } catch (error) {
      if (signal?.aborted) throw new TroupeError('interrupted', 'The request was cancelled.', { cause: error });
      if (error instanceof TroupeError) throw error;
      throw away(`is not there, or went away (${(error as NodeJS.ErrnoException).code ?? 'no answer'})`, error);
    }
  }

  return {
    sample: (request, { signal, onPart } = {}) =>
      ask('sample', onPart ? { ...request, stream: true } : request, { signal, onPart }),
    prompt: (request) => ask('prompt', request),
    logprobs: (request) => ask('logprobs', request),
    status: () => ask('status', {}),
    close: () => agent.destroy(),
  };
}

/** Calls `onLine` for each line; resolves once the response has ended whole, and rejects with what ended it before, or what `onLine` throws. */
function readToEnd(response: IncomingMessage, onLine: (line: string) => void): Promise<void> {
  return new Promise((resolve, reject) => {
    response.once('error', reject);
    response.once('end', resolve);
    readLines(response, (line) => {
      try {
        onLine(line);
      } catch (error) {
        response.destroy(error as Error);
      }
    });
  });
}
