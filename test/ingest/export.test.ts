import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Event } from '../../ingest/events/events.ts';
import { canonicalJson, guardJson } from '../../ingest/events/json.ts';
import { exportEpisodes, exportEvents } from '../../ingest/files/export.ts';
import { importFiles } from '../../ingest/files/import.ts';
import { groupBy, memoryLog } from './support/memory-log.ts';
import { chatRow, completionLog, FAILURE_LOG, SERVICE_RUN } from './support/native-samples.ts';

let dir: string;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'troupe-export-'));
});
afterEach(() => rm(dir, { recursive: true }));

const importText = async (text: string, format?: string, bodies: Iterable<[string, Buffer]> = []) => {
  const memory = memoryLog();
  for (const [name, body] of bodies) memory.bodies.set(name, body);
  await writeFile(join(dir, 'file'), text);
  const report = await importFiles([join(dir, 'file')], { ...memory, ...(format ? { format } : {}) });
  return { memory, report };
};
const episodesOf = (events: readonly Event[]): Event[][] => [
  ...groupBy(
    events.filter((event) => event.key.startsWith('e/')),
    (event) => event.key,
  ).values(),
];
async function textOf(lines: AsyncIterable<string>): Promise<string[]> {
  const all: string[] = [];
  for await (const line of lines) all.push(line.trimEnd());
  return all;
}

describe('an export of events', () => {
  it('read again gives the same events, from a file of lines and from a list', async () => {
    const { memory } = await importText(
      `${JSON.stringify(SERVICE_RUN)}\n${JSON.stringify({ ...SERVICE_RUN, trial: 2 })}\n`,
    );
    const lines = await textOf(exportEvents(memory.events));
    for (const text of [lines.join('\n'), `[${lines.join(',\n')}]`]) {
      const again = await importText(text, undefined, memory.bodies);
      expect(again.memory.events).toEqual(memory.events);
      expect(again.report).toMatchObject({ format: 'troupe-events', episodes: 2, calls: 6, feedback: 2 });
    }
  });
});

describe('an export of episodes in a two-way format', () => {
  it('gives every record back equal as JSON, through the log', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.oneof(chatRow, completionLog), { minLength: 1, maxLength: 5 }), async (native) => {
        const records = JSON.parse(JSON.stringify(native)) as unknown[];
        fc.pre(guardJson(JSON.stringify(native)) === null);
        const { memory, report } = await importText(JSON.stringify(records), 'openai-chat');
        expect(report.errors).toEqual([]);
        const written = await textOf(exportEpisodes('openai-chat', episodesOf(memory.events)));
        const unlike = (list: readonly string[]) => [...new Set(list)].sort();
        expect(unlike(written.map((line) => canonicalJson(JSON.parse(line))))).toEqual(
          unlike(records.map(canonicalJson)),
        );
      }),
      { numRuns: 100 },
    );
  });

  it('as completion logs leaves out calls of unknown input, and counts them', async () => {
    const step = { action: 'ls', observation: 'a', response: 'I look.', thought: 'Look.' };
    const { memory } = await importText(JSON.stringify({ trajectory: [step, step], info: {} }), 'swe-agent');
    const asked = { messages: [{ role: 'user', content: 'Add two.' }] };
    const withLog = await importText(
      JSON.stringify({
        request: asked,
        response: { choices: [{ index: 0, message: { role: 'assistant', content: '2' } }] },
      }),
    );
    let leftOut = 0;
    const lines = await textOf(
      exportEpisodes('openai-chat', [...episodesOf(memory.events), ...episodesOf(withLog.memory.events)], (calls) => {
        leftOut += calls;
      }),
    );
    expect([lines.length, leftOut]).toEqual([1, 2]);
  });

  it('is refused for a format that is only read', async () => {
    const { memory } = await importText(JSON.stringify(FAILURE_LOG));
    await expect(textOf(exportEpisodes('who-when', episodesOf(memory.events)))).rejects.toMatchObject({
      code: 'usage',
    });
  });
});
