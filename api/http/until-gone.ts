/** Stops work for a client that has disconnected. */
import type { FastifyReply } from 'fastify';

/** Aborted when the connection ends before the response is sent. */
export function untilGone({ raw }: FastifyReply): AbortSignal {
  const gone = new AbortController();
  const close = () => {
    if (!raw.writableFinished) gone.abort();
  };
  if (raw.destroyed) close();
  else raw.once('close', close);
  return gone.signal;
}
