/** The operations as tools, asked by the official client, over HTTP and over standard input and output, and the snippets of docs/mcp.md. */
import { execFile } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { allOperations } from '../../api/operations/catalogue.ts';
import { writingOf } from '../../api/operations/operation.ts';
import { overHttp, resultField } from '../../api/operations/route.ts';
import { postgresLog } from '../../ingest/log/postgres.ts';
import type { Scope } from '../../store/keys/api-key.ts';
import { createKey } from '../../store/keys/api-keys.ts';
import { anEpisode, event } from '../store/support/events.ts';
import { removeFolder } from '../support/remove-folder.ts';
import { type TestApp, testApp } from './support/app.ts';

const ROOT = join(import.meta.dirname, '../..');
const page = readFileSync(join(ROOT, 'docs/mcp.md'), 'utf8');
const blocks = (language: string) =>
  [...page.matchAll(new RegExp(`\`\`\`${language}\n([\\s\\S]*?)\`\`\``, 'g'))].map(([, text]) => text!);

let at: TestApp;
let url: string;
/** Another one, which has keys. */
let kept: TestApp;
let folder: string;
let env: Record<string, string>;
beforeAll(async () => {
  at = await testApp();
  const many = Array.from({ length: 400 }, (_, i) =>
    event('episode.started', { episode_id: `many-${i}`, task_id: 'x'.repeat(200) }),
  );
  await postgresLog(at.db).append([...anEpisode('e1'), ...many]);
  await at.project();
  url = await at.app.listen({ host: '127.0.0.1', port: 0 });
  kept = await testApp();
  await createKey(kept.db, { name: 'first', scopes: ['admin'], expiresAt: null });
  await kept.app.listen({ host: '127.0.0.1', port: 0 });
  folder = mkdtempSync(join(tmpdir(), 'troupe-mcp-'));
  mkdirSync(join(folder, 'bin'));
  writeFileSync(join(folder, 'bin/npx'), `#!/bin/sh\nshift\nexec node ${ROOT}/bin/troupe.js "$@"\n`);
  chmodSync(join(folder, 'bin/npx'), 0o755);
  const { PATH = '', HOME = '' } = process.env;
  env = { PATH: `${join(folder, 'bin')}:${PATH}`, HOME, DATABASE_URL: at.url, TROUPE_HOME: join(folder, 'home') };
});
afterAll(async () => {
  await at.close();
  await kept.close();
  removeFolder(folder);
});

const addressOf = ({ app }: TestApp): string => `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`;
const client = (mode: 'auto' | 'legacy' = 'auto') =>
  new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode } });
async function overHttpAs(key: string | null, mode?: 'auto' | 'legacy'): Promise<Client> {
  const asked = client(mode);
  const headers: Record<string, string> = key === null ? {} : { authorization: `Bearer ${key}` };
  await asked.connect(
    new StreamableHTTPClientTransport(new URL(`${key === null ? url : addressOf(kept)}/mcp`), {
      requestInit: { headers },
    }),
  );
  return asked;
}
const textsOf = ({ content }: Awaited<ReturnType<Client['callTool']>>) =>
  (content as { readonly text: string }[]).map(({ text }) => text);
const namesOf = async (asked: Client) => (await asked.listTools()).tools.map(({ name }) => name).sort();

/** The names of what a key of these scopes may ask. */
const allowed = async (...scopes: readonly Scope[]) =>
  (await allOperations())
    .filter((one) => overHttp(one) !== null && resultField(one) === undefined && scopes.includes(one.scope))
    .map(({ name }) => name.replace('.', '_'))
    .sort();

