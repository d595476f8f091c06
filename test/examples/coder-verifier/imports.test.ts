import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';

const ROOT = new URL('../../../', import.meta.url);

/** What the files of a folder import, as written; `type` where the import vanishes when the program runs. */
function imports(path: string): { readonly from: string; readonly type: boolean }[] {
  const text = readFileSync(new URL(path, ROOT), 'utf8');
  return [
    ...text.matchAll(/(?:^|\n)(?:import|export)\s+(type\s+)?[^'";]*?\bfrom\s+'([^']+)'|\bimport\(\s*'([^']+)'/g),
  ].map(([, type, from, dynamic]) => ({ from: from ?? dynamic!, type: type !== undefined }));
}

describe('an outside team', () => {
  const folder = 'examples/coder-verifier/';
  const files = readdirSync(new URL(folder, ROOT)).filter((name) => name.endsWith('.ts'));

  it.each(files)('%s imports nothing of Troupe but the recorder', (name) => {
    const foreign = imports(`${folder}${name}`)
      .map(({ from }) => from)
      .filter((from) => !from.startsWith('node:') && !from.startsWith('./'));
    expect(foreign.filter((from) => from !== '../../ingest/recorder.ts')).toEqual([]);
  });

  it('needs the recorder', () => {
    expect(imports(`${folder}play.ts`).map(({ from }) => from)).toContain('../../ingest/recorder.ts');
  });
});

describe('the recorder', () => {
  it('needs nothing but Node when it runs', () => {
    const needed = imports('ingest/recorder.ts').filter(({ type }) => !type);
    expect(needed.length).toBeGreaterThan(0);
    expect(needed.filter(({ from }) => !from.startsWith('node:'))).toEqual([]);
  });
});
