import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { postgresLog } from '../../ingest/log/postgres.ts';
import {
  givenTo,
  inForce,
  type Release,
  recordAfterHosted,
  recordRelease,
  releasesOf,
} from '../../store/loop/release/releases.ts';
import { projectAll } from '../../store/projecting/projector.ts';
import { freshDatabase, type TestDatabase } from '../support/database.ts';

const release = (release_id: string, policies: Record<string, string>, by = 'cli'): Release => ({
  release_id,
  policies,
  teams: {},
  by,
});
const ids = (releases: readonly Release[]) => releases.map(({ release_id }) => release_id);

describe('Releases that can be gone back through', () => {
  const [one, two, three] = [release('1', { a: 'x' }), release('2', { a: 'y' }), release('3', { a: 'z' })];

  it('are all of them where nothing was rolled back', () =>
    expect(ids(inForce([one, two, three]))).toEqual(['1', '2', '3']));

  it('are without those that were rolled back, so a second rollback goes further back', () => {
    const back = release('4', { a: 'y' }, 'rollback');
    expect(ids(inForce([one, two, three, back]))).toEqual(['1', '2']);
    expect(ids(inForce([one, two, three, back, release('5', { a: 'x' }, 'rollback')]))).toEqual(['1']);
  });

  it('go back over a release of what was in force already, which changed nothing', () => {
    const [a, b] = [release('1', { a: 'x' }), release('2', { a: 'y' })];
    const again = release('3', { a: 'y' });
    expect(ids(inForce([a, b, again]))).toEqual(['1', '3']);
    expect(ids(inForce([a, b, again, release('4', { a: 'x' }, 'rollback')]))).toEqual(['1']);
  });

  it('go on from a rollback with what is released after it', () => {
    const after = [one, two, release('3', { a: 'x' }, 'rollback'), release('4', { a: 'w' })];
    expect(ids(inForce(after))).toEqual(['1', '4']);
  });
});

describe('Releases of a project', () => {
  let fresh: TestDatabase;
  beforeAll(async () => {
    fresh = await freshDatabase();
  });
  afterAll(() => fresh.close());

  it('are whole maps: one that names some policies leaves the others, a rollback restores all of them', async () => {
    const steps: [string, Record<string, string>, string][] = [
      ['r1', { coder: 'c1', verifier: 'v1' }, 'cli'],
      ['r2', { coder: 'c2' }, 'cli'],
      ['r3', { judge: 'j1' }, 'plan nightly'],
      ['r4', { coder: 'c1', verifier: 'v1' }, 'rollback'],
    ];
    const log = postgresLog(fresh.db);
    for (const [i, [release_id, policies, by]] of steps.entries())
      await recordRelease(log, {
        ...{ source: '/test', time: `2026-01-0${i + 1}T00:00:00Z`, reason: null },
        ...{ release_id, policies, by },
      });
    await projectAll(fresh.db);
    expect((await releasesOf(fresh.db)).map(({ policies }) => policies)).toEqual([
      { coder: 'c1', verifier: 'v1' },
      { coder: 'c2', verifier: 'v1' },
      { coder: 'c2', verifier: 'v1', judge: 'j1' },
      { coder: 'c1', verifier: 'v1' },
    ]);
  });

  it('give a policy nothing after a rollback to a map without it, and the checkpoint that a rollback names', async () => {
    const saved = (id: string) =>
      fresh.db.query(`insert into facts.checkpoints (checkpoint_id, uri, version) values ($1, $2, '1')`, [
        id,
        `/w/${id}`,
      ]);
    for (const id of ['c1', 'c2', 'j1']) await saved(id);
    expect(await givenTo(fresh.db, 'judge')).toBeNull();
    expect(await givenTo(fresh.db, 'coder')).toEqual({ checkpoint_id: 'c1', directory: '/w/c1' });
    expect(await givenTo(fresh.db, 'nobody')).toBeNull();
  });

  it('begin with the model that answered until then, where a route falls back to one, so that a rollback finds it', async () => {
    const log = postgresLog(fresh.db);
    const of = { reason: null, by: 'cli', source: '/test' };
    const give = async (release_id: string, policies: Record<string, string>, time: string) => {
      await recordAfterHosted(
        { db: fresh.db, log },
        { desk: 'far/gpt', coder: 'far/gpt' },
        { ...of, release_id, policies, time },
      );
      await projectAll(fresh.db);
    };
    await give('r5', { desk: 'd1' }, '2026-01-05T00:00:00Z');
    await give('r6', { desk: 'd2', coder: 'c2' }, '2026-01-06T00:00:00Z');
    const all = await releasesOf(fresh.db);
    expect(all.slice(4).map(({ release_id, policies }) => [release_id, policies])).toEqual([
      ['r5/hosted', { coder: 'c1', verifier: 'v1', desk: 'upstream:far/gpt' }],
      ['r5', { coder: 'c1', verifier: 'v1', desk: 'd1' }],
      // Both had a release already.
      ['r6', { coder: 'c2', verifier: 'v1', desk: 'd2' }],
    ]);
    expect(inForce(all.slice(0, 6)).at(-2)!.policies.desk).toBe('upstream:far/gpt');
    const { policies } = all[4]!;
    await recordRelease(log, { ...of, release_id: 'r7', policies, by: 'rollback', time: '2026-01-07T00:00:00Z' });
    await projectAll(fresh.db);
    expect(await givenTo(fresh.db, 'desk')).toEqual({ checkpoint_id: 'upstream:far/gpt', directory: null });
  });
});
