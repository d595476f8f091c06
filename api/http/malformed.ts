/** The response to a client that sends invalid HTTP: problem+json as everywhere, and a closed connection. */
import { randomUUID } from 'node:crypto';
import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import { TroupeError } from '../../errors.ts';
import { problemOf } from './problem.ts';

/** Responds and closes. The connection of a request that was cut off is not reused: the next bytes may be its rest. */
export function answerMalformed(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  const status = statusOf(error.code);
  const problem = { ...problemOf(new TroupeError('usage', sentenceOf(status, error)), randomUUID()), status };
  const body = JSON.stringify(problem);
  socket.end(
    [
      `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
      'Content-Type: application/problem+json; charset=utf-8',
      `Content-Length: ${Buffer.byteLength(body)}`,
      'Connection: close',
      '',
      body,
    ].join('\r\n'),
  );
}

function statusOf(code: string | undefined): 400 | 408 | 413 | 431 {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return 408;
  if (code === 'HPE_HEADER_OVERFLOW') return 431;
  return code === 'HPE_CHUNK_EXTENSIONS_OVERFLOW' ? 413 : 400;
}

function sentenceOf(status: number, { code = '', message }: NodeJS.ErrnoException): string {
  if (status === 408) return 'The request did not arrive in time; send it again.';
  if (status === 431) return 'The headers should have at most 16 KiB; they have more.';
  return `The request should be HTTP/1.1; it is not: ${message.replace(/^Parse Error: /, '')} (${code}).`;
}
