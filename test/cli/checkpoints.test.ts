import { existsSync, mkdirSync, readFileSync, rmdirSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { bestOf } from '../../api/operations/checkpoints/best.ts';
import {
  loadCheckpoint,
  pointLatest,
  type SavedCheckpoint,
  saveCheckpoint,
} from '../../trainer/model/checkpoints/checkpoint.ts';
import { freshDatabase } from '../support/database.ts';
import { tinyContents } from '../trainer/tiny-checkpoint.ts';
import { type Bucket, startBucket } from './support/bucket.ts';
import { lines } from './support/chats.ts';
import { document, type Shell, warmShell } from './support/troupe.ts';

let at: Shell;
let bucket: Bucket;
let saved: SavedCheckpoint[];
const path = (...names: string[]) => join(at.folder, ...names);
const json = async (...args: string[]) => {
  const ended = await at.run(['checkpoints', ...args, '--json']);
  expect([ended.code, ended.err]).toEqual([0, '']);
  return document(ended);
};

/** Five checkpoints, each the child of the one before it, at steps 10 to 50; the last is latest. */
async function family(folder: string): Promise<SavedCheckpoint[]> {
  const made: SavedCheckpoint[] = [];
  for (const [i, loss] of [0.9, 0.2, 0.7, 0.4, 0.5].entries()) {
    const contents = tinyContents(i);
    const meta = { ...contents.meta, parent: made.at(-1)?.id ?? null, step: 10 * (i + 1), metrics: { loss } };
    made.push(await saveCheckpoint(folder, { ...contents, meta }, { durable: false }));
  }
  await pointLatest(folder, made.at(-1)!.id);
  return made;
}

beforeAll(async () => {
  bucket = await startBucket('team');
  at = warmShell(bucket.env);
  saved = await family(path('own'));
});
afterAll(async () => {
  await at.remove();
  await bucket.stop();
});

describe('checkpoints of a folder', () => {
  it('are listed by their steps, with what is wrong with a damaged one', async () => {
    const folder = path('listed');
    const [first, second] = await family(folder);
    truncateSync(join(second!.dir, 'model.safetensors'), 10);
    const bytes = readFileSync(join(first!.dir, 'model.safetensors'));
    bytes[bytes.length - 1]! ^= 1;
    writeFileSync(join(first!.dir, 'model.safetensors'), bytes);
    const { latest, checkpoints } = await json('folder', folder);
    expect(latest).toBe(saved[4]!.id);
    expect(checkpoints.map((one: { step: number | null }) => one.step)).toEqual([50, 40, 30, 10, null]);
    expect(checkpoints[0]).toMatchObject({ latest: true, sound: true, parent: saved[3]!.id, metrics: { loss: 0.5 } });
    expect(checkpoints[3]).toMatchObject({ sound: false, fault: expect.stringContaining('SHA-256') });
    expect(checkpoints[4]).toMatchObject({ sound: false, fault: expect.stringContaining('has 10 of') });
    const quick = await json('folder', folder, '--quick');
    expect(quick.checkpoints.map((one: { sound: boolean }) => one.sound)).toEqual([true, true, true, true, false]);
    const text = await at.run(['checkpoints', 'folder', folder]);
    expect(text.out).toMatch(new RegExp(`${saved[4]!.id} ← latest +50 .* sound`));
    const verified = await at.run(['checkpoints', 'verify', folder, '--json']);
    expect([verified.code, document(verified).sound]).toEqual([1, false]);
  });

  it('latest, show and verify say which, where it comes from and that it is sound', async () => {
    expect(await json('latest', path('own'))).toEqual({ checkpoint_id: saved[4]!.id, directory: saved[4]!.dir });
    const shown = await json('show', saved[2]!.id, '--in', path('own'));
    expect(shown).toMatchObject({ step: 30, datasets: ['a'.repeat(64)], parent: saved[1]!.id });
    expect(shown.ancestors).toMatchObject([
      { checkpoint_id: saved[1]!.id, found: true, step: 20 },
      { checkpoint_id: saved[0]!.id, found: true, step: 10 },
    ]);
    expect(await json('verify', saved[0]!.dir)).toMatchObject({
      ...{ sound: true, checkpoints: [{ checkpoint_id: saved[0]!.id, fault: null }] },
    });
    const unknown = await at.run(['checkpoints', 'show', '0123456789abcdef', '--json']);
    expect([unknown.code, document(unknown).error.code]).toEqual([1, 'not_found']);
    expect((await at.run(['checkpoints', 'latest', path('nowhere')])).code).toBe(1);
  });

  it('prune says in a dry run what it then does, and keeps latest', async () => {
    const folder = path('pruned');
    const made = await family(folder);
    const rule = [folder, '--keep-last', '1', '--keep-every', '30', '--keep-best', 'loss'];
    const dry = await json('prune', ...rule, '--dry-run');
    expect(made.every(({ dir }) => existsSync(dir))).toBe(true);
    const done = await json('prune', ...rule);
    expect({ ...dry, dry_run: false }).toEqual(done);
    expect(done).toMatchObject({ project: false });
    expect(made.map(({ dir }) => existsSync(dir))).toEqual([false, true, true, false, true]);
    const text = await at.run(['checkpoints', 'prune', folder, '--keep-last', '1']);
    expect([text.code, text.err]).toEqual([0, expect.stringContaining('no project here')]);
    expect((await at.run(['checkpoints', 'prune', folder])).code).toBe(2);
    expect((await at.run(['checkpoints', 'prune', folder, '--keep-last', '0'])).code).toBe(2);
    expect((await at.run(['checkpoints', 'prune', path('nowhere'), '--keep-last', '1'])).code).toBe(1);
  });

  it('prune keeps what was ever released, the last of each policy, and what a job names, asking the project', async () => {
    const database = await freshDatabase();
    const project = warmShell({ DATABASE_URL: database.url });
    try {
      const made = await family(join(project.folder, 'own'));
      const released = {
        specversion: '1.0',
        type: 'troupe.policy.released.v1',
        source: '/made-up',
        id: 'release-1',
        time: '2026-01-01T00:00:00Z',
        datacontenttype: 'application/json',
        data: { release_id: 'release-1', policies: { solver: made[0]!.id } },
      };
      const saved = [1, 2, 3].map((place) => ({
        ...{
          ...released,
          type: 'troupe.checkpoint.saved.v1',
          id: `saved-${place}`,
          time: `2026-01-01T00:00:0${place}Z`,
        },
        data: {
          ...{ checkpoint_id: made[place]!.id, policy: place === 1 ? 'critic' : 'solver', uri: made[place]!.dir },
          ...{ sha256: 'a'.repeat(64), step: place, kept: true },
        },
      }));
      writeFileSync(join(project.folder, 'events.jsonl'), lines([released, ...saved]));
      mkdirSync(`${made[2]!.dir}-adapter`);
      expect((await project.run(['import', join(project.folder, 'events.jsonl')])).code).toBe(0);
      const rule = ['prune', join(project.folder, 'own'), '--keep-last', '1', '--json'];
      const row = `insert into troupe.job_queue (job_id, kind, spec) values ('t', 'rl', $1)`;
      await database.db.query(row, [JSON.stringify({ base: made[2]!.dir })]);
      await project.run(['checkpoints', ...rule]);
      expect(made.map(({ dir }) => existsSync(dir))).toEqual([true, true, true, true, true]);
      await database.db.query(`update troupe.job_queue set state = 'finished'`);
      const pruned = document(await project.run(['checkpoints', ...rule]));
      expect(pruned.project).toBe(true);
      expect(pruned.kept).toContainEqual({ id: made[0]!.id, why: ['protected'] });
      // Released, the last of the critic, nothing, the last of the solver, latest.
      expect(made.map(({ dir }) => existsSync(dir))).toEqual([true, true, false, true, true]);
      expect(existsSync(`${made[2]!.dir}-adapter`)).toBe(false);
    } finally {
      await project.remove();
      await database.close();
    }
  }, 60_000);

  it('--keep-best takes the smallest loss and the greatest of anything else, unless :min or :max is given', () => {
    expect(bestOf('held_out_loss')).toEqual({ metric: 'held_out_loss', mode: 'min' });
    expect(bestOf('accuracy')).toEqual({ metric: 'accuracy', mode: 'max' });
    expect(bestOf('loss:max')).toEqual({ metric: 'loss', mode: 'max' });
    for (const wrong of ['', ':min', 'loss:best', 'a:b:min'])
      expect(() => bestOf(wrong), wrong).toThrow('should be METRIC, METRIC:min or METRIC:max');
  });
});

describe('checkpoints in a bucket', () => {
  it('go there and come back as they were, each file once', async () => {
    const address = 's3://team/agents/coder';
    const first = await json('push', saved[1]!.id, address, '--in', path('own'), '--latest');
    expect(first).toMatchObject({ checkpoint_id: saved[1]!.id, kept: [], latest: true });
    expect((await json('push', saved[1]!.dir, address)).sent).toEqual([]);
    expect(first.adapter).toBeNull();
    const adapter = `${saved[2]!.dir}-adapter`;
    mkdirSync(adapter);
    const last = await at.run(['checkpoints', 'push', saved[2]!.dir, address, '--json']);
    rmdirSync(adapter);
    const { adapter: left, warnings } = document(last);
    expect([left, warnings]).toEqual([adapter, [expect.stringContaining(`${adapter}, the adapter`)]]);
    expect(bucket.held.get('agents/coder/latest')!.content.toString()).toBe(`${saved[1]!.id}\n`);
    const pulled = await json('pull', address, path('back'), '--latest');
    expect(pulled).toMatchObject({ checkpoint_id: saved[1]!.id, latest: true });
    expect((await loadCheckpoint(pulled.directory)).sha256).toBe(saved[1]!.sha256);
    expect((await json('latest', path('back'))).checkpoint_id).toBe(saved[1]!.id);
    const named = await json('pull', `${address}/${saved[2]!.id}`, path('back'));
    expect((await loadCheckpoint(named.directory)).meta.step).toBe(30);
  });

  it('what cannot be done has an exit code of its own, and its message shows no key', async () => {
    const none = await at.run(['checkpoints', 'pull', 's3://team/empty', path('none'), '--json']);
    expect([none.code, document(none).error.code]).toEqual([1, 'not_found']);
    expect((await at.run(['checkpoints', 'push', saved[0]!.dir, 'ftp://team/x'])).code).toBe(2);
    const locked = warmShell();
    const closed = await locked.run(['checkpoints', 'push', saved[0]!.dir, 's3://team/x']);
    await locked.remove();
    expect([closed.code, closed.err]).toEqual([2, expect.stringContaining('AWS_ACCESS_KEY_ID')]);
    const wrong = bucket.held.get('agents/coder/latest')!;
    bucket.held.set('agents/coder/latest', { ...wrong, content: Buffer.from('x') });
    const damaged = await at.run(['checkpoints', 'pull', 's3://team/agents/coder', path('none')]);
    expect([damaged.code, damaged.err]).toEqual([1, expect.stringContaining('latest in s3://team/agents/coder')]);
    expect(damaged.err).not.toContain('made-up');
  });
});

describe('a run whose checkpoints go to a bucket', () => {
  it('trains in a folder that it names, and brings what is saved there', async () => {
    writeFileSync(path('rows.jsonl'), '{"input_ids":[2,3,4]}\n{"input_ids":[3,4,5]}\n');
    const run = [
      ...['train', 'sft', '--model', saved[0]!.dir, '--data', path('rows.jsonl'), '--out', 's3://team/runs/one'],
      ...['--steps', '4', '--batch', '2', '--checkpoint-every', '2', '--keep', '4', '--json'],
    ];
    bucket.broken = true;
    const closed = await at.run(run);
    expect([closed.code, document(closed).error.code]).toEqual([5, 'unreachable']);
    bucket.broken = false;
    const ended = await at.run(run);
    expect([ended.code, ended.err]).toEqual([0, '']);
    const { checkpoint_id: id, directory, stored_at } = document(ended);
    expect(directory).toMatch(/s3\/team\/runs\/one/);
    expect(stored_at).toBe('s3://team/runs/one');
    expect(bucket.held.get('runs/one/latest')!.content.toString()).toBe(`${id}\n`);
    expect([...bucket.held.keys()].filter((key) => /runs\/one\/.*troupe.json/.test(key))).toHaveLength(2);
    rmSync(directory, { recursive: true });
    expect((await loadCheckpoint((await json('pull', stored_at, path('run'))).directory)).id).toBe(id);
  }, 60_000);
});
