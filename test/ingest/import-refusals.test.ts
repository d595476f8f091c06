import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { exportEvents } from '../../ingest/files/export.ts';
import { type ImportOptions, importFiles } from '../../ingest/files/import.ts';
import { type MemoryLog, memoryLog } from './support/memory-log.ts';
import { completion, FAILURE_LOG, SERVICE_RUN } from './support/native-samples.ts';

let dir: string;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'troupe-refusals-'));
});
afterEach(() => rm(dir, { recursive: true }));

const importText = async (
  memory: MemoryLog,
  content: string | Uint8Array,
  { name = 'file', ...options }: Partial<ImportOptions> & { name?: string } = {},
) => {
  const path = join(dir, name);
  await writeFile(path, content);
  return importFiles([path], { log: memory.log, book: memory.book, artifacts: memory.artifacts, ...options });
};
const event = (id: string, data: object, type = 'troupe.task.defined.v1') =>
  JSON.stringify({ specversion: '1.0', id, source: '/test', type, data });
const GOOD = event('good', { task_id: 't' });
const LOG = JSON.stringify(completion('run-1', 0, 'a'));
const withMetadata = (metadata: object): string => {
  const log = completion('run-1', 0, 'a');
  return JSON.stringify({ ...log, request: { ...log.request, metadata } });
};

