/** Samples that are cut, at a few places each; `split-files.whole.ts` cuts them at many. */
import { writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { importFiles } from '../../../ingest/files/import.ts';
import { memoryLog } from '../support/memory-log.ts';
import { cutsOfSamples, imported, partsOf, SAMPLES, sampleIn, scratch } from './support/split-files.ts';

cutsOfSamples(2);

it('what a reading without a part in the middle rejected is recorded anew once the part comes', async () => {
  const path = SAMPLES.find(([name]) => name === 'codex/main.jsonl')![1];
  const sample = (await sampleIn(path))!;
  const whole = sample.write(sample.units);
  const parts = partsOf(sample, [
    [17, 22, 26],
    [17, 26, 36, 22],
  ]);
  const expected = await imported(path, [[whole]]);
  const once = [...parts.map((part) => [part]), [whole]];
  expect((await imported(path, once)).tables).toEqual(expected.tables);
  expect((await imported(path, [...once, ...once])).tables).toEqual(expected.tables);
});

describe('the later part of a run that nothing names', () => {
  it.each([
    [
      'agentscope',
      [
        {
          id: '1',
          name: 'a',
          role: 'assistant',
          content: 'Bern',
          metadata: null,
          timestamp: '2026-09-10 10:00:01.000',
        },
      ],
    ],
    [
      'crewai',
      [
        {
          timestamp: '2026-09-10 10:00:01',
          task_name: null,
          task: 't',
          agent: 'a',
          status: 'completed',
          output: 'Bern',
        },
      ],
    ],
  ])('of %s is kept and flagged', async (format, lines) => {
    const path = join(scratch, `${basename(format)}.json`);
    await writeFile(path, JSON.stringify(lines));
    const memory = memoryLog();
    expect(await importFiles([path], memory)).toMatchObject({ format, episodes: 1, errors: [] });
    const started = memory.events.find((event) => event.name === 'episode.started')!.data;
    expect((started as { flags: string[] }).flags).toContain('incomplete');
  });
});
