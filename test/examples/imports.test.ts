import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';

const ROOT = new URL('../../', import.meta.url);

/** What the files of a folder import, as written; `type` where the import vanishes when the program runs. */
function imports(path: string): { readonly from: string; readonly type: boolean }[] {
  const text = readFileSync(new URL(path, ROOT), 'utf8');
  return [
    ...text.matchAll(/(?:^|\n)(?:import|export)\s+(type\s+)?[^'";]*?\bfrom\s+'([^']+)'|\bimport\(\s*'([^']+)'/g),
  ].map(([, type, from, dynamic]) => ({ from: from ?? dynamic!, type: type !== undefined }));
}

describe('an outside team', () => {
  const folder = 'examples/';
  const files = readdirSync(new URL(folder, ROOT), { recursive: true, encoding: 'utf8' }).filter(
    (name) =>
      // The analysis is no team: it uses the library.
      name.endsWith('.ts') && !name.startsWith('analysis/'),
  );
  const recorder = new URL('ingest/recorder/recorder.ts', ROOT).pathname;

  it.each(files)('%s imports nothing of Troupe but the recorder', (name) => {
    const foreign = imports(`${folder}${name}`)
      .filter(({ from }) => !from.startsWith('node:'))
      .map(({ from }) => (from.startsWith('.') ? new URL(from, new URL(`${folder}${name}`, ROOT)).pathname : from))
      .filter((path) => path !== recorder && !path.startsWith(new URL(folder, ROOT).pathname));
    expect(foreign).toEqual([]);
  });

  it('needs the recorder', () => {
    expect(imports(`${folder}lib/worker.ts`).map(({ from }) => from)).toContain('../../ingest/recorder/recorder.ts');
  });
});

describe('the recorder', () => {
  it('needs nothing but Node and its own folder when it runs', () => {
    const seen = new Set(['ingest/recorder/recorder.ts']);
    for (const file of seen) {
      for (const { from, type } of imports(file)) {
        if (type || from.startsWith('node:')) continue;
        const path = new URL(from, new URL(file, ROOT)).pathname.slice(ROOT.pathname.length);
        expect(path, `imported by ${file}`).toMatch(/^ingest\/recorder\/[a-z-]+\.ts$/);
        seen.add(path);
      }
    }
    expect(seen.size).toBeGreaterThan(1);
  });
});
