import { afterAll, beforeAll, expect, it } from 'vitest';
import { type TestApp, testApp } from './support/app.ts';
import { encoded, NAUGHTY, routesOf } from './support/naughty.ts';

let at: TestApp;
beforeAll(async () => {
  at = await testApp();
});
afterAll(() => at.close());

it('names and values of every route are answered with less than 500', async () => {
  const all = await routesOf(at.app);
  expect(all.length).toBeGreaterThan(20);
  for (const { method, path, names } of all) {
    for (const [i, one] of NAUGHTY.entries()) {
      const filled = path.replaceAll(/\{\w+\}/g, encoded(one) || '%20');
      const plain = path.replaceAll(/\{\w+\}/g, 'x');
      const name = names[i % names.length] ?? 'limit';
      const queries = [`${encoded(one)}=1`, `tag.${encoded(one)}=1`, `${name}=${encoded(one)}`];
      const urls = new Set([filled, plain, ...queries.map((query) => `${plain}?${query}`)]);
      for (const url of urls) {
        const headers = {
          'troupe-episode': one.replaceAll(/[^\x20-\x7e]/g, '?'),
          'content-type': 'application/json',
        };
        const payload = method === 'POST' ? { payload: `{${JSON.stringify(one)}:${JSON.stringify(one)}}` } : {};
        const { statusCode, body } = await at.app.inject({ method, url, headers, ...payload });
        if (statusCode >= 500) expect.fail(`${method} ${url}: ${statusCode} ${body}`);
      }
    }
  }
}, 300_000);