describe('over HTTP', () => {
  it.each(['auto', 'legacy'] as const)('only reads without a key, for a client that speaks %s', async (mode) => {
    const asked = await overHttpAs(null, mode);
    const { tools } = await asked.listTools();
    expect(tools.map(({ name }) => name).sort()).toEqual(await allowed('read', 'sql'));
    expect(tools.filter(({ annotations }) => annotations?.readOnlyHint !== true)).toEqual([]);
    const found = await asked.callTool({ name: 'sql', arguments: { sql: 'select count(*)::integer from episodes' } });
    expect(JSON.parse(textsOf(found)[0]!)).toMatchObject({ rows: [[401]], truncated: false });
    expect(textsOf(found)[1]).toBe(`On the page: ${url}/#/sql`);
    await asked.close();
  });

  it('a refusal is a result with its code, field and hint; a tool that is none is an error', async () => {
    const asked = await overHttpAs(null);
    const none = await asked.callTool({ name: 'episodes_show', arguments: { episode: 'nobody' } });
    expect(none.isError).toBe(true);
    expect(JSON.parse(textsOf(none)[0]!).error).toMatchObject({ code: 'not_found', field: 'episode' });
    await expect(asked.callTool({ name: 'key_create', arguments: { name: 'mine' } })).rejects.toThrow('key_create');
    await asked.close();
  });

  it('cuts a long result, says so, and gives the address where all of it is', async () => {
    const asked = await overHttpAs(null);
    const [text, link] = textsOf(await asked.callTool({ name: 'episodes_list', arguments: { limit: 400 } }));
    expect(text!.length).toBeLessThan(41_000);
    expect(text).toMatch(/… the first 40000 of \d+ characters: ask for fewer rows or fields\.$/);
    expect(link).toBe(`On the page: ${url}/#/episodes`);
    const shown = textsOf(await asked.callTool({ name: 'episodes_show', arguments: { episode: 'e1' } }));
    expect(JSON.parse(shown[0]!).episode.episode_id).toBe('e1');
    expect(shown[1]).toBe(`On the page: ${url}/#/episodes/e1`);
    await asked.close();
  });

  it('has the views with their columns as resources', async () => {
    const asked = await overHttpAs(null);
    const { resources } = await asked.listResources();
    const { uri, description } = resources.find(({ name }) => name === 'traj.episodes')!;
    expect(description).toMatch(/\w/);
    const { contents } = await asked.readResource({ uri });
    expect(JSON.parse((contents[0] as { text: string }).text).columns).toContainEqual(
      expect.objectContaining({ name: 'calls', type: 'integer' }),
    );
    await expect(asked.readResource({ uri: 'file:///etc/passwd' })).rejects.toThrow('no resource');
    await asked.close();
  });

  it('no tool takes a path of the server', async () => {
    const declared = new Map((await allOperations()).map((one) => [one.name.replace('.', '_'), one]));
    const { text } = await createKey(kept.db, { name: 'all', scopes: ['admin'], expiresAt: null });
    const asked = await overHttpAs(text);
    for (const { name, inputSchema } of (await asked.listTools()).tools)
      for (const field of Object.keys(inputSchema.properties ?? {}))
        expect([name, field, writingOf(declared.get(name)!.input.properties[field]!).path ?? 'or name']).toEqual([
          ...[name, field, 'or name'],
        ]);
    await asked.close();
  });

  it('a key changes what its scopes allow, in its name', async () => {
    const { text } = await createKey(kept.db, { name: 'trains', scopes: ['read', 'train'], expiresAt: null });
    const asked = await overHttpAs(text);
    expect(await namesOf(asked)).toEqual(await allowed('read', 'train'));
    const job = { kind: 'freeze', spec: { recipe: { name: 'solved', unit: 'step' } } };
    const added = await asked.callTool({
      name: 'schedule_add',
      arguments: { name: 'nightly', cron: '0 3 * * *', job },
    });
    expect(added.isError).not.toBe(true);
    const judged = JSON.parse(textsOf(await asked.callTool({ name: 'judge', arguments: {} }))[0]!);
    expect(judged).toEqual({ job_id: expect.stringMatching(/^operation\/judge\//) });
    await asked.close();
    const wrong = await fetch(`${addressOf(kept)}/mcp`, {
      method: 'POST',
      body: '{}',
      headers: { authorization: 'Bearer no' },
    });
    expect(wrong.status).toBe(401);
  });

  it('answers what is no request with an error of JSON-RPC, and a notification with nothing', async () => {
    const { text } = await createKey(kept.db, { name: 'raw', scopes: ['read'], expiresAt: null });
    const send = (message: unknown) =>
      fetch(`${addressOf(kept)}/mcp`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', authorization: `Bearer ${text}` },
        body: JSON.stringify(message),
      });
    const version = { 'io.modelcontextprotocol/protocolVersion': '2031-01-01' };
    for (const [message, code] of [
      [[], -32600],
      [{ jsonrpc: '2.0', id: 1, method: 'tools/invent' }, -32601],
      [{ jsonrpc: '2.0', id: 1, method: 'tools/list', params: { _meta: version } }, -32022],
    ] as const)
      expect(await (await send(message)).json()).toMatchObject({ error: { code } });
    const notified = await send({ jsonrpc: '2.0', method: 'notifications/initialized' });
    expect([notified.status, await notified.text()]).toEqual([202, '']);
  });
});

describe('docs/mcp.md as printed', () => {
  const { command, args } = JSON.parse(blocks('json')[0]!).mcpServers.troupe;
  const started = async (...more: string[]) => {
    const asked = client();
    await asked.connect(new StdioClientTransport({ command, args: [...args, ...more], env, cwd: folder }));
    return asked;
  };

  it('an agent that reads the settings starts the command, and asks it', async () => {
    const asked = await started();
    expect(await namesOf(asked)).toEqual(await allowed('read', 'sql'));
    const found = await asked.callTool({ name: 'views_show', arguments: { view: 'episodes' } });
    expect(JSON.parse(textsOf(found)[0]!).name).toBe('traj.episodes');
    await asked.close();
  }, 60_000);

  it('with scopes it changes things', async () => {
    const asked = await started('--scopes', 'read,train');
    const judged = await asked.callTool({ name: 'judge', arguments: { methods: [{ method: 'correctness_filter' }] } });
    expect(JSON.parse(textsOf(judged)[0]!)).toMatchObject({ episodes: 1 });
    await asked.close();
  }, 60_000);

  it.each(blocks('sh'))(
    '%s',
    async (block) => {
      const line = block.replace('http://127.0.0.1:7717', url);
      const { stdout } = await promisify(execFile)('sh', ['-ec', line], { cwd: folder, env });
      expect(JSON.parse(stdout)).toMatchObject({ id: 1, result: {} });
    },
    60_000,
  );
});
