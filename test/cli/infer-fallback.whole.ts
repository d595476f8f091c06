/** What a sampling process serves for a policy that was never released. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { connectInfer } from '../../trainer/sample/infer-client.ts';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { lines } from './support/chats.ts';
import { plays, WORDS } from './support/plays.ts';
import { document, type Shell, shell } from './support/troupe.ts';

const SLOW = 120_000;

let database: TestDatabase;
let at: Shell;
let checkpoint: string;
const path = (name: string) => join(at.folder, name);
const done = async (...args: string[]) => {
  const ended = await at.run([...args, '--json']);
  if (ended.code !== 0) throw new Error(`troupe ${args.join(' ')}: ${ended.out} ${ended.err}`);
  return document(ended);
};
/** The checkpoints that a process for the policy serves once it is ready. */
const served = async (): Promise<string[]> => {
  const infer = at.start(['run', 'infer', '--policy', 'solver', '--json']);
  const ready = (await infer.waitForOutput(/^\{"role".*\n/m)).split('\n').find((line) => line.startsWith('{"role"'))!;
  const client = connectInfer(JSON.parse(ready).address);
  const { models } = await client.status();
  client.close();
  infer.child.kill('SIGTERM');
  await infer.ended;
  return models.map((model) => model.checkpoint);
};

beforeAll(async () => {
  database = await freshDatabase();
  at = shell({ DATABASE_URL: database.url });
  writeFileSync(path('plays.jsonl'), lines(plays(8)));
  await done('import', path('plays.jsonl'));
  writeFileSync(path('all.json'), JSON.stringify({ name: 'all', unit: 'step', roles: ['solver'] }));
  await done('dataset', 'freeze', path('all.json'));
  const config = { hidden_size: 16, intermediate_size: 32, num_hidden_layers: 1, num_attention_heads: 2 };
  writeFileSync(
    path('model.json'),
    JSON.stringify({ words: WORDS, ...config, num_key_value_heads: 2, max_position_embeddings: 32 }),
  );
  await done('model', 'new', '--dir', path('model'), '--config', path('model.json'), '--seed', '3');
  ({ checkpoint_id: checkpoint } = await done(
    ...(['train', 'sft', '--model', path('model'), '--data', 'all', '--steps', '1'] as const),
    ...['--out', path('checkpoints'), '--policy', 'solver'],
  ));
}, SLOW);
afterAll(async () => {
  at.remove();
  await database.close();
});

it(
  'It is the checkpoint that was saved last, unless a route falls back to another model: then none before the release',
  async () => {
    expect(await served()).toEqual([checkpoint]);
    const upstreams = 'upstreams: { hosted: { base_url: "http://127.0.0.1:9/v1", models: [gpt] } }';
    const routes = 'routes: { desk: { model: gpt, policy: solver, fallback: hosted/gpt } }';
    writeFileSync(path('troupe.yaml'), `${upstreams}\n${routes}\n`);
    expect(await served()).toEqual([]);
    await done('release', `solver=${checkpoint}`);
    expect(await served()).toEqual([checkpoint]);
  },
  SLOW,
);

it(
  'A rollback of the first release gives the model of the route back, while a process serves the policy and to one that starts',
  async () => {
    const infer = at.start(['run', 'infer', '--policy', 'solver', '--json']);
    const ready = (await infer.waitForOutput(/^\{"role".*\n/m)).split('\n').find((line) => line.startsWith('{"role"'))!;
    const client = connectInfer(JSON.parse(ready).address);
    const names = async () => (await client.status()).models.map((model) => model.checkpoint);
    expect(await names()).toEqual([checkpoint]);
    const back = await done('rollback');
    expect(back.policies).toEqual({ solver: 'upstream:hosted/gpt' });
    await expect.poll(names, { timeout: 30_000 }).toEqual([]);
    expect((await done('policies')).items).toEqual([
      { policy: 'solver', released: 'upstream:hosted/gpt', newest: checkpoint },
    ]);
    await done('release', `solver=${checkpoint}`);
    await expect.poll(names, { timeout: 30_000 }).toEqual([checkpoint]);
    await done('release', 'solver=upstream:hosted/gpt', '--reason', 'by hand');
    await expect.poll(names, { timeout: 30_000 }).toEqual([]);
    client.close();
    infer.child.kill('SIGTERM');
    await infer.ended;
    expect(await served()).toEqual([]);
    await done('release', `other=${checkpoint}`);
    expect((await at.run(['rollback'])).err).toContain(
      'other had no release then: its processes keep their checkpoint until the next release.',
    );
    expect((await done('policies')).items.map(({ policy }: { policy: string }) => policy)).toEqual(['solver']);
    const other = await at.run(['release', 'solver=upstream:hosted/other', '--json']);
    expect(document(other).error.message).toContain('is not what a route of solver falls back to: it is hosted/gpt');
  },
  SLOW,
);
