/** Files of recorded work that hold images: each import has them as artifacts, gives them back whole, and takes them again as duplicates. */
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { sha256 } from '../../ingest/events/json.ts';
import { exportEvents, type StoredEvent } from '../../ingest/files/export.ts';
import { importFiles } from '../../ingest/files/import.ts';
import { fileArtifacts } from '../../ingest/log/artifacts.ts';
import { postgresBook, postgresLog } from '../../ingest/log/postgres.ts';
import { judgeAgain } from '../../store/evaluate/judging/judge.ts';
import { reconcile } from '../../store/log/reconcile.ts';
import { projectAll } from '../../store/projecting/projector.ts';
import { checksum } from '../../store/projecting/rebuilding/checksum.ts';
import { rebuild } from '../../store/projecting/rebuilding/rebuild.ts';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { chat, message, request, text } from './support/spans.ts';

const data = randomBytes(3000);
const base64 = data.toString('base64');
const source = { type: 'base64', media_type: 'image/png', data: base64 };
const usage = { input_tokens: 1, output_tokens: 1 };

const openaiChat = {
  messages: [
    {
      role: 'user',
      content: [
        { type: 'text', text: 'What is this?' },
        { type: 'image_url', image_url: { url: `data:image/png;base64,${base64}` } },
      ],
    },
    { role: 'assistant', content: 'A square.' },
  ],
};
const anthropic = {
  messages: [
    { role: 'user', content: 'Look at the screen.' },
    { role: 'assistant', content: [{ type: 'tool_use', id: 'toolu_1', name: 'screenshot', input: {} }] },
    { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'toolu_1', content: [{ type: 'image', source }] }] },
    { role: 'assistant', content: [{ type: 'text', text: 'A square.' }] },
  ],
};
const otlp = request([
  chat(
    { id: 1 },
    [message('assistant', text('A square.'))],
    [
      message('user', text('What is this?'), {
        type: 'blob',
        modality: 'image',
        mime_type: 'image/png',
        content: base64,
      }),
    ],
  ),
]);
const line = (n: number, type: string, body: object, more: object = {}) => ({
  ...{ type, uuid: `u${n}`, parentUuid: n === 0 ? null : `u${n - 1}`, sessionId: 's', cwd: '/w', version: '2.1.0' },
  ...{ timestamp: `2026-11-20T10:00:0${n}.000Z`, isSidechain: false, userType: 'external', message: body, ...more },
});
const claudeCode = [
  line(0, 'user', { role: 'user', content: 'Look at the screen.' }),
  line(1, 'assistant', {
    id: 'msg_1',
    type: 'message',
    role: 'assistant',
    model: 'm',
    content: [{ type: 'tool_use', id: 't1', name: 'Read', input: {} }],
    usage,
  }),
  line(
    2,
    'user',
    { role: 'user', content: [{ type: 'tool_result', tool_use_id: 't1', content: [{ type: 'image', source }] }] },
    { toolUseResult: { type: 'image', file: { base64, type: 'image/png' } } },
  ),
  line(3, 'assistant', {
    id: 'msg_2',
    type: 'message',
    role: 'assistant',
    model: 'm',
    content: [{ type: 'text', text: 'A square.' }],
    usage,
  }),
];

describe.each([
  ['openai-chat', [openaiChat]],
  ['anthropic messages as openai-chat', [anthropic]],
  ['otlp', [otlp]],
  ['claude-code', claudeCode],
] as const)('An import of %s with an image', (name, records) => {
  let fresh: TestDatabase;
  let folder: string;
  beforeEach(async () => {
    fresh = await freshDatabase();
    folder = mkdtempSync(join(tmpdir(), 'troupe-import-artifacts-'));
  });
  afterEach(async () => {
    await fresh.close();
    rmSync(folder, { recursive: true });
  });
  const imported = async (file: string, db = fresh.db) => {
    const options = {
      log: postgresLog(db),
      book: postgresBook(db),
      artifacts: fileArtifacts(join(folder, 'artifacts')),
    };
    const { events } = await importFiles([file], options);
    await projectAll(db);
    return events;
  };

  it('has it as an artifact, whole in an export, once, and the same after a rebuild', async () => {
    const { db } = fresh;
    const file = join(folder, `${name}.jsonl`);
    writeFileSync(file, records.map((record) => `${JSON.stringify(record)}\n`).join(''));
    const first = await imported(file);
    expect(first).toMatchObject({ duplicates: 0, rejected: 0 });
    const shown = await db.query<{ artifact_id: string; media_type: string; size: number; messages: number }>(
      `select distinct a.artifact_id, a.media_type, a.size, (select count(*)::integer from traj.messages m
         where m.episode_id = a.episode_id and a.artifact_id = any(m.artifacts)) > 0 as shown
       from traj.artifacts a where a.role = 'image'`,
    );
    expect(shown.rows).toEqual([{ artifact_id: sha256(data), media_type: 'image/png', size: 3000, shown: true }]);
    const { rows: held } = await db.query<{ n: number }>(
      `select (select count(*) from troupe.bodies where position($1 in body) > 0)::integer
         + (select count(*) from troupe.stored_events where position($1 in data::text) > 0)::integer as n`,
      [base64.slice(1000, 1100)],
    );
    expect(held).toEqual([{ n: 0 }]);
    expect(await imported(file)).toEqual({ ...first, accepted: 0, duplicates: first.accepted });
    const before = await checksum(db);
    await rebuild(db, { judge: judgeAgain });
    expect(await checksum(db)).toEqual(before);
    expect((await reconcile(db)).orphans).toEqual({});

    const { rows: events } = await db.query<StoredEvent>(
      'select name, type_version, source, id, time, data from troupe.events order by partition, position',
    );
    const lines: string[] = [];
    for await (const exported of exportEvents(events)) lines.push(exported);
    expect(lines.join('')).toContain(base64);
    const other = await freshDatabase();
    try {
      writeFileSync(join(folder, 'exported.jsonl'), lines.join(''));
      await imported(join(folder, 'exported.jsonl'), other.db);
      const sums = (await checksum(other.db)).tables;
      expect(sums.events).toEqual(before.tables.events);
      expect(sums.contexts).toEqual(before.tables.contexts);
      expect(sums.steps).toEqual(before.tables.steps);
    } finally {
      await other.close();
    }
  });
});
