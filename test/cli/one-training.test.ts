import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { stringify } from 'yaml';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { lines } from './support/chats.ts';
import { teamPlays, WORDS } from './support/plays.ts';
import { document, type Shell, warmShell } from './support/troupe.ts';

describe('one training, by hand and by a plan', () => {
  let database: TestDatabase;
  let at: Shell;
  const path = (name: string) => join(at.folder, name);
  const done = async (...args: string[]) => {
    const ended = await at.run([...args, '--json']);
    expect(ended.code, ended.err).toBe(0);
    return document(ended);
  };
  beforeAll(async () => {
    database = await freshDatabase();
    at = warmShell({ DATABASE_URL: database.url });
    writeFileSync(path('plays.jsonl'), lines(teamPlays(6)));
    await done('import', path('plays.jsonl'));
    writeFileSync(path('words.txt'), WORDS.join('\n'));
    const size = ['--hidden', '16', '--layers', '1', '--heads', '2', '--context', '32'];
    await done('model', 'new', '--dir', path('model'), '--words', path('words.txt'), ...size);
  });
  afterAll(async () => {
    await at.remove();
    await database.close();
  });

  const METHODS = [
    {
      name: 'sft',
      recipe: { where: 'reward >= 1' },
      train: { steps: { solver: 7, checker: 4 }, batch: 5 },
      flags: ['--steps', 'solver=7,checker=4', '--batch', '5'],
    },
    {
      name: 'dpo',
      recipe: { unit: 'step' },
      train: { steps: 6, batch: 3 },
      flags: ['--steps', '6', '--batch', '3'],
    },
    { name: 'rl', recipe: { unit: 'step', credit: 'grpo_advantage' }, train: { groups: 2 }, flags: ['--groups', '2'] },
  ] as const;

  it('the same rows and words give the same bytes of weights, whichever way they are trained', async () => {
    const policies = Object.fromEntries(
      METHODS.map(({ name, recipe, train }) => [
        name,
        {
          base: 'model',
          from: 'base',
          recipe,
          train: { method: name, ...train },
        },
      ]),
    );
    const judge = [{ method: 'grpo_advantage' }];
    writeFileSync(path('all.yaml'), stringify({ name: 'all', judge, policies, gate: { kind: 'manual' } }));
    const ran = await at.run(['plan', 'run', path('all.yaml'), '--json']);
    expect([ran.code, ran.err]).toEqual([7, expect.any(String)]);
    for (const { name, flags } of METHODS) {
      const { rows } = await database.db.query<Record<'spec' | 'result', Record<string, string>>>(
        'select spec, result from troupe.job_queue where job_id = $1',
        [`all-1/1/train-${name}`],
      );
      const { spec, result } = rows[0]!;
      const by = await done(
        ...['train', name, '--model', path('model'), '--data', spec.dataset!, '--out', path(`by-hand-${name}`)],
        ...flags,
      );
      const bytes = (directory: string) => readFileSync(join(directory, 'model.safetensors'));
      expect(bytes(by.directory).equals(bytes(result.directory!)), name).toBe(true);
      expect(bytes(by.directory).equals(bytes(path('model'))), name).toBe(false);
    }
  });
});
