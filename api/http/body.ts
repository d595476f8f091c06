/** A request's body as text: media type, encoding, size and UTF-8, checked before anything reads its content. */
import type { IncomingHttpHeaders } from 'node:http';
import { promisify } from 'node:util';
import { brotliDecompress, gunzip, inflate as inflateZlib } from 'node:zlib';
import { got, TroupeError } from '../../errors.ts';
import { BodyRefused } from './problem.ts';

/** Largest body that is taken, as sent and as inflated, in bytes. */
export const BODY_LIMIT = 32 * 1024 * 1024;

const inflaters = {
  gzip: promisify(gunzip),
  'x-gzip': promisify(gunzip),
  deflate: promisify(inflateZlib),
  br: promisify(brotliDecompress),
} as const;

/** The media type without parameters, in lower case; throws `unsupported_media` unless it is one of `allowed` in UTF-8. */
export function mediaType<T extends string>(headers: IncomingHttpHeaders, allowed: readonly T[]): T {
  const written = headers['content-type'] ?? '';
  const [type = '', ...parameters] = written.split(';').map((part) => part.trim().toLowerCase());
  const charset = parameters
    .find((part) => part.startsWith('charset='))
    ?.slice(8)
    .replaceAll('"', '');
  if (allowed.includes(type as T) && (charset === undefined || /^(?:utf-?8|us-ascii)$/.test(charset))) return type as T;
  throw new TroupeError(
    'unsupported_media',
    `The Content-Type should be one of ${allowed.join(', ')}, in UTF-8; it is ${got(written)}.`,
    {
      field: 'Content-Type',
      expected: allowed.join(', '),
      got: got(written),
    },
  );
}

/**
 * The inflated bytes of a body (gzip, deflate, br or as it is).
 * Throws `unsupported_media` for another encoding, `too_large` past `limit` bytes, `BodyRefused` for damaged compression.
 */
export async function inflate(body: Uint8Array, headers: IncomingHttpHeaders, limit = BODY_LIMIT): Promise<Uint8Array> {
  const encoding = (headers['content-encoding'] ?? 'identity').trim().toLowerCase();
  if (encoding === 'identity') return body;
  if (!Object.hasOwn(inflaters, encoding)) {
    throw new TroupeError(
      'unsupported_media',
      `The Content-Encoding should be gzip, deflate, br or identity; it is ${got(encoding)}.`,
      {
        field: 'Content-Encoding',
        expected: 'gzip, deflate, br, identity',
        got: got(encoding),
      },
    );
  }
  try {
    return await inflaters[encoding as keyof typeof inflaters](body, { maxOutputLength: limit });
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') {
      throw new TroupeError('too_large', `The body has more than ${limit} bytes when it is inflated.`, {
        expected: `at most ${limit} bytes`,
        got: 'more',
        hint: 'Send it as several requests.',
      });
    }
    throw new BodyRefused({
      code: 'bad_shape',
      field: '',
      expected: `a body in ${encoding}`,
      got: (cause as Error).message,
    });
  }
}
