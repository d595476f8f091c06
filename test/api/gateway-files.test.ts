/** Images and files in calls of every interface of the gateway: sent on untouched, recorded by name, compared whole. */
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readUpstreams } from '../../api/gateway/upstream/settings.ts';
import { openUpstreams, type Upstreams } from '../../api/gateway/upstream/upstreams.ts';
import { sha256 } from '../../ingest/events/json.ts';
import { fileArtifacts } from '../../ingest/log/artifacts.ts';
import { contextOf } from '../../ingest/log/split.ts';
import { post, type TestApp, testApp } from './support/app.ts';
import { type OpenaiServer, openaiServer } from './support/openai-server.ts';

const data = randomBytes(3000);
const base64 = data.toString('base64');
const url = `data:image/png;base64,${base64}`;
const text = { type: 'text', text: 'What is this?' };

const CALLS = [
  [
    'chat, an image',
    '/v1/chat/completions',
    'image/png',
    { messages: [{ role: 'user', content: [text, { type: 'image_url', image_url: { url } }] }] },
  ],
  [
    'chat, a sound',
    '/v1/chat/completions',
    'audio/wav',
    { messages: [{ role: 'user', content: [{ type: 'input_audio', input_audio: { data: base64, format: 'wav' } }] }] },
  ],
  [
    'chat, a file',
    '/v1/chat/completions',
    'application/pdf',
    {
      messages: [
        {
          role: 'user',
          content: [{ type: 'file', file: { filename: 'a.pdf', file_data: `data:application/pdf;base64,${base64}` } }],
        },
      ],
    },
  ],
  [
    'responses, an image',
    '/v1/responses',
    'image/png',
    {
      input: [
        {
          role: 'user',
          content: [
            { type: 'input_text', text: 'What?' },
            { type: 'input_image', image_url: url },
          ],
        },
      ],
    },
  ],
  [
    'responses, a file',
    '/v1/responses',
    'application/pdf',
    {
      input: [
        {
          role: 'user',
          content: [{ type: 'input_file', filename: 'a.pdf', file_data: `data:application/pdf;base64,${base64}` }],
        },
      ],
    },
  ],
  [
    'messages, an image',
    '/v1/messages',
    'image/jpeg',
    {
      max_tokens: 9,
      messages: [
        {
          role: 'user',
          content: [text, { type: 'image', source: { type: 'base64', media_type: 'image/jpeg', data: base64 } }],
        },
      ],
    },
  ],
  [
    'messages, a document',
    '/v1/messages',
    'application/pdf',
    {
      max_tokens: 9,
      messages: [
        {
          role: 'user',
          content: [{ type: 'document', source: { type: 'base64', media_type: 'application/pdf', data: base64 } }],
        },
      ],
    },
  ],
  [
    'messages, a result of a tool',
    '/v1/messages',
    'image/png',
    {
      max_tokens: 9,
      messages: [
        { role: 'user', content: 'Look.' },
        { role: 'assistant', content: [{ type: 'tool_use', id: 'toolu_1', name: 'look', input: {} }] },
        {
          role: 'user',
          content: [
            {
              type: 'tool_result',
              tool_use_id: 'toolu_1',
              content: [{ type: 'image', source: { type: 'base64', media_type: 'image/png', data: base64 } }],
            },
          ],
        },
      ],
    },
  ],
] as const;

describe('A call through the gateway', () => {
  const folder = mkdtempSync(join(tmpdir(), 'troupe-gateway-files-'));
  let server: OpenaiServer;
  let upstreams: Upstreams;
  let at: TestApp;
  beforeAll(async () => {
    server = await openaiServer();
    upstreams = openUpstreams(readUpstreams({ main: { base_url: server.baseUrl, models: ['echo'] } }, {}));
    at = await testApp({ upstreams, artifacts: fileArtifacts(folder) });
  });
  afterAll(async () => {
    await at.close();
    upstreams.close();
    await server.close();
    rmSync(folder, { recursive: true });
  });
  it('that shows a file which a browser would run has it downloaded', async () => {
    const page = Buffer.from(`<script>${'x'.repeat(2000)}</script>`);
    const file = { filename: 'a.html', file_data: `data:text/html;base64,${page.toString('base64')}` };
    const body = { model: 'echo', messages: [{ role: 'user', content: [{ type: 'file', file }] }] };
    await post(at.app, body, { 'troupe-episode': 'html' }, '/v1/chat/completions');
    const { headers, rawPayload } = await at.app.inject(`/v1/artifacts/${sha256(page)}`);
    expect(headers).toMatchObject({
      'content-type': 'application/octet-stream',
      'content-disposition': 'attachment',
      'x-content-type-options': 'nosniff',
    });
    expect(rawPayload).toEqual(page);
    for (const id of ['nothing', sha256('nothing')])
      expect((await at.app.inject(`/v1/artifacts/${id}`)).json()).toMatchObject({ code: 'not_found', field: 'id' });
  });

  const rows = async (sql: string, episode: string) =>
    (await at.db.query<Record<string, unknown>>(sql, [episode])).rows;

  it.each(CALLS)('of %s is sent on as it came, and recorded with an artifact', async (name, path, media_type, body) => {
    const before = server.asked.length;
    const asked = { model: 'echo', ...body };
    await post(at.app, asked, { 'troupe-episode': name }, path);
    expect(JSON.parse(server.asked[before]!.text)).toEqual(asked);
    await at.project();
    expect(
      await rows(
        `select artifact_id, media_type, size from traj.artifacts where role in ('image', 'file') and episode_id = $1`,
        name,
      ),
    ).toEqual([{ artifact_id: sha256(data), media_type, size: 3000 }]);
    const shown = await rows(
      `select content, artifacts from traj.messages where kind = 'input' and episode_id = $1`,
      name,
    );
    expect(shown.flatMap(({ artifacts }) => artifacts)).toEqual([sha256(data)]);
    expect(JSON.stringify(shown)).not.toContain(base64.slice(0, 100));
    const [stored] = await rows(
      `select max(octet_length(data::text))::integer as most from troupe.stored_events where key = 'e/' || $1 and name <> 'artifact.attached'`,
      name,
    );
    expect(stored!.most).toBeLessThan(1500);

    const got = await at.app.inject(`/v1/artifacts/${sha256(data)}`);
    expect(got.statusCode).toBe(200);
    expect(got.rawPayload).toEqual(data);

    const [event] = await rows(
      `select data from troupe.events where name = 'generation.requested' and key = 'e/' || $1`,
      name,
    );
    const { input } = event!.data as { readonly input: readonly unknown[] };
    expect(JSON.stringify(input)).toContain(base64);
    // A replay compares what a call reads by this name.
    expect(await rows('select context from facts.calls where episode_id = $1', name)).toEqual([
      { context: contextOf('', input).hash },
    ]);
  });
});
