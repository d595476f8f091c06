/** One POST of JSON to an address of the configuration. No redirect is followed, and the address is checked when connecting. */
import type { lookup as systemLookup } from 'node:dns';
import http from 'node:http';
import https from 'node:https';
import type { Post } from '../../trainer/loop/rewards/score.ts';
import { lookupAllowed } from '../gateway/upstream/connection.ts';
import { passedOn } from '../health/tracing/spans.ts';

/** Bytes of an answer that are read. */
const MOST_BYTES = 1024 * 1024;

/** @returns a `Post`; `lookup` resolves names */
export const postJson =
  (lookup?: typeof systemLookup): Post =>
  (url, body, { key, isPrivate, timeoutS, signal }) => {
    const target = new URL(url);
    const bytes = Buffer.from(JSON.stringify(body));
    const refused = (host: string) =>
      new Error(
        `${host} leads to an address of a private network; nothing was sent. Allow it with private: true beside the address.`,
      );
    const { request } = target.protocol === 'https:' ? https : http;
    const late = AbortSignal.timeout(Math.ceil(timeoutS * 1000));
    return new Promise((resolve, reject) => {
      const failed = (error: NodeJS.ErrnoException) => {
        if (late.aborted) reject(new Error(`It did not answer within ${timeoutS} s.`));
        else if (signal.aborted) reject(new Error('It was stopped before the answer.'));
        else reject(error.code === undefined ? error : new Error(`It could not be reached (${error.code}).`));
      };
      const asked = request(target, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          'content-length': bytes.byteLength,
          ...passedOn(),
          ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
        },
        lookup: lookupAllowed(target.hostname, isPrivate, refused, lookup),
        signal: AbortSignal.any([late, signal]),
        agent: false,
      });
      asked.once('response', (answer) => {
        const parts: Buffer[] = [];
        let size = 0;
        answer.on('data', (part: Buffer) => {
          size += part.length;
          if (size > MOST_BYTES) answer.destroy(new Error(`It answered with more than ${MOST_BYTES} bytes.`));
          else parts.push(part);
        });
        answer.once('error', failed);
        answer.once('end', () =>
          resolve({ status: answer.statusCode ?? 0, text: Buffer.concat(parts).toString('utf8') }),
        );
      });
      asked.once('error', failed);
      asked.end(bytes);
    });
  };
