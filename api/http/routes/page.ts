/** The web page: files from disk, no build. The content security policy allows these files and this server, nothing else. */
import { readdirSync, readFileSync } from 'node:fs';
import type { FastifyInstance } from 'fastify';
import { documented } from '../openapi.ts';

const FOLDER = new URL('../../page/', import.meta.url);
const TYPES = { html: 'text/html', js: 'text/javascript', css: 'text/css' } as const;
const FILES = readdirSync(FOLDER).map((file) => {
  const type = TYPES[file.split('.').at(-1) as keyof typeof TYPES];
  return file === 'index.html'
    ? { url: '/', file, type, summary: 'The page.' }
    : { url: `/ui/${file}`, file, type, summary: `A file of the page: ${file}.` };
});
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

export function pageRoutes(app: FastifyInstance): void {
  app.get(
    '/docs',
    documented({
      summary: 'The operations, on the page.',
      tag: 'page',
      scope: 'read',
      answers: { 302: { about: 'there' } },
    }),
    async (_request, reply) => reply.redirect('/#/docs'),
  );
  for (const { url, file, type, summary } of FILES) {
    const body = readFileSync(new URL(file, FOLDER));
    app.get(
      url,
      documented({
        summary,
        tag: 'page',
        scope: 'read',
        answers: { 200: { about: 'a file', type } },
      }),
      async (_request, reply) =>
        reply
          .headers({
            'content-type': `${type}; charset=utf-8`,
            'content-security-policy': POLICY,
            'cache-control': 'no-cache',
          })
          .send(body),
    );
  }
}
