/** The side of the thread that handles what `offload.ts` gives it, with an app that has no sockets. */
import type { ServerResponse } from 'node:http';
import type { MessagePort } from 'node:worker_threads';
import type { FastifyInstance, HTTPMethods } from 'fastify';
import { show } from '../gateway/upstream/shown.ts';
import type { FromThread, OffloadedRequest, ToThread } from './offload.ts';

/** Header with the request's id for the hook that holds its response; clients cannot set it. */
const RELAY = 'troupe-offloaded';
/** Bytes of a response per message. */
const PIECE_BYTES = 256 * 1024;
/** Headers of the client's own connection. */
const OF_CONNECTION = ['connection', 'keep-alive', 'transfer-encoding', 'date'];

export type OffloadedApp = {
  /** Before its routes are ready. */
  readonly prepare: (app: FastifyInstance) => void;
  /** Handles requests, and records calls, until the message `close` comes. */
  readonly answer: (app: FastifyInstance, found: () => Readonly<Record<string, number>>) => Promise<void>;
};

export function offloadedApp(port: MessagePort): OffloadedApp {
  const responses = new Map<string, ServerResponse>();
  const send = (message: FromThread): void => port.postMessage(message);
  return {
    prepare: (app) => {
      app.addHook('onRequest', async (request, reply) => {
        responses.set(String(request.headers[RELAY]), reply.raw);
      });
    },
    answer: (app, found) => {
      const handle = async (id: number, request: OffloadedRequest): Promise<void> => {
        try {
          const answer = await app.inject({
            method: request.method as HTTPMethods,
            url: request.url,
            headers: { ...request.headers, [RELAY]: String(id) },
            remoteAddress: request.remoteAddress,
            payload: Buffer.from(request.body.buffer),
            payloadAsStream: true,
          });
          const headers = { ...answer.headers };
          for (const name of OF_CONNECTION) delete headers[name];
          send({ kind: 'head', id, status: answer.statusCode, headers });
          for await (const chunk of answer.stream()) {
            for (let at = 0; at < (chunk as Uint8Array).length; at += PIECE_BYTES) {
              // A copy of its own, so that it changes hands without another copy on the side of the sockets.
              const bytes = new Uint8Array((chunk as Uint8Array).subarray(at, at + PIECE_BYTES));
              port.postMessage({ kind: 'chunk', id, bytes } satisfies FromThread, [bytes.buffer]);
            }
          }
          send({ kind: 'end', id, found: found() });
        } catch (error) {
          send({ kind: 'error', id, message: `The response was interrupted: ${(error as Error).message}` });
        } finally {
          responses.delete(String(id));
        }
      };
      return new Promise((closed) => {
        port.on('message', (message: ToThread) => {
          if (message.kind === 'request') void handle(message.id, message.request);
          else if (message.kind === 'keep') {
            const { id, call } = message;
            void app.keepCall(call).then((kept) => send({ kind: 'kept', id, kept, found: found() }));
          } else if (message.kind === 'show') {
            const bytes = Uint8Array.from(show(message.answer));
            port.postMessage({ kind: 'shown', id: message.id, bytes } satisfies FromThread, [bytes.buffer]);
          } else if (message.kind === 'abort') responses.get(String(message.id))?.destroy();
          else {
            port.unref();
            closed();
          }
        });
      });
    },
  };
}
