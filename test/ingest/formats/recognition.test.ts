/** Which format takes which file: every sample through every recogniser, and files of programs that none of the formats reads. */
import { existsSync, readdirSync } from 'node:fs';
import { basename, join, relative } from 'node:path';
import { describe, expect, it } from 'vitest';
import { openRecordFile } from '../../../ingest/files/read-file.ts';
import { FORMATS, recognise } from '../../../ingest/formats/catalogue.ts';
import type { Head } from '../../../ingest/formats/kit/format.ts';

const RECORDED = join(import.meta.dirname, 'recorded');
const DATA = process.env.TROUPE_DATA ?? '';
const HEAD_RECORDS = 64;

/** The samples of a folder of formats, a folder each. */
const samplesIn = (root: string): { readonly path: string; readonly format: string }[] =>
  readdirSync(root, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.parentPath !== root)
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((path) => !/\/(?:bad-|README|LICENSE|expected\.json)/.test(path))
    .map((path) => ({ path, format: relative(root, path).split('/')[0]! }))
    .sort((a, b) => (a.path < b.path ? -1 : 1));

async function headOf(path: string): Promise<Head> {
  const file = await openRecordFile(path);
  const records: unknown[] = [];
  for await (const { value, refusal } of file.records) {
    if (!refusal) records.push(value);
    if (records.length === HEAD_RECORDS) break;
  }
  return { records, shape: file.shape };
}

/** How many of these records each format knows, of those that know any. */
const knownBy = ({ records, shape }: Head): Record<string, number> =>
  Object.fromEntries(
    FORMATS.map(({ name, recognises }) => [
      name,
      records.filter((record) => recognises({ records: [record], shape })).length,
    ]).filter(([, count]) => count !== 0),
  );

/** Folders and files that are not called after their format. */
const FORMAT_OF: Readonly<Record<string, string>> = {
  'who-and-when': 'who-when',
  'train-messages.json': 'openai-chat',
};

const ROOTS = [RECORDED, ...(DATA ? [join(DATA, 'samples'), join(DATA, 'data')].filter(existsSync) : [])];

describe.each(ROOTS.flatMap(samplesIn))('$path', ({ path, format }) => {
  it('is of its format, and no other knows a record of it', async () => {
    const head = await headOf(path);
    const own = FORMAT_OF[basename(path)] ?? FORMAT_OF[format] ?? format;
    expect(recognise(head)?.name).toBe(own);
    expect(Object.keys(knownBy(head))).toEqual([own]);
  });
});

/** Of programs that no format reads: each has a member or two that a format of ours has as well. */
const FOREIGN: readonly (readonly [program: string, shape: Head['shape'], records: readonly unknown[]])[] = [
  ['a patch of a bot', 'document', [{ model_patch: 'diff', trajectory: [{ role: 'user', text: 'q' }] }]],
  [
    'a rollout whose actions are objects',
    'document',
    [{ trajectory: [{ action: { name: 'look', arguments: {} }, observation: 'x' }], info: { seed: 1 }, reward: 0.5 }],
  ],
  [
    'a trajectory of roles and texts',
    'lines',
    [{ instance_id: 'a', trajectory: [{ role: 'ai', mask: false, text: 'look' }], info: {} }],
  ],
  [
    'calls that a test double of a model client recorded',
    'array',
    [
      {
        mode: 'create',
        messages: [
          { content: 'Be brief.', type: 'SystemMessage' },
          { content: 'q', source: 'User', type: 'UserMessage' },
        ],
        response: { finish_reason: 'stop', content: 'a', usage: { prompt_tokens: 3, completion_tokens: 1 } },
        stream: [],
      },
    ],
  ],
  [
    'a chat of people',
    'lines',
    [{ id: 1, name: 'Ann', role: 'admin', content: 'hello', timestamp: '2026-09-10T10:00:00Z' }],
  ],
  ['the counts of a test run', 'document', [{ passed: 3, failed: 0, errors: 0, duration: 1.5 }]],
  [
    'a log of jobs',
    'lines',
    [{ timestamp: '2026-09-10T10:00:00Z', agent: 'runner-1', task: 'build', status: 'completed' }],
  ],
  ['a request that posts and patches', 'document', [{ post: [{ url: '/a', body: 'x' }], patch: [] }]],
  ['events of a web page', 'document', [{ batch_id: 'b', events: [{ type: 'click', at: 3 }] }]],
  ['events of a shop', 'lines', [{ event_type: 'paid', timestamp: 1789001000, data: { total: 3 } }]],
  ['a list of chores', 'document', [{ agents: ['Ann'], task: { content: 'sweep' } }]],
  [
    'a session of events with authors',
    'document',
    [
      {
        id: 's',
        app_name: 'a',
        events: [{ id: 'e', author: 'Ann', content: { text: 'The ferry is late.' } }],
      },
    ],
  ],
  [
    'events of a service whose turns and items have other members',
    'lines',
    [
      { type: 'turn.started', turn: 1 },
      { type: 'item.completed', item: 'anchor chain' },
    ],
  ],
  [
    'lines of a chat server with sessions',
    'lines',
    [
      { type: 'user', session_id: 's', message: 'Is the tide high?' },
      { type: 'result', session_id: 's', result: 'Yes.' },
    ],
  ],
];

describe('a file of another program', () => {
  it.each(FOREIGN)('is of no format: %s', (_, shape, records) => {
    expect(recognise({ records, shape })?.name ?? null).toBe(null);
  });
});
