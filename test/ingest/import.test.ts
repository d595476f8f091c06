import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { canonicalJson, guardJson } from '../../ingest/events/json.ts';
import { type ImportOptions, type ImportProgress, importFiles } from '../../ingest/files/import.ts';
import { type MemoryLog, memoryLog } from './support/memory-log.ts';
import {
  chatRow,
  completion,
  completionLog,
  FAILURE_LOG,
  failureLog,
  SERVICE_RUN,
  serviceRun,
} from './support/native-samples.ts';

let dir: string;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'troupe-import-'));
});
afterEach(() => rm(dir, { recursive: true }));

const file = async (name: string, content: string | Uint8Array): Promise<string> => {
  const path = join(dir, name);
  await mkdir(join(path, '..'), { recursive: true });
  await writeFile(path, content);
  return path;
};
const lines = (...records: unknown[]): string => records.map((record) => `${JSON.stringify(record)}\n`).join('');
const eventsOf = (memory: MemoryLog): string[] =>
  memory.events.map((event) => canonicalJson([event.key, event.source, event.id, event.digest])).sort();
const importInto = async (memory: MemoryLog, paths: string[], options: Partial<ImportOptions> = {}) =>
  importFiles(paths, { log: memory.log, book: memory.book, artifacts: memory.artifacts, ...options });

