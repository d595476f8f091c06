/** Whether a model server outside of Troupe answers, looked at again and again: calls may be rare, and its loss is known before the next one. */
import { connectUpstream } from './connection.ts';
import { keyHeaders, type Upstream } from './settings.ts';

const EVERY_MS = 5000;
/** A server that loads weights may be slow to list its models. */
const PATIENCE_MS = 10_000;

export type ServerWatch = {
  /** As of the last look; true before the first. */
  readonly answers: () => boolean;
  readonly close: () => void;
};

/** Begins to look. `onChange` gets the reason why a server no longer answers, and null once it does again. */
export function watchServer(
  upstream: Upstream,
  onChange: (why: string | null) => void,
  { everyMs = EVERY_MS } = {},
): ServerWatch {
  const connection = connectUpstream(upstream);
  const closed = new AbortController();
  let why: string | null = null;
  let looking = false;
  const look = async (): Promise<string | null> => {
    try {
      const [headers, timeoutMs] = [keyHeaders(upstream), PATIENCE_MS];
      const answer = await connection.send({
        method: 'GET',
        path: '/models',
        headers,
        timeoutMs,
        signal: closed.signal,
      });
      answer.resume();
      // Of a proxy before it; whoever is refused was answered.
      return answer.statusCode! < 500 ? null : `The model server ${upstream.name} answers with ${answer.statusCode}.`;
    } catch (error) {
      return (error as Error).message;
    }
  };
  const timer = setInterval(async () => {
    if (looking) return;
    looking = true;
    const now = await look();
    looking = false;
    if (closed.signal.aborted) return;
    const changed = (now === null) !== (why === null);
    why = now;
    if (changed) onChange(now);
  }, everyMs).unref();
  return {
    answers: () => why === null,
    close: () => {
      clearInterval(timer);
      closed.abort();
      connection.close();
    },
  };
}
