/** Ends work for a client that no longer waits for it. */
import type { FastifyReply } from 'fastify';

/** Aborted when the connection ends before the answer is out. */
export function untilGone({ raw }: FastifyReply): AbortSignal {
  const gone = new AbortController();
  const close = () => {
    if (!raw.writableFinished) gone.abort();
  };
  if (raw.destroyed) close();
  else raw.once('close', close);
  return gone.signal;
}