describe('an import', () => {
  it('reports what the input holds and what was new', async () => {
    const path = await file(
      'runs.jsonl',
      lines(completion('run-1', 0, 'a'), completion('run-1', 1, 'b'), completion('run-2', 0, 'c')),
    );
    const memory = memoryLog();
    const report = await importInto(memory, [path]);
    expect(report).toEqual({
      format: 'openai-chat',
      files: 1,
      skipped_files: [],
      events: { received: 16, accepted: 16, duplicates: 0, rejected: 0 },
      episodes: 2,
      tasks: 1,
      agents: 1,
      calls: 3,
      steps: 6,
      tool_calls: 0,
      feedback: 0,
      errors: [],
    });
    expect(memory.events).toHaveLength(16);
    for (const name of ['episode.started', 'episode.finished', 'agent.defined']) {
      expect(memory.events.filter((event) => event.name === name)).toHaveLength(2);
    }
  });

  it('of the same file again accepts nothing and counts the same', async () => {
    const path = await file('runs.json', JSON.stringify([SERVICE_RUN, SERVICE_RUN, { ...SERVICE_RUN, trial: 2 }]));
    const memory = memoryLog();
    const first = await importInto(memory, [path]);
    const before = eventsOf(memory);
    const second = await importInto(memory, [path]);
    expect(first.episodes).toBe(3);
    expect(second.events).toEqual({ ...first.events, accepted: 0, duplicates: first.events.accepted });
    expect({ ...second, events: null }).toEqual({ ...first, events: null });
    expect(eventsOf(memory)).toEqual(before);
  });

  it('gives the same events however the records are shuffled, split over files and printed', async () => {
    const kinds = [
      fc.array(serviceRun, { minLength: 1, maxLength: 4 }),
      fc.array(failureLog, { minLength: 1, maxLength: 4 }),
      fc.array(chatRow, { minLength: 1, maxLength: 4 }),
      fc.array(completionLog, { minLength: 1, maxLength: 4 }),
    ];
    const forms = fc.array(fc.constantFrom('lines', 'array', 'pretty', 'documents'), { minLength: 4, maxLength: 4 });
    const list = fc
      .oneof(...kinds)
      .map((records) => JSON.parse(JSON.stringify(records)) as unknown[])
      .filter((records) => guardJson(JSON.stringify(records)) === null);
    const format = (records: readonly unknown[]): string => {
      const [one] = records as Record<string, unknown>[];
      if ('traj' in one!) return 'tau-bench';
      return 'history' in one! ? 'who-when' : 'openai-chat';
    };
    await fc.assert(
      fc.asyncProperty(list, forms, fc.array(fc.nat(), { minLength: 8, maxLength: 8 }), async (records, how, order) => {
        const doubled = [...records, ...records.slice(0, 2)];
        const plain = memoryLog();
        const whole = await file('whole.jsonl', lines(...doubled));
        const report = await importInto(plain, [whole], { format: format(records) });
        const shuffled = doubled
          .map((record, i) => ({ record, rank: order[i % order.length]! * 7919 + i * 31 }))
          .sort((a, b) => (a.rank % 101) - (b.rank % 101))
          .map(({ record }) => record);
        const cut = order[0]! % (shuffled.length + 1);
        const paths: string[] = [];
        for (const [i, part] of [shuffled.slice(0, cut), shuffled.slice(cut)].entries()) {
          if (part.length === 0) continue;
          if (how[i] === 'documents') {
            for (const [j, record] of part.entries())
              paths.push(await file(`part-${i}-${j}.json`, JSON.stringify(record, null, 2)));
          } else {
            const text =
              how[i] === 'lines' ? lines(...part) : JSON.stringify(part, null, how[i] === 'pretty' ? '\t' : undefined);
            paths.push(await file(`part-${i}`, text));
          }
        }
        const other = memoryLog();
        const parts = await importInto(other, paths, { format: format(records) });
        expect(eventsOf(other)).toEqual(eventsOf(plain));
        expect({ ...parts, files: 0, errors: [] }).toEqual({ ...report, files: 0, errors: [] });
        const again = await importInto(plain, paths, { format: format(records) });
        expect(again.events.accepted).toBe(0);
      }),
      { numRuns: 40 },
    );
  });

  it('walks folders in order, skips files of other kinds and says which', async () => {
    await file('d/b/one.json', JSON.stringify(FAILURE_LOG));
    await file('d/a.json', JSON.stringify([SERVICE_RUN]));
    await file('d/LICENSE', 'Do as you like.\n');
    await file('d/empty.json', '');
    await file('d/.hidden/x.json', JSON.stringify([SERVICE_RUN]));
    await symlink(join(dir, 'd'), join(dir, 'd', 'b', 'circle'));
    const report = await importInto(memoryLog(), [join(dir, 'd'), join(dir, 'd', 'a.json')]);
    expect(report).toMatchObject({ format: 'mixed', files: 2, episodes: 2, events: { rejected: 0 }, errors: [] });
    expect(report.skipped_files.map(({ file: path, reason }) => [path.slice(dir.length + 3), reason])).toEqual([
      ['.hidden', 'its name begins with a dot'],
      ['LICENSE', 'no format recognises it'],
      ['empty.json', 'empty'],
    ]);
  });

  it('of a path that is not there fails before anything is read', async () => {
    const memory = memoryLog();
    const good = await file('good.json', JSON.stringify([SERVICE_RUN]));
    await expect(importInto(memory, [good, join(dir, 'nowhere')])).rejects.toMatchObject({ code: 'not_found' });
    expect(memory.events).toEqual([]);
  });

  it('appends in order, in batches of at most 500, each after the artifacts it names', async () => {
    const runs = Array.from({ length: 120 }, (_, trial) => ({ ...SERVICE_RUN, trial }));
    const memory = memoryLog();
    const progress: ImportProgress[] = [];
    const path = await file('runs.json', JSON.stringify(runs));
    const report = await importInto(memory, [path], { onProgress: (state) => progress.push(state) });
    expect(Math.max(...memory.appends)).toBeLessThanOrEqual(500);
    expect(memory.appends.reduce((sum, n) => sum + n)).toBe(report.events.received);
    expect(memory.bodies.size).toBe(120);
    const attempts = memory.events.flatMap((event) =>
      event.name === 'episode.started' ? [(event.data as { attempt: number }).attempt] : [],
    );
    expect(attempts).toEqual(runs.map((run) => run.trial));
    expect(progress.length).toBeGreaterThan(2);
    expect(progress.at(-1)).toEqual({
      file: path,
      bytesDone: progress[0]!.bytesTotal,
      bytesTotal: progress[0]!.bytesTotal,
      events: report.events.received,
    });
    const done = progress.map((state) => state.bytesDone);
    expect([...done].sort((a, b) => a - b)).toEqual(done);
  });

  it('appends a session of 100 calls whose contexts have 60 MB together at once, since what calls share lies once', async () => {
    const messages = Array.from({ length: 200 }, (_, i) => ({
      role: i % 2 === 0 ? 'user' : 'assistant',
      content: `${i} `.repeat(2000),
    }));
    const memory = memoryLog();
    await importInto(memory, [await file('session.jsonl', JSON.stringify({ messages }))]);
    const asked = memory.events.filter(({ name }) => name === 'generation.requested');
    expect(asked.reduce((sum, { json }) => sum + json.length, 0)).toBeGreaterThan(60_000_000);
    expect(memory.appends).toEqual([memory.events.length]);
  });

  it('keeps the original record as an artifact named by its hash', async () => {
    const memory = memoryLog();
    await importInto(memory, [await file('log.json', JSON.stringify(FAILURE_LOG, null, 1))]);
    const started = memory.events.find((event) => event.name === 'episode.started')!;
    const id = (started.data as unknown as { raw: { artifact_id: string } }).raw.artifact_id;
    expect(JSON.parse(String(memory.bodies.get(id)))).toEqual(FAILURE_LOG);
    expect(memory.events.find((event) => event.name === 'artifact.attached')!.data).toMatchObject({
      artifact_id: id,
      sha256: id,
      role: 'raw-record',
    });
  });

  it('run dry appends nothing, counts the same and says where fields go', async () => {
    const path = await file('runs.json', JSON.stringify([SERVICE_RUN]));
    const memory = memoryLog();
    const dry = await importInto(memory, [path], { dryRun: true });
    const real = await importInto(memoryLog(), [path]);
    expect(memory.events).toEqual([]);
    expect(memory.reports).toEqual([]);
    expect(memory.bodies.size).toBe(0);
    expect(dry).toMatchObject({ ...real, events: { ...real.events, accepted: 0 } });
    expect(dry.mapping).toContainEqual({ format: 'tau-bench', native: 'trial', ours: 'episode.started.attempt' });
    expect(dry.unmapped).toContainEqual({
      format: 'tau-bench',
      field: 'episode.finished.unmapped.info.user_cost',
      events: 1,
    });
  });

  it('interrupted keeps what it had read and goes on when run again', async () => {
    const runs = Array.from({ length: 200 }, (_, trial) => ({ ...SERVICE_RUN, trial }));
    const path = await file('runs.jsonl', lines(...runs));
    const memory = memoryLog();
    const stop = new AbortController();
    const partial = importInto(memory, [path], { signal: stop.signal, onProgress: () => stop.abort() });
    await expect(partial).rejects.toMatchObject({ code: 'interrupted' });
    const kept = memory.events.length;
    expect(kept).toBeGreaterThan(0);
    const rest = await importInto(memory, [path]);
    expect(rest.events.duplicates).toBe(kept);
    expect(rest.events.accepted).toBe(rest.events.received - kept);
  });

  it('fails as the log fails, without an answer of its own', async () => {
    const memory = memoryLog();
    const log = { ...memory.log, append: () => Promise.reject(new Error('the log is away')) };
    const path = await file('runs.json', JSON.stringify([SERVICE_RUN]));
    await expect(importInto(memory, [path], { log })).rejects.toThrow('the log is away');
  });
});
