import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { document, type Shell, warmShell } from './support/troupe.ts';

describe('troupe key', () => {
  let database: TestDatabase;
  let at: Shell;
  beforeAll(async () => {
    database = await freshDatabase();
    at = warmShell({ DATABASE_URL: database.url });
  });
  afterAll(async () => {
    await at.remove();
    await database.close();
  });

  it('makes a key that is shown once, lists it without what opens, serves beyond this machine with it, and revokes it', async () => {
    const alone = await at.run(['run', 'serve', '--port', '0', '--host', '0.0.0.0']);
    expect(alone).toMatchObject({ code: 2, out: '' });
    expect(JSON.parse(alone.err)).toMatchObject({
      level: 'error',
      role: 'serve',
      msg: expect.stringMatching(/^troupe: Without an API key Troupe listens on this machine only/),
    });

    const made = await at.run(['key', 'create', '--scopes', 'ingest, read', '--name', 'both', '--json']);
    const { key, lookup, expires_at } = document(made);
    expect(Date.parse(expires_at)).toBeGreaterThan(Date.now() + 89 * 86_400_000);
    const listed = await at.run(['key', 'list', '--json']);
    expect(listed.out).not.toContain(key.slice(20));
    expect(document(listed).items).toMatchObject([{ lookup, name: 'both', scopes: ['ingest', 'read'], state: 'live' }]);

    const serving = at.start(['run', 'serve', '--port', '0', '--host', '0.0.0.0', '--json']);
    const { address } = JSON.parse(
      (await serving.waitForOutput(/^\{"role".*\n/m)).split('\n').find((line) => line.startsWith(`{"role"`)) as string,
    );
    const url = address.replace('0.0.0.0', '127.0.0.1');
    const ask = (path: string, more: object = {}) => fetch(`${url}${path}`, more);
    expect((await ask('/healthz')).status).toBe(200);
    expect((await ask('/v1/episodes')).status).toBe(401);
    const headers = { authorization: `Bearer ${key}` };
    expect((await ask('/v1/episodes', { headers })).status).toBe(200);

    expect((await at.run(['key', 'revoke', key])).out).toBe(`Revoked: ${lookup} (both)\n`);
    await expect
      .poll(async () => (await ask('/v1/episodes', { headers })).status, { timeout: 30_000, interval: 500 })
      .toBe(401);
    serving.child.kill('SIGTERM');
    const ended = await serving.ended;
    expect(ended.code).toBe(0);
    expect(ended.out + ended.err).not.toContain(key.slice(20));
  }, 60_000);

  it.each([
    [['--scopes', 'everything', '--name', 'x'], '--scopes'],
    [['--scopes', '', '--name', 'x'], '--scopes'],
    [['--scopes', 'read', '--name', ' '], '--name'],
    [['--scopes', 'read', '--name', 'x', '--expires', 'soon'], '--expires'],
    [['--scopes', 'read', '--name', 'x', '--expires', '0d'], '--expires'],
  ])('refuses %j', async (args, option) => {
    const { code, err } = await at.run(['key', 'create', ...args]);
    expect([code, err.includes(option)]).toEqual([2, true]);
  });

  it('says when a key ends, because it does so after 90 days where nothing else was asked for', async () => {
    const { err } = await at.run(['key', 'create', '--scopes', 'ingest', '--name', 'agents']);
    const day = new Date(Date.now() + 90 * 86_400_000).toISOString().slice(0, 7);
    expect(err).toContain(`It is not shown again and ends on ${day}-`);
    const forever = await at.run(['key', 'create', '--scopes', 'ingest', '--name', 'more', '--expires', 'never']);
    expect(forever.err).toContain('It is not shown again. Revoke it with');
    for (const name of ['agents', 'more']) await at.run(['key', 'revoke', name]);
  }, 60_000);
});
