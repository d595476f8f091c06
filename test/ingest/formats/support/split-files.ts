/**
 * The samples of every format, cut at random places and imported in parts: in one import or in several, in any order, and before or
 * after the whole. The tables must be those of the whole file, whichever way its lines came.
 */
import { readdirSync } from 'node:fs';
import { copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { importFiles } from '../../../../ingest/files/import.ts';
import { openRecordFile } from '../../../../ingest/files/read-file.ts';
import { memoryLog } from '../../support/memory-log.ts';
import { tablesOf } from '../../support/tables.ts';

const ROOTS = [
  join(import.meta.dirname, '../recorded'),
  ...(process.env.TROUPE_DATA ? [join(process.env.TROUPE_DATA, 'samples')] : []),
];
export const SAMPLES = ROOTS.flatMap((root) =>
  readdirSync(root, { withFileTypes: true, recursive: true }).flatMap((entry) => {
    const path = join(entry.parentPath, entry.name);
    const isSample = entry.isFile() && entry.parentPath !== root && !/\/bad|state\.json$|\.pb$|\.eval$/.test(path);
    return isSample ? [[path.slice(root.length + 1), path] as const] : [];
  }),
);

/** Formats in which a part alone may name no run, or hold no message: it is refused with the reason. */
const REFUSED = /^(?:claude-code|claude-stream|qwen-code|codex|pi|gemini-cli|openhands|redel)\//;
/** Formats in which nothing in a later part shows which run it belongs to, also beside the others. */
const NAMELESS = /^(?:agentscope|crewai\/output-log|cline|session-traces|claude-stream|codex-exec|copilot-cli|goose)/;
/** A list of messages or steps alone names no conversation, not even at its begin: each list is one of its own. */
const LISTS =
  /^(?:chat-messages\/messages|langchain-messages\/(?:dicts|constructors)|openai-responses|pydantic-ai|smolagents|vercel-messages\/chat-written)/;
/** Traces with several roots: nothing in a part shows that another root came first, and its text may be the task of another run. */
const ROOTED = /^langfuse\/observations/;
/** An evaluation of Weave: a part without the example that a call is in. */
const EXAMPLES = /^weave\/evaluation/;

/** Requests without their results are no calls. */
const REQUESTS = /^model-batches\/requests/;

/** Formats in which a session without an answer is flagged, also once more of it came: the lines to its first answer. */
const TO_ANSWER = { cline: 2, goose: 3, 'copilot-cli': 4 };
const toFirstAnswer = (name: string) => TO_ANSWER[name.split('/')[0] as keyof typeof TO_ANSWER] ?? 1;

/** A file with one event is one of a folder of such files. */
const EVENT_FILES = /^openhands/;

export let scratch: string;
beforeAll(async () => {
  scratch = await mkdtemp(join(tmpdir(), 'troupe-split-'));
});
afterAll(() => rm(scratch, { recursive: true }));

type Sample = { readonly units: readonly string[]; readonly write: (units: readonly string[]) => string };

/** The records of a file that it may be cut between; null of a document. */
export async function sampleIn(path: string): Promise<Sample | null> {
  const file = await openRecordFile(path);
  const units: string[] = [];
  for await (const { raw } of file.records) units.push(raw.toString());
  if (file.shape === 'document' || units.length < 2) return null;
  return { units, write: (some) => (file.shape === 'array' ? `[${some.join(',')}]` : some.join('\n')) };
}

/** Writes files into a folder of their own, beside the state that a session of ReDel has. */
async function folderOf(path: string, files: readonly string[]): Promise<string[]> {
  const folder = await mkdtemp(join(scratch, 'part-'));
  const paths = files.map((_, i) => join(folder, `${i}.json`));
  await Promise.all(paths.map((name, i) => writeFile(name, files[i]!)));
  if (!path.includes('/redel/')) return paths;
  await mkdir(folder, { recursive: true });
  await copyFile(join(dirname(path), 'state.json'), join(folder, 'state.json'));
  return [...paths, join(folder, 'state.json')];
}

export async function imported(path: string, imports: readonly (readonly string[])[]) {
  const memory = memoryLog();
  const refused: string[] = [];
  for (const files of imports) {
    const { errors } = await importFiles(await folderOf(path, files), memory);
    refused.push(...errors.map(({ expected }) => expected));
  }
  const tables = tablesOf(memory.events).filter(
    (row) => !ROOTED.test(path.slice(path.indexOf('recorded/') + 9)) || !row.startsWith('tasks_version '),
  );
  return { tables, refused };
}

/** Where to cut, and the order in which the parts come. */
const cuts = (count: number, name: string) =>
  fc
    .uniqueArray(
      fc.integer(EVENT_FILES.test(name) ? { min: 2, max: count - 2 } : { min: toFirstAnswer(name), max: count - 1 }),
      {
        minLength: 1,
        maxLength: 3,
        ...(EVENT_FILES.test(name) ? { comparator: (a: number, b: number) => Math.abs(a - b) < 2 } : {}),
      },
    )
    .chain((places) =>
      fc.tuple(
        fc.constant(places.sort((a, b) => a - b)),
        fc.shuffledSubarray([...places, count], { minLength: places.length + 1 }),
      ),
    );
export const partsOf = ({ units, write }: Sample, [places, order]: readonly [readonly number[], readonly number[]]) =>
  order.map((end) => write(units.slice(Math.max(0, ...places.filter((place) => place < end)), end)));

/** So many cuts of each sample. */
export const cutsOfSamples = (numRuns: number): void =>
  describe.each(SAMPLES)('%s, cut at random places', (name, path) => {
    it('gives the tables of the whole file; half of a document, which has no parts, is refused', async () => {
      const sample = await sampleIn(path);
      if (sample === null) {
        const bytes = await readFile(path);
        const half = join(scratch, basename(path));
        await writeFile(half, bytes.subarray(0, bytes.length / 2));
        const { errors } = await importFiles([half], memoryLog());
        expect(errors).toHaveLength(1);
        return;
      }
      const whole = sample.write(sample.units);
      const expected = await imported(path, [[whole]]);
      expect(expected.refused).toEqual([]);
      expect(expected.tables.length > 0).toBe(!REQUESTS.test(name));
      if (LISTS.test(name)) {
        expect(await imported(path, [[whole], [whole]])).toEqual(expected);
        return;
      }
      await fc.assert(
        fc.asyncProperty(cuts(sample.units.length, name), async (cut) => {
          const parts = partsOf(sample, cut);
          if (NAMELESS.test(name)) {
            const first = parts.find((part) => whole.startsWith(part.slice(0, -1)));
            for (const order of [
              [[first!], [whole]],
              [[whole], [first!]],
            ]) {
              const { tables, refused } = await imported(path, order);
              expect(tables).toEqual(expected.tables);
              if (!REFUSED.test(name)) expect(refused).toEqual([]);
              for (const reason of refused) expect(reason).toMatch(/^at least one line of a user or an assistant/);
            }
            return;
          }
          expect(await imported(path, [parts])).toEqual(expected);
          if (EXAMPLES.test(name)) return;
          const apart = await imported(path, [...parts.map((part) => [part]), [whole]]);
          expect(apart.tables).toEqual(expected.tables);
          const after = await imported(path, [[whole], ...parts.map((part) => [part])]);
          expect(after.tables).toEqual(expected.tables);
          for (const reason of [...apart.refused, ...after.refused]) {
            expect(name).toMatch(REFUSED);
            expect(reason).toMatch(/that was cut, (?:import|put) |^at least one line of a user or an assistant/);
          }
          if (!REFUSED.test(name))
            expect(
              await imported(
                path,
                parts.map((part) => [part]),
              ),
            ).toEqual(expected);
        }),
        { numRuns },
      );
    }, 60_000);
  });
