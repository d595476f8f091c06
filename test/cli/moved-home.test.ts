/** A home that was moved as a folder, with its embedded database. */
import { renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { connectInfer } from '../../trainer/sample/infer-client.ts';
import { lines } from './support/chats.ts';
import { plays, WORDS } from './support/plays.ts';
import { document, type Shell, warmShell } from './support/troupe.ts';

const SLOW = 240_000;

describe('A home that is moved to another folder', () => {
  let at: Shell;
  let dataset: string;
  let checkpoint: string;
  const path = (name: string) => join(at.folder, name);
  const done = async (home: string, ...args: string[]) => {
    const ended = await at.run([...args, '--home', path(home), '--json']);
    if (ended.code !== 0) throw new Error(`troupe ${args.join(' ')}: ${ended.out} ${ended.err}`);
    return document(ended);
  };
  const uris = async (home: string) => {
    const sql = 'select uri from traj.datasets union all select uri from traj.checkpoints order by uri';
    return ((await done(home, 'sql', sql)) as { rows: string[][] }).rows.flat();
  };

  beforeAll(async () => {
    at = warmShell();
    writeFileSync(path('plays.jsonl'), lines(plays(8)));
    await done('first', 'import', path('plays.jsonl'));
    writeFileSync(path('all.json'), JSON.stringify({ name: 'all', unit: 'step', roles: ['solver'] }));
    ({ dataset_id: dataset } = await done('first', 'dataset', 'freeze', path('all.json')));
    const config = { hidden_size: 16, intermediate_size: 32, num_hidden_layers: 1, num_attention_heads: 2 };
    writeFileSync(
      path('model.json'),
      JSON.stringify({ words: WORDS, ...config, num_key_value_heads: 2, max_position_embeddings: 32 }),
    );
    await done('first', 'model', 'new', '--dir', path('model'), '--config', path('model.json'), '--seed', '3');
    ({ checkpoint_id: checkpoint } = await done(
      ...(['first', 'train', 'sft', '--model', path('model'), '--data', 'all', '--steps', '2'] as const),
      ...['--out', path('first/checkpoints'), '--policy', 'solver'],
    ));
    await done('first', 'release', `solver=${checkpoint}`);
    renameSync(path('first'), path('second'));
  }, SLOW);
  afterAll(() => at.remove());

  it(
    'names its files where they are, also after it was moved again, and back',
    async () => {
      expect(await uris('second')).toEqual([
        path(`second/checkpoints/${checkpoint}`),
        path(`second/datasets/${dataset}`),
      ]);
      renameSync(path('second'), path('third'));
      expect(await uris('third')).toEqual([path(`third/checkpoints/${checkpoint}`), path(`third/datasets/${dataset}`)]);
      renameSync(path('third'), path('first'));
      expect(await uris('first')).toEqual([path(`first/checkpoints/${checkpoint}`), path(`first/datasets/${dataset}`)]);
      renameSync(path('first'), path('second'));
    },
    SLOW,
  );

  it(
    'serves what was released and trains on what was frozen before',
    async () => {
      const infer = at.start(['run', 'infer', '--policy', 'solver', '--home', path('second'), '--json']);
      const ready = (await infer.waitForOutput(/^\{"role".*\n/m))
        .split('\n')
        .find((line) => line.startsWith('{"role"'))!;
      const client = connectInfer(JSON.parse(ready).address);
      expect((await client.status()).models).toMatchObject([{ dir: path(`second/checkpoints/${checkpoint}`) }]);
      client.close();
      infer.child.kill('SIGTERM');
      expect((await infer.ended).code).toBe(0);
      const again = await done(
        ...([
          'second',
          'train',
          'sft',
          '--model',
          path(`second/checkpoints/${checkpoint}`),
          '--data',
          'all',
          '--steps',
          '1',
        ] as const),
        ...['--out', path('second/checkpoints'), '--policy', 'solver'],
      );
      expect(again.directory.startsWith(path('second/checkpoints/'))).toBe(true);
    },
    SLOW,
  );
});