describe('a bad record is refused by file, line and field, and the good ones beside it are kept', () => {
  const cases: [what: string, good: string, bad: string, code: string, field: string][] = [
    ['not JSON', GOOD, 'not json', 'bad_json', ''],
    ['a cut line', GOOD, '{"specversion": "1.0", "id": "x', 'bad_json', ''],
    ['a list', GOOD, '[]', 'bad_shape', ''],
    ['a scalar', LOG, '3', 'bad_type', ''],
    ['200 levels', GOOD, `{"data":${'['.repeat(200)}${']'.repeat(200)}}`, 'too_deep', ''],
    ['a wrong type', GOOD, event('x', { task_id: 7 }), 'bad_type', 'data.task_id'],
    ['an unknown event', GOOD, event('x', {}, 'troupe.nothing.v1'), 'unknown_event', 'type'],
    ['U+0000 in an id', GOOD, event('a\u0000', { task_id: 'x' }), 'bad_identifier', 'id'],
    ['U+0000 in a task id', GOOD, event('x', { task_id: 'a\u0000' }), 'bad_identifier', 'data.task_id'],
    [
      'a lone surrogate in a run id',
      LOG,
      withMetadata({ run_id: '\ud800' }),
      'bad_identifier',
      'request.metadata.run_id',
    ],
    ['a record of another format', GOOD, JSON.stringify(FAILURE_LOG), 'bad_type', 'type'],
    ['a record of another format', LOG, JSON.stringify(SERVICE_RUN), 'bad_type', 'messages'],
    ['a record of another format', JSON.stringify(SERVICE_RUN), JSON.stringify(FAILURE_LOG), 'bad_type', 'info'],
  ];
  it.each(cases)('%s', async (_, good, bad, code, field) => {
    const clean = memoryLog();
    await importText(clean, `${good}\n`);
    const memory = memoryLog();
    const report = await importText(memory, `${good}\n\n${bad}\n${good.replace('good', 'other')}\n`);
    expect(report.errors).toEqual([
      { file: join(dir, 'file'), line: 3, code, field, expected: expect.any(String), got: expect.any(String) },
    ]);
    expect(report.events.rejected).toBe(1);
    expect(memory.events.length).toBeGreaterThanOrEqual(clean.events.length);
    expect(memory.letters().map((letter) => [letter.place, String(letter.raw)])).toEqual([
      [`${join(dir, 'file')}:3`, bad],
    ]);
  });

  it('a line of 50 MB', async () => {
    const large = `{"messages":"${'x'.repeat(50 * 1024 * 1024)}"}`;
    const memory = memoryLog();
    const report = await importText(memory, `${GOOD}\n${large}\n${event('b', { task_id: 'u' })}\n`);
    expect(report.errors).toMatchObject([{ line: 2, code: 'too_large', field: '', got: `${large.length} bytes` }]);
    expect(memory.events).toHaveLength(2);
    expect(memory.letters()[0]!.raw.length).toBeLessThanOrEqual(64 * 1024);
  });

  it('a repeated id with another body: the first stays, also over two imports', async () => {
    const memory = memoryLog();
    const other = event('good', { task_id: 't', query: 'else' });
    const report = await importText(memory, `${GOOD}\n${GOOD}\n${other}\n`);
    expect(report.events).toEqual({ received: 3, accepted: 1, duplicates: 1, rejected: 1 });
    expect(report.errors).toMatchObject([{ line: 3, code: 'id_conflict', field: 'id' }]);
    const later = await importText(memory, `\n${other}\n`, { name: 'later' });
    expect(later.errors).toMatchObject([{ file: join(dir, 'later'), line: 2, code: 'id_conflict' }]);
    expect(JSON.parse(String(memory.letters()[0]!.raw)).data.query).toBe('else');
    expect(memory.events).toHaveLength(1);
  });

  it('received = accepted + duplicates + rejected, to the caller and to the book', async () => {
    const memory = memoryLog();
    const bad = Array.from({ length: 1200 }, (_, i) => `{"broken ${i}`).join('\n');
    const report = await importText(memory, `${GOOD}\n${GOOD}\n${bad}\n${event('b', { task_id: 'u' })}\n`);
    expect(report.events).toEqual({ received: 1203, accepted: 2, duplicates: 1, rejected: 1200 });
    expect([report.errors.length, report.errors_omitted]).toEqual([1000, 200]);
    const sums = { received: 0, acknowledged: 0, duplicates: 0, rejected: 0 };
    for (const one of memory.reports) {
      expect(one.received).toBe(one.acknowledged + one.duplicates + one.rejected.length);
      sums.received += one.received;
      sums.acknowledged += one.acknowledged;
      sums.duplicates += one.duplicates;
      sums.rejected += one.rejected.length;
    }
    expect(sums).toEqual({ received: 1203, acknowledged: 2, duplicates: 1, rejected: 1200 });
  });

  it('a table of CSV or a database, with the form in which its rows are read', async () => {
    for (const text of ['id,name\n1,"a"\n', 'SQLite format 3\0']) {
      const { errors } = await importText(memoryLog(), text);
      expect(errors).toMatchObject([
        { code: 'unknown_format', expected: expect.stringMatching(/CSV or SQLite, an object a row/) },
      ]);
    }
  });

  it('a file that was named and that no format knows', async () => {
    const report = await importText(memoryLog(), 'Dear reader,\nthis is a letter.\n');
    expect(report).toMatchObject({ format: null, files: 0, events: { rejected: 1 } });
    expect(report.errors).toMatchObject([{ line: null, code: 'unknown_format', got: '"Dear reader,"' }]);
    const cut = await importText(memoryLog(), '{"history": [{"role": "human"');
    expect(cut.errors).toMatchObject([{ line: 1, code: 'bad_json' }]);
  });

  it.each([
    [
      'messages under another name',
      { id: 1, trajectory: [{ role: 'user', content: 'q' }] },
      'trajectory',
      'The member "trajectory" is a list of chat messages; under the name "messages" it is read as openai-chat.',
    ],
    [
      'records in a wrapping',
      { page: 1, data: [SERVICE_RUN] },
      'data',
      'The member "data" is of the format tau-bench; this list alone is read.',
    ],
    [
      'one record in a wrapping',
      { result: SERVICE_RUN },
      'result',
      'The member "result" is of the format tau-bench; this object alone is read.',
    ],
  ])('a file that is nearly of a format, with what would be read: %s', async (_, content, field, hint) => {
    const { errors } = await importText(memoryLog(), JSON.stringify(content));
    expect(errors).toMatchObject([{ code: 'unknown_format', field }]);
    expect(errors[0]!.expected).toMatch(`${hint} Expected JSON or JSON Lines`);
  });

  it('a file read as a format that it is not', async () => {
    const report = await importText(memoryLog(), LOG, { format: 'who-when' });
    expect(report.errors).toMatchObject([{ line: 1, code: 'bad_type', field: 'history' }]);
    await expect(importText(memoryLog(), LOG, { format: 'no-such' })).rejects.toMatchObject({ code: 'usage' });
  });
});

