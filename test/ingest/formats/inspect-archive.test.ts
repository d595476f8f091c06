/**
 * Recorded with inspect_ai 0.3.285 (zstd; one run whole, one whose process ended in its second sample) and 0.3.110 (deflate), with a
 * scripted model that billed 10 + n tokens in and 3 n out for its nth answer.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import { importFiles } from '../../../ingest/files/import.ts';
import { openRecordFile } from '../../../ingest/files/read-file.ts';
import { memoryLog } from '../support/memory-log.ts';
import { zipBytes } from '../support/zip-bytes.ts';

const RECORDED = join(import.meta.dirname, 'recorded/inspect');
const folder = mkdtempSync(join(tmpdir(), 'troupe-eval-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function write(name: string, bytes: Uint8Array): string {
  const path = join(folder, name);
  writeFileSync(path, bytes);
  return path;
}

async function imported(path: string) {
  const memory = memoryLog();
  const report = await importFiles([path], memory);
  const refused = report.errors.map(({ code, field, line }) => `${code} ${field} ${line}`);
  return { memory, report, refused };
}

const usages = (memory: ReturnType<typeof memoryLog>) =>
  memory.events.flatMap(({ name, data }) =>
    name === 'generation.completed' ? [(data as { usage: Record<string, number> }).usage] : [],
  );

const sample = (id: string, more = '"scores":{}') =>
  `{"id":"${id}","epoch":1,"input":"q","target":"t","messages":[{"role":"assistant","content":"a"}],${more}}`;
const HEADER = '{"version":2,"eval":{"run_id":"r","eval_id":"e","task":"k","model":"m"}}';

describe('An .eval archive of Inspect', () => {
  it.each(['cities.eval', 'deflated.eval'])(
    '%s is 2 episodes: 4 calls as billed, 3 tool calls, 2 scores',
    async (name) => {
      const { memory, report } = await imported(join(RECORDED, name));
      expect(report).toMatchObject({
        ...{ format: 'inspect', files: 1, episodes: 2, tasks: 2, calls: 4, tool_calls: 3, feedback: 2, errors: [] },
      });
      expect(usages(memory)).toMatchObject([
        { input_tokens: 11, output_tokens: 3 },
        { input_tokens: 12, output_tokens: 6 },
        { input_tokens: 13, output_tokens: 9 },
        { input_tokens: 14, output_tokens: 12 },
      ]);
      expect((await importFiles([join(RECORDED, name)], memory)).events).toMatchObject({ accepted: 0, rejected: 0 });
    },
  );

  it('gives the events that the same log as JSON gives', async () => {
    const logs = (await recordsOf('cities.eval')) as { eval: object; samples: unknown[] }[];
    const head = { ...logs[0]!.eval, dataset: { samples: 2 }, packages: {} };
    const whole = { version: 2, eval: head, plan: {}, samples: logs.flatMap(({ samples }) => samples) };
    expect(whole.samples).toHaveLength(2);
    const memory = (await imported(join(RECORDED, 'cities.eval'))).memory;
    const again = await importFiles([write('whole.json', Buffer.from(JSON.stringify(whole)))], memory);
    expect(again.events).toMatchObject({ accepted: 0, rejected: 0, duplicates: again.events.received });
  });

  it('of a run that was stopped holds the samples that were finished', async () => {
    const { memory, report } = await imported(join(RECORDED, 'stopped.eval'));
    expect(report).toMatchObject({ format: 'inspect', episodes: 1, calls: 2, tool_calls: 2, feedback: 1, errors: [] });
    expect(usages(memory)).toMatchObject([{ input_tokens: 11 }, { input_tokens: 12 }]);
  });

  it('that was cut off is read up to the cut, and says so', async () => {
    const bytes = readFileSync(join(RECORDED, 'cities.eval'));
    const oslo = bytes.indexOf('samples/oslo');
    const { report, refused } = await imported(write('cut.eval', bytes.subarray(0, oslo + 500)));
    expect(report).toMatchObject({ format: 'inspect', episodes: 1, calls: 2 });
    expect(refused).toEqual(['bad_shape  2']);
  });

  it('in which a sample is damaged keeps the others', async () => {
    const bytes = readFileSync(join(RECORDED, 'cities.eval'));
    bytes[bytes.indexOf('samples/bern_epoch_1.json') + 1000]! ^= 255;
    const { report, refused } = await imported(write('damaged.eval', bytes));
    expect(report).toMatchObject({ format: 'inspect', episodes: 1, calls: 2 });
    expect(refused).toEqual(['bad_shape samples/bern_epoch_1.json 1']);
  });

  it('with any byte changed never brings the import down', async () => {
    const bytes = readFileSync(join(RECORDED, 'cities.eval'));
    const place = fc.integer({ min: 4, max: bytes.length - 1 });
    await fc.assert(
      fc.asyncProperty(place, fc.integer({ min: 1, max: 255 }), async (at, change) => {
        const changed = Buffer.from(bytes);
        changed[at]! ^= change;
        const { report } = await imported(write('changed.eval', changed));
        expect(report.episodes).toBeLessThanOrEqual(2);
      }),
      { numRuns: 300 },
    );
  });

  it('may be larger than 4 GiB, and may hold NaN, which is no number', async () => {
    const nan = '"scores":{"s":{"value":NaN}}';
    const members = {
      'samples/a_epoch_1.json': sample('a', nan),
      'samples/b/c_epoch_1.json': sample('b/c'),
      'header.json': HEADER,
    };
    for (const wide of [false, true]) {
      const { memory, report } = await imported(write(`wide-${wide}.eval`, zipBytes(members, wide)));
      expect(report).toMatchObject({ episodes: 2, calls: 2, feedback: 1, errors: [] });
      expect(memory.events.find(({ name }) => name === 'feedback.recorded')!.data).toMatchObject({ label: 'NaN' });
    }
  });

  it('with samples in chunks names them, and another archive is refused', async () => {
    const chunks = {
      'samples/a_epoch_1/sample.json': '{}',
      'samples/b_epoch_1.json': sample('b'),
      'header.json': HEADER,
    };
    const { report, refused } = await imported(write('chunks.eval', zipBytes(chunks)));
    expect(report).toMatchObject({ episodes: 1 });
    expect(refused).toEqual(['bad_shape samples/a_epoch_1/sample.json 1']);
    expect((await imported(write('other.zip', zipBytes({ 'a.json': '{}' })))).refused).toEqual(['unknown_format  1']);
  });
});

async function recordsOf(name: string): Promise<unknown[]> {
  const values: unknown[] = [];
  for await (const { value } of (await openRecordFile(join(RECORDED, name))).records) values.push(value);
  return values;
}
