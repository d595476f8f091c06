/**
 * The other end of the sampling process: many questions at once over one connection, opened when the first is asked and
 * opened again when the process is back.
 */
import { connect, type Socket } from 'node:net';
import { ERRORS, type ErrorCode, TroupeError } from '../../errors.ts';
import {
  checkSocketPath,
  type ErrorReply,
  type LoadAnswer,
  type LogprobsAnswer,
  type LogprobsAsk,
  type OnPart,
  type Operations,
  type PartLine,
  type PromptAnswer,
  type PromptAsk,
  readLines,
  type SampleAnswer,
  type SampleAsk,
  type SampleStart,
  type StatusAnswer,
} from './infer-wire.ts';

/** Every call rejects with the process's own `TroupeError`, or `unreachable` where it is not there or went away. */
export type InferClient = {
  /**
   * Once `signal` is aborted the request is cancelled in the process, and the call rejects with `interrupted`. `onPart` gets the text
   * while it is sampled, a process that cannot send it excepted.
   */
  sample(ask: SampleAsk, options?: { readonly signal?: AbortSignal; readonly onPart?: OnPart }): Promise<SampleAnswer>;
  /** Token ids of a prompt, nothing sampled. */
  prompt(ask: PromptAsk): Promise<PromptAnswer>;
  /** Loads the checkpoint or model at `dir` under a name; later requests are sampled with it. */
  load(dir: string, name: string): Promise<LoadAnswer>;
  logprobs(ask: LogprobsAsk): Promise<LogprobsAnswer>;
  status(): Promise<StatusAnswer>;
  /** Ends the connection; what is under way is rejected as `unreachable`. */
  close(): void;
};

type Pending = {
  readonly resolve: (answer: never) => void;
  readonly reject: (error: TroupeError) => void;
  readonly onPart: OnPart | undefined;
  begun: SampleStart | null;
};

const unreachable = (path: string, why: string, cause?: unknown): TroupeError =>
  new TroupeError('unreachable', `The sampling process at ${path} ${why}.`, {
    hint: 'Start it with: troupe run infer. With the same seed a question can be asked again without harm.',
    cause,
  });

/** A client of the process that listens at `path`. Nothing is opened yet. Throws `config_invalid` for a path too long. */
export function connectInfer(path: string): InferClient {
  checkSocketPath(path);
  let connection: Promise<Connection> | null = null;

  const connected = (): Promise<Connection> => {
    connection ??= open(path, () => {
      connection = null;
    });
    return connection;
  };

  const ask = async <Op extends keyof Operations>(
    op: Op,
    request: Operations[Op]['ask'],
    signal?: AbortSignal,
    onPart?: OnPart,
  ): Promise<Operations[Op]['answer']> => (await connected()).ask(op, request, signal, onPart);

  return {
    sample: (request, { signal, onPart } = {}) =>
      ask('sample', onPart ? { ...request, stream: true } : request, signal, onPart),
    prompt: (request) => ask('prompt', request),
    load: (dir, name) => ask('load', { dir, name }),
    logprobs: (request) => ask('logprobs', request),
    status: () => ask('status', {}),
    close() {
      connection?.then((open) => open.end()).catch(() => {});
    },
  };
}

type Connection = {
  ask<Op extends keyof Operations>(
    op: Op,
    request: Operations[Op]['ask'],
    signal?: AbortSignal,
    onPart?: OnPart,
  ): Promise<Operations[Op]['answer']>;
  end(): void;
};

function open(path: string, onEnd: () => void): Promise<Connection> {
  return new Promise((resolve, reject) => {
    const socket: Socket = connect(path);
    const waiting = new Map<number, Pending>();
    let next = 0;
    let cause: unknown;

    readLines(socket, (line) => {
      const { id, error, part, ...answer } = JSON.parse(line) as { id: number } & Partial<ErrorReply & PartLine>;
      const pending = waiting.get(id);
      if (part) {
        if (pending) {
          pending.begun = answer.begun ?? pending.begun;
          pending.onPart?.(part, pending.begun!);
        }
        return;
      }
      waiting.delete(id);
      if (waiting.size === 0) socket.unref();
      if (error) pending?.reject(toError(error));
      else pending?.resolve(answer as never);
    });
    socket.on('error', (error) => {
      cause = error;
    });
    socket.on('close', () => {
      onEnd();
      reject(unreachable(path, 'is not there', cause));
      for (const pending of waiting.values()) pending.reject(unreachable(path, 'went away before it answered', cause));
      waiting.clear();
    });
    socket.on('connect', () => {
      // An idle client does not keep its program alive; a question that waits does.
      socket.unref();
      const send = (line: object): void => {
        socket.write(`${JSON.stringify(line)}\n`);
      };
      resolve({
        ask: (op, request, signal, onPart) =>
          new Promise((answered, failed) => {
            if (socket.destroyed) return failed(unreachable(path, 'went away', cause));
            const id = next++;
            // A cancellation is answered too; its answer has nobody who waits for it.
            const withdraw = () => send({ id: next++, op: 'cancel', request: id });
            const settled =
              <T>(then: (outcome: T) => void) =>
              (outcome: T): void => {
                signal?.removeEventListener('abort', withdraw);
                then(outcome);
              };
            const resolve = settled(answered as (answer: never) => void);
            waiting.set(id, { resolve, reject: settled(failed), onPart, begun: null });
            socket.ref();
            send({ ...request, id, op });
            if (signal?.aborted) withdraw();
            else signal?.addEventListener('abort', withdraw, { once: true });
          }),
        end: () => socket.destroy(),
      });
    });
  });
}

/** The error of a reply. */
export function toError({ code, message, field }: ErrorReply['error']): TroupeError {
  const known = Object.hasOwn(ERRORS, code) ? (code as ErrorCode) : 'internal';
  return new TroupeError(known, message, field === undefined ? {} : { field });
}