describe('no JSON at all makes an import fail', () => {
  it('whatever the format it is read as', async () => {
    const key = fc.constantFrom(
      'messages',
      'role',
      'content',
      'tool_calls',
      'id',
      'function',
      'name',
      'request',
      'response',
      'choices',
      'index',
      'message',
      'metadata',
      'traj',
      'info',
      'task',
      'history',
      'mistake_agent',
      'mistake_step',
      'type',
      'data',
      'error',
    );
    const { value } = fc.letrec((tie) => ({
      value: fc.oneof(
        { maxDepth: 5 },
        fc.constantFrom<unknown>(null, 0, 'assistant', 'tool', 'c', '', true, -1.5, 'troupe.task.defined.v1'),
        fc.array(tie('value'), { maxLength: 3 }),
        fc.dictionary(key, tie('value'), { maxKeys: 6 }),
      ),
    }));
    const formats = fc.constantFrom('tau-bench', 'who-when', 'openai-chat', 'troupe-events');
    await fc.assert(
      fc.asyncProperty(fc.array(value, { minLength: 1, maxLength: 5 }), formats, async (records, format) => {
        const text = records.map((record) => JSON.stringify(record)).join('\n');
        const { events } = await importText(memoryLog(), `${text}\n`, { format });
        expect(events.received).toBe(events.accepted + events.duplicates + events.rejected);
      }),
      { numRuns: 150 },
    );
  });
});

describe('U+0000 and lone surrogates in text', () => {
  it('come back as they were sent, through import, log and export', async () => {
    const content = 'zero \u0000, alone \ud800 and \udc00, mark \ufffe0000, whole \u{1f642}';
    const sent = JSON.stringify({
      specversion: '1.0',
      id: 'm',
      source: '/test',
      type: 'troupe.message.sent.v1',
      datacontenttype: 'application/json',
      data: { episode_id: 'e', message_id: 'm', content, unmapped: { more: ['\u0000'] } },
    });
    const memory = memoryLog();
    await importText(memory, `${sent}\n`);
    expect(memory.events[0]!.json).not.toMatch(/\\u0000|\\ud800/);
    const written: string[] = [];
    for await (const line of exportEvents(memory.events)) written.push(line);
    expect(JSON.parse(written[0]!)).toEqual(JSON.parse(sent));
    const again = await importText(memory, written.join(''), { name: 'again' });
    expect(again.events).toEqual({ received: 1, accepted: 0, duplicates: 1, rejected: 0 });
  });
});

describe('a record that is refused whole leaves no empty episode', () => {
  it.each([
    [
      'openai-chat',
      {
        messages: [
          { role: 'user', content: 7 },
          { role: 'assistant', content: 8 },
        ],
      },
    ],
    [
      'sharegpt',
      {
        conversations: [
          { from: 'human', value: 7 },
          { from: 'gpt', value: 8 },
        ],
      },
    ],
    ['autogen', { messages: [{ source: 7, type: 'TextMessage', content: 'q', models_usage: null }] }],
    ['tau-bench', { task_id: 1, reward: null, info: { task: { instruction: 'q' } }, traj: [{ role: 7 }, 8] }],
    ['who-when', { question: 'q', mistake_agent: 'a', history: [{ role: 7, content: 8 }] }],
    ['xlam', { unique_trajectory_id: 'x', conversation: [{ role: 7, content: 8 }] }],
    ['adp', { id: 'a', content: [{ class_: 'api_action', function: 7 }] }],
    ['atif', { schema_version: 'ATIF-v1.7', session_id: 's', agent: { name: 'a' }, steps: [{ source: 7 }] }],
    ['mini-swe-agent', { trajectory_format: 'mini-swe-agent-1.1', info: {}, messages: [{ role: 7 }] }],
    ['swe-agent', { trajectory: [7, 8], info: {}, history: [] }],
  ])('of %s', async (format, record) => {
    const memory = memoryLog();
    const report = await importText(memory, JSON.stringify(record), { format });
    expect(report.errors.length).toBeGreaterThan(0);
    expect(report.episodes).toBe(0);
    expect(memory.events.map(({ name }) => name)).toEqual([]);
    expect(memory.letters().length).toBe(report.errors.length);
  });
});
