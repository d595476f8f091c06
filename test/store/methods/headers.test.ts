/** What the source of the methods says, which mutated source does not. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { methodFile } from '../../../docs/pages.ts';
import { loadMethod, METHOD_NAMES } from '../../../store/evaluate/methods/catalogue.ts';
import { METHODS } from '../../../store/evaluate/methods/find.ts';

const COMMENT = String.raw`\/\*\*((?:(?!\*\/)[\s\S])*)\*\/`;

/** What stands above a method; the header of its file where that has one method only. */
function headerOf(file: string, name: string): string {
  const text = readFileSync(join(import.meta.dirname, '../../..', file), 'utf8');
  const above = new RegExp(`${COMMENT}\\nexport const \\w+ = method\\(\\{\\n {2}name: '${name}'`).exec(text);
  return (above ?? new RegExp(`^${COMMENT}`).exec(text))?.[1] ?? '';
}

describe('the header of every method', () => {
  test.each(METHODS.map((method) => [method.name, methodFile(method), method.source] as const))(
    '%s says where it is from, and what was kept, dropped and is open',
    (name, file, source) => {
      const header = headerOf(file, name);
      expect(header).toMatch(/Source: /);
      if (!/^(ours|this project)/.test(source))
        for (const word of ['Kept', 'Dropped', 'Open']) expect(header).toMatch(new RegExp(`\\b${word}[:,]\\s`));
    },
  );

  test('and how far it was checked is in the source that the list shows', () => {
    for (const { source } of METHODS) expect(source).toMatch(/ours|this project|verified|secondary|derived/);
  });
});

describe('the catalogue', () => {
  test('names the methods of each file, and every file that has one', async () => {
    const folder = join(import.meta.dirname, '../../../store/evaluate/methods');
    const found = readdirSync(folder).flatMap((file) =>
      [...readFileSync(join(folder, file), 'utf8').matchAll(/ = method\(\{\n {2}name: '(\w+)'/g)].map(
        ([, name]) => name,
      ),
    );
    expect([...METHOD_NAMES].sort()).toEqual(found.sort());
    for (const name of METHOD_NAMES) expect((await loadMethod(name)).name).toBe(name);
    await expect(loadMethod('grpo_advantge')).rejects.toThrow('Did you mean grpo_advantage?');
  });
});
