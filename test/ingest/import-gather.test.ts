import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { importFiles } from '../../ingest/files/import.ts';
import { gatherParts } from '../../ingest/files/import-gather.ts';
import { memoryLog } from './support/memory-log.ts';
import { agent, chat, request, span } from './support/spans.ts';

let dir: string;
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'troupe-gather-'));
});
afterAll(() => rm(dir, { recursive: true }));
const write = async (name: string, content: string): Promise<string> => {
  const path = join(dir, name);
  await writeFile(path, content);
  return path;
};

describe('records of files that are read together', () => {
  it('come in parts that can be held, none twice and none left out, each with its place', async () => {
    const paths = [await write('a.jsonl', '{"n":1}\n{"n":\n{"n":2}\n'), await write('b.json', '[{"n":3},{"n":4}]')];
    for (const limit of [1, 8, 15, 1000]) {
      const seen: unknown[] = [];
      let refused = 0;
      for await (const part of gatherParts(paths, () => {}, limit)) {
        const values = part.lists.flat();
        expect(values).toHaveLength(part.members.length);
        seen.push(...values.map((value, i) => [value, part.members[i]?.place]));
        refused += part.refused.length;
      }
      expect(refused).toBe(1);
      expect(seen).toEqual([
        [{ n: 1 }, { file: paths[0], line: 1 }],
        [{ n: 2 }, { file: paths[0], line: 3 }],
        [{ n: 3 }, { file: paths[1], line: 1 }],
        [{ n: 4 }, { file: paths[1], line: 1 }],
      ]);
    }
  });

  it('of tracing formats meet over files, folders and conventions: a parent in another file names the agent', async () => {
    const paths = [
      await write(
        'child.json',
        JSON.stringify(
          request([chat({ id: 3, parent: 2 }, [{ role: 'assistant', parts: [{ type: 'text', content: 'x' }] }])]),
        ),
      ),
      await write(
        'root.jsonl',
        `${JSON.stringify(request([span({ id: 1, name: 'POST /solve' })]))}\n${JSON.stringify(request([agent({ id: 2, parent: 1 }, 'solver')]))}\n`,
      ),
    ];
    const memory = memoryLog();
    const report = await importFiles(paths, memory);
    expect(report).toMatchObject({ episodes: 1, calls: 1, agents: 1, errors: [] });
    expect(memory.events.find(({ name }) => name === 'generation.completed')?.data).toMatchObject({
      agent_id: 'solver',
    });
    expect(memory.events.find(({ name }) => name === 'episode.started')?.data).toMatchObject({
      flags: ['no_token_ids'],
    });
  });
});
