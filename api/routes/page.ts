/** The web page: three files from disk, no build. The content security policy allows these files and this server, nothing else. */
import { readFileSync } from 'node:fs';
import type { FastifyInstance } from 'fastify';
import { documented } from '../openapi.ts';

const FOLDER = new URL('../ui/', import.meta.url);
const FILES = [
  { url: '/', file: 'index.html', type: 'text/html; charset=utf-8', summary: 'The page.' },
  { url: '/ui/page.js', file: 'page.js', type: 'text/javascript; charset=utf-8', summary: 'The script of the page.' },
  { url: '/ui/page.css', file: 'page.css', type: 'text/css; charset=utf-8', summary: 'The styles of the page.' },
] as const;
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

export function pageRoutes(app: FastifyInstance): void {
  for (const { url, file, type, summary } of FILES) {
    const body = readFileSync(new URL(file, FOLDER));
    app.get(
      url,
      documented({
        summary,
        tag: 'page',
        scope: 'read',
        answers: { 200: { about: 'a file', type: type.split(';', 1)[0]! } },
      }),
      async (_request, reply) =>
        reply
          .headers({ 'content-type': type, 'content-security-policy': POLICY, 'cache-control': 'no-cache' })
          .send(body),
    );
  }
}
