/** Formats and methods of a user's own, as docs/own.md shows them. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { type Shell, shell } from './support/troupe.ts';

const PAGE = readFileSync(join(import.meta.dirname, '../../docs/own.md'), 'utf8');
/** The blocks of the page, by language and number. */
const shown = (language: string, number = 0): string =>
  [...PAGE.matchAll(/```(\w*)\n([\s\S]*?)```/g)].filter(([, of]) => of === language)[number]![2]!;

let database: TestDatabase;
let at: Shell;
const write = (name: string, text: string): void => writeFileSync(join(at.folder, name), text);

beforeAll(async () => {
  database = await freshDatabase();
  at = shell({ DATABASE_URL: database.url });
  write('debate.json', shown('json'));
  write('my-format.ts', shown('ts', 0));
  write('my-methods.ts', shown('ts', 1));
});
afterAll(async () => {
  await at.remove();
  await database.close();
});

describe('the page on own formats and methods', () => {
  it('shows a format whose file is read as the page says, by --format and by troupe.yaml, and adds nothing the second time', async () => {
    const [, , ...words] = shown('', 0).trim().split(' ');
    const first = await at.run(words);
    expect([first.code, first.out]).toEqual([0, expect.stringContaining(shown('', 1).trim())]);
    write('troupe.yaml', shown('yaml'));
    const again = await at.run(['import', 'debate.json', '--json']);
    expect(JSON.parse(again.out)).toMatchObject({
      format: 'debate',
      events: { received: 9, accepted: 0, duplicates: 9, rejected: 0 },
      errors: [],
    });
  });

  it('shows a method that judges, is listed and is run by hand', async () => {
    write('troupe.yaml', shown('yaml'));
    const judged = await at.run(['judge', '--methods', 'talk_share']);
    expect([judged.code, judged.err]).toEqual([0, expect.any(String)]);
    const asked = await at.run(['sql', 'select method, value from traj.scores', '--json']);
    expect(JSON.parse(asked.out).rows).toEqual([['talk_share', 0.5]]);
    const run = await at.run(['method', 'run', 'talk_share'], '{"agents":["ann","ann","bo"]}');
    expect(Number(run.out)).toBeCloseTo(2 / 3);
    const listed = await at.run(['method', 'list', '--kind', 'score']);
    expect(listed.out).toMatch(/^talk_share +score/m);
  });
});

it('one record of a wrong shape is refused by its field, and the others are kept', async () => {
  const other = { ...JSON.parse(shown('json')), question: 'Was the tide high at 9?' };
  write('odd.jsonl', `${JSON.stringify(other)}\n{"turns": 3, "winner": "bo"}\n`);
  const ended = await at.run(['import', 'odd.jsonl', '--format', './my-format.ts', '--json']);
  expect(ended.code).toBe(3);
  const { errors, episodes } = JSON.parse(ended.out);
  expect([episodes, errors]).toEqual([
    1,
    [expect.objectContaining({ line: 2, field: 'turns', expected: 'a list of turns', got: '3' })],
  ]);
});

describe('a module that holds no format', () => {
  const MAKER = 'Expected a module that exports what format({ … }) of troupe/format returns.';
  it.each([
    ['that is not there', 'absent.ts', null, `./absent.ts is not there. ${MAKER}`],
    ['that exports something else', 'other.js', 'export const limit = 3;', `./other.js exports limit. ${MAKER}`],
    ['that exports nothing', 'silent.ts', 'const limit: number = 3;', `./silent.ts exports nothing. ${MAKER}`],
    [
      'that lacks a package',
      'lacking.js',
      'import "absent-package";',
      /^troupe: \.\/lacking\.js cannot be loaded: Cannot find package 'absent-package'/,
    ],
    [
      'whose syntax needs more than removing types',
      'enumerated.ts',
      '\nenum Side { For, Against }',
      `./enumerated.ts cannot be loaded: line 2: TypeScript enum is not supported in strip-only mode. ${MAKER}`,
    ],
    [
      'whose format has the name of another',
      'twin.ts',
      shown('ts', 0).replace("'debate'", "'codex'"),
      './twin.ts has a format "codex", and there is one of that name.',
    ],
  ] as const)('%s is refused by its name before anything starts', async (_, file, text, message) => {
    if (text !== null) write(file, text);
    const ended = await at.run(['import', 'debate.json', '--format', `./${file}`]);
    const said = typeof message === 'string' ? expect.stringContaining(`troupe: ${message}`) : message;
    expect([ended.code, ended.out]).toEqual([2, '']);
    expect(ended.err).toEqual(typeof message === 'string' ? said : expect.stringMatching(message));
  });

  it('is refused where troupe.yaml names it, for methods too', async () => {
    write('other.js', 'export const limit = 3;');
    write('troupe.yaml', 'methods: other.js');
    const ended = await at.run(['judge', '--methods', 'talk_share']);
    expect([ended.code, ended.err]).toEqual([
      2,
      'troupe: other.js exports limit. Expected a module that exports what method({ … }) of troupe/method returns.\n',
    ]);
  });
});
