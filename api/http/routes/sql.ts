/** SQL queries over HTTP: streamed, limited by caps and a timeout, and cancelled when the client disconnects. */
import { once } from 'node:events';
import { PassThrough } from 'node:stream';
import { got, TroupeError } from '../../../errors.ts';
import type { Db } from '../../../store/db/pool.ts';
import { noReader } from '../../../store/db/reader.ts';
import { MAX_READ_BYTES, MAX_VALUE_BYTES, SQL_CAPS, type SqlCaps } from '../../../store/explore/sql/sql.ts';
import { askAsArrow } from '../../../store/explore/sql/sql-file.ts';
import { askAsText, CSV_FORM, JSON_FORM } from '../../../store/explore/sql/sql-text.ts';
import type { SqlInput } from '../../operations/sql/run.ts';
import { sql as declared } from '../../operations/sql.ts';
import { untilGone } from '../until-gone.ts';
import type { OwnAnswer } from './operations.ts';

/** Queries at once; further ones get 503. As many as the reader has connections. */
const AT_ONCE = 4;

/** Bytes of a response that are buffered before it is sent: an error until then has its own status. */
const HELD_BYTES = 1024 * 1024;

type End = { readonly rows: number; readonly truncated: boolean };

/** Formats of the response by media type; the first is the default. */
const FORMS: Readonly<
  Record<
    string,
    {
      readonly type: string;
      readonly ask: (
        db: Db,
        sql: string,
        caps: SqlCaps,
        write: (bytes: string | Uint8Array) => Promise<void>,
      ) => Promise<End>;
    }
  >
> = {
  'application/json': {
    type: 'application/json; charset=utf-8',
    ask: (db, sql, caps, write) => askAsText(db, sql, JSON_FORM, caps, write),
  },
  'text/csv': {
    type: 'text/csv; charset=utf-8; header=present',
    ask: (db, sql, caps, write) => askAsText(db, sql, CSV_FORM, caps, write),
  },
  'application/vnd.apache.arrow.stream': { type: 'application/vnd.apache.arrow.stream', ask: askAsArrow },
};

/** @param reader the pool of a login that may read the views and nothing else, opened on first use; null if there is none */
export function sqlRoute(reader: () => Promise<Db | null>): OwnAnswer {
  let running = 0;
  return {
    description: `${AT_ONCE} queries run at once, rows are read at most ${MAX_READ_BYTES} bytes at a time, and a value has at most ${MAX_VALUE_BYTES} bytes.`,
    headers: { accept: `the format of the response: ${Object.keys(FORMS).join(', ')}; default JSON` },
    answers: {
      200: {
        about:
          'columns and rows. The header Troupe-Caps names the caps that were used. Troupe-Rows and Troupe-Truncated are headers of a response below 1 MiB and trailers of a longer one. A response that fails after its start is cut off: the connection is closed.',
        schema: declared.output,
        others: Object.keys(FORMS).slice(1),
      },
    },
    answer: async (input, request, reply) => {
      const { sql, limit, max_bytes, timeout_ms } = input as SqlInput;
      const form = formOf(request.headers.accept);
      const caps = {
        limit: limit ?? SQL_CAPS.limit,
        maxBytes: max_bytes ?? SQL_CAPS.maxBytes,
        timeoutMs: timeout_ms ?? SQL_CAPS.timeoutMs,
      };
      if (running >= AT_ONCE) {
        throw new TroupeError(
          'busy',
          `${AT_ONCE} SQL queries are running, which is as many as run at once; try again.`,
        );
      }
      running++;
      const begun = begin(async (write) => {
        const db = await reader();
        if (db === null) throw noReader();
        return form.ask(db, sql, { ...caps, signal: untilGone(reply) }, write);
      });
      void begun.ended.finally(() => running--).catch(() => {});
      const end = await begun.beginning;
      reply
        .header('content-type', form.type)
        .header('cache-control', 'no-store')
        .header('troupe-caps', `rows=${caps.limit}, bytes=${caps.maxBytes}, ms=${caps.timeoutMs}`);
      if (end !== null) {
        reply.header('troupe-rows', end.rows).header('troupe-truncated', String(end.truncated));
      } else {
        reply.trailer('troupe-rows', async () => String((await begun.ended).rows));
        reply.trailer('troupe-truncated', async () => String((await begun.ended).truncated));
      }
      return reply.send(begun.body);
    },
  };
}

/**
 * Starts to write a response. `beginning` resolves when the response is complete (its end) or larger than the buffer (null), and throws
 * earlier errors; a later error destroys `body`.
 */
function begin(work: (write: (bytes: string | Uint8Array) => Promise<void>) => Promise<End>) {
  const body = new PassThrough({ highWaterMark: HELD_BYTES });
  let resolve!: (end: End | null) => void;
  let reject!: (error: Error) => void;
  const beginning = new Promise<End | null>((...both) => {
    [resolve, reject] = both;
  });
  const ended = work(async (bytes) => {
    if (body.write(bytes)) return;
    resolve(null);
    await Promise.race([once(body, 'drain'), once(body, 'close')]);
  });
  ended.then(
    (end) => {
      body.end();
      resolve(end);
    },
    (error: Error) => {
      reject(error);
      body.on('error', () => {}).destroy(error);
    },
  );
  return { body, beginning, ended };
}

/** The format that the client prefers, by its weights; throws `usage` if it accepts none of these. */
function formOf(accept = '*/*') {
  const wanted = accept
    .split(',')
    .map((one) => {
      const [type = '', ...parameters] = one.split(';').map((part) => part.trim().toLowerCase());
      const weight = Number(parameters.find((part) => part.startsWith('q='))?.slice(2) ?? 1);
      return { type, weight };
    })
    .filter(({ weight }) => weight > 0)
    .sort((a, b) => b.weight - a.weight);
  for (const { type } of wanted) {
    if (Object.hasOwn(FORMS, type)) return FORMS[type]!;
    const found = Object.keys(FORMS).find((one) => type === '*/*' || type === `${one.split('/')[0]}/*`);
    if (found !== undefined) return FORMS[found]!;
  }
  const expected = Object.keys(FORMS).join(', ');
  throw new TroupeError('usage', `The header Accept should name one of ${expected}; it is ${got(accept)}.`, {
    field: 'Accept',
    expected,
    got: got(accept),
  });
}
