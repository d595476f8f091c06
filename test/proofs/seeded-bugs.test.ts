/** The changes that the proof `tests-catch-seeded-bugs` makes can still be made, and the tests that should see them are there. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { BUGS } from '../../proofs/seeded-bugs.ts';

const ROOT = join(import.meta.dirname, '../..');
const read = (file: string): string => readFileSync(join(ROOT, file), 'utf8');
/** Titles of a contract stand in a file of support. */
const titles = readdirSync(join(ROOT, 'test'), { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.ts'))
  .map((file) => read(join('test', file)))
  .join('\n');

it.each(BUGS)(
  '$what: there is one place to break, and a test with this title',
  ({ file, find, caught: [test, title] }) => {
    expect(read(file).split(find)).toHaveLength(2);
    expect(existsSync(join(ROOT, test))).toBe(true);
    expect(titles).toContain(title);
  },
);
