import { existsSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { parquetReadObjects } from 'hyparquet';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Event } from '../../ingest/events/events.ts';
import { sha256 } from '../../ingest/events/json.ts';
import { freeze } from '../../store/datasets/freeze.ts';
import { openDataset } from '../../store/datasets/read.ts';
import { judgeAgain } from '../../store/evaluate/judging/judge.ts';
import { eraseEverywhere } from '../../store/keep/erase-archived.ts';
import { reconcile } from '../../store/log/reconcile.ts';
import { checksum } from '../../store/projecting/rebuilding/checksum.ts';
import { rebuild } from '../../store/projecting/rebuilding/rebuild.ts';
import '../support/replay.ts';
import { anEpisode, event } from './support/events.ts';
import { aProject, lateWord, now, type Project } from './support/pruning.ts';

describe('an archive of pruned episodes', () => {
  let project: Project;
  beforeEach(async () => {
    project = await aProject();
  });
  afterEach(() => project.close());
  const folders = (): string[] => (existsSync(project.to) ? readdirSync(project.to).sort() : []);
  const onlyFolder = (): string => join(project.to, folders()[0]!);

  it('is opened by another reader of Parquet, and holds every column of the log in its order', async () => {
    const { db, record } = project;
    const odd = event('message.sent', {
      episode_id: 'a',
      message_id: 'm',
      content: 'tab\\t, \\u2028, "quoted", Ålesund 🙂, \\\\u0000',
    });
    await record([...anEpisode('a'), odd, ...anEpisode('b')]);
    const { rows: logged } = await db.query<Record<string, unknown>>(
      `select log, partition, position::bigint::text as position, key, source, id, name, type_version, time, data::text as data, digest, recorded_at
       from troupe.events e where key like 'e/%' order by log, partition, e.position`,
    );
    await project.prune();
    const manifest = JSON.parse(readFileSync(join(onlyFolder(), 'manifest.json'), 'utf8'));
    const bytes = readFileSync(join(onlyFolder(), manifest.files[0].name));
    expect(manifest).toMatchObject({ events: 23, episodes: 2, files: [{ rows: 23, sha256: sha256(bytes) }] });
    const file = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length) as ArrayBuffer;
    const found = await parquetReadObjects({ file, utf8: true });
    const time = (value: unknown) => (value === null || value === undefined ? null : new Date(value as Date).getTime());
    expect(found.map((row) => ({ ...row, time: time(row.time), recorded_at: time(row.recorded_at) }))).toEqual(
      logged.map((row) => ({
        ...row,
        position: BigInt(row.position as string),
        time: time(row.time),
        recorded_at: time(row.recorded_at),
      })),
    );
  });

  it('P42: is known to the database before the disk has anything of it, so that no folder can be left that nothing names', async () => {
    const { db, record, to } = project;
    await record(anEpisode('a'));
    writeFileSync(to, 'a file is in the way');
    await expect(project.prune()).rejects.toMatchObject({ code: 'home_unwritable' });
    const { rows } = await db.query<{ state: string; draft: string }>('select state, draft from troupe.archives');
    expect(rows).toEqual([{ state: 'writing', draft: expect.stringContaining(join(to, '.tmp-')) }]);
    rmSync(to);
    expect(await project.prune()).toMatchObject({ episodes: 1 });
    expect(folders()).toHaveLength(1);
  });

  it('P42: is cleared away where the process ended before the removal, and the next run makes it anew', async () => {
    const { db, record } = project;
    await record([...anEpisode('a'), ...anEpisode('b', { task: 'task-2' })]);
    const before = await checksum(db);
    const dies = () => Promise.reject(new Error('the power went'));
    await expect(project.prune({ onArchived: dies })).rejects.toThrow('the power went');
    expect([await checksum(db), (await reconcile(db)).ok]).toEqual([before, true]);
    const [left] = folders();
    writeFileSync(join(project.to, left!, 'events-00000.parquet'), 'half');
    expect(await project.prune()).toMatchObject({ episodes: 2 });
    expect(folders()).toEqual([expect.not.stringContaining(left!)]);
    await project.restore();
    expect(await checksum(db)).toEqual(before);
  });

  it('is thrown away where something came for its groups meanwhile, and they stay', async () => {
    const { db, record } = project;
    await record(anEpisode('a'));
    const onArchived = () => record([lateWord('a')]);
    expect(await project.prune({ onArchived })).toMatchObject({ episodes: 0, changed: 1, archives: [] });
    expect([await project.episodes(), folders()]).toEqual([['a'], []]);
    const late = await db.query(`select 1 from traj.messages where message_id = 'late'`);
    expect([late.rows.length, (await reconcile(db)).ok]).toEqual([1, true]);
  });

  it('is refused where a file was changed, and where another database wrote it; nothing is changed then', async () => {
    await project.record(anEpisode('a'));
    await project.prune();
    const path = join(onlyFolder(), 'events-00000.parquet');
    const bytes = readFileSync(path);
    const before = await checksum(project.db);
    const spoilt = Buffer.from(bytes);
    spoilt[40]! ^= 1;
    writeFileSync(path, spoilt);
    await expect(project.restore()).rejects.toMatchObject({
      code: 'dataset_damaged',
      message: expect.stringContaining(path),
    });
    writeFileSync(path, bytes);
    const other = await aProject();
    await expect(other.restore(project.to)).rejects.toMatchObject({ code: 'conflict' });
    await other.close();
    await expect(project.restore(join(project.folder, 'nowhere'))).rejects.toMatchObject({ code: 'not_found' });
    expect(await checksum(project.db)).toEqual(before);
    expect(await project.restore(path)).toMatchObject({ episodes: 1 });
  });

  it('P50: leaves frozen datasets readable, with their rows and their lineage', async () => {
    const { db, record, log, folder } = project;
    await record(anEpisode('a'));
    const frozen = await freeze(
      db,
      { name: 'all', unit: 'step', layout: ['jsonl'] },
      { directory: join(folder, 'datasets'), codeVersion: '0', log, at: now().toISOString() },
    );
    await record([event('checkpoint.saved', { checkpoint_id: 'k', dataset_ids: [frozen.manifest.dataset_id] })]);
    const lineage = async () => (await db.query(`select * from traj.lineage order by step_id`)).rows;
    const before = await lineage();
    expect(before.length).toBe(3);
    await project.prune();
    expect(await project.episodes()).toEqual([]);
    expect(await lineage()).toEqual(before);
    expect([...(await openDataset(frozen.directory)).rows('train')].length).toBe(3);
  });

  const BODY = '{"said":"Ann-Lives-In-Oslo"}';
  const hers = (id: string): Event[] => [
    ...anEpisode(id, { task: `task of ${id}` }),
    event(
      'episode.started',
      {
        episode_id: id,
        task_id: `task of ${id}`,
        subject: 'ann',
        tags: { home: 'Ann-Lives-In-Oslo' },
        raw: { artifact_id: sha256(BODY) },
      },
      { id: `${id}-hers`, time: '2026-09-10T11:00:00Z' },
    ),
  ];
  const everyByte = (): string =>
    readdirSync(project.folder, { recursive: true, withFileTypes: true })
      .filter((one) => one.isFile())
      .map((one) => readFileSync(join(one.parentPath, one.name), 'latin1'))
      .join('\\n');
  const erase = (what: Parameters<typeof eraseEverywhere>[1]) =>
    eraseEverywhere(project.db, what, {
      ...{ log: project.log, places: project.places, now, judge: judgeAgain, codeVersion: '0' },
      removeBody: project.artifacts.remove,
      removeDataset: async () => false,
    });

  it('P49: is written anew without what is erased, also after a restore, and keeps the others', async () => {
    const { record, artifacts, db } = project;
    await artifacts.put([BODY]);
    await record([...hers('ann-1'), ...hers('ann-2'), ...anEpisode('b', { group: 'g' })]);
    await project.prune();
    expect(everyByte()).toContain('Ann-Lives-In-Oslo');
    const first = await erase({ episode: 'ann-1' });
    expect(first).toMatchObject({ episodes: ['ann-1'], archives: [{ rewritten: true }] });
    expect(folders().length).toBe(1);
    expect(await erase({ subject: 'ann' })).toMatchObject({ episodes: ['ann-2'], archives: [{ rewritten: true }] });
    expect(everyByte()).not.toContain('Ann-Lives-In-Oslo');
    expect(await project.log.append([lateWord('ann-1'), lateWord('ann-2'), lateWord('b')])).toEqual([
      'erased',
      'erased',
      { pruned: onlyFolder() },
    ]);
    const { rows: tasks } = await db.query(`select query from traj.tasks where task_id like '%ann%'`);
    expect(tasks.filter(({ query }) => query !== null && query !== '[erased]')).toEqual([]);
    expect(await project.restore()).toMatchObject({ episodes: 1, events: 11 });
    expect(await project.episodes()).toEqual(['b']);
    expect((await reconcile(db)).ok).toBe(true);
    await erase({ episode: 'b' });
    expect([folders(), (await reconcile(db)).ok]).toEqual([[], true]);
  });

  it('P49: gives up what plays a task that names a subject, also where the task was erased while it was away', async () => {
    const tagged = event('task.defined', { task_id: 'her task', query: 'q', tags: { subject: 'cleo' } });
    await project.record([
      tagged,
      ...anEpisode('c1', { task: 'her task' }),
      ...anEpisode('c2', { task: 'other task' }),
    ]);
    await project.prune();
    await project.record(anEpisode('c3', { task: 'her task' }));
    const places = readdirSync(project.folder, { recursive: true, withFileTypes: true })
      .filter((one) => one.name === 'manifest.json')
      .map((one) => one.parentPath);
    for (const place of places) renameSync(place, `${place}-away`);
    const first = await erase({ subject: 'cleo' });
    expect(first.archives.map(({ rewritten }) => rewritten)).toEqual(places.map(() => false));
    for (const place of places) renameSync(`${place}-away`, place);
    const second = await erase({ subject: 'cleo' });
    expect([...first.episodes, ...second.episodes].toSorted()).toEqual(['c1', 'c3']);
    expect(second.archives).toMatchObject([{ rewritten: true }]);
  });

  it('P49: that is not where it was is named as holding it still, and never gives it back', async () => {
    await project.record(hers('ann-1'));
    await project.prune();
    const [uri, away] = [onlyFolder(), join(project.folder, 'away')];
    renameSync(uri, away);
    const { archives } = await erase({ episode: 'ann-1' });
    expect(archives).toEqual([{ archive_id: expect.any(String), uri, rewritten: false, why: expect.any(String) }]);
    expect(await project.restore(away)).toMatchObject({ episodes: 0, archives: [{ left_out: 1 }] });
    expect(await project.episodes()).toEqual([]);
    renameSync(away, uri);
    expect((await erase({ episode: 'ann-1' })).archives).toMatchObject([{ rewritten: true }]);
    expect(folders()).toEqual([]);
    rmSync(away, { recursive: true, force: true });
  });

  it('P58: whatever groups of whatever age: none is cut, and a rebuild of archives and a restore bring back every sum', async () => {
    const { db, record } = project;
    const member = fc.record({ day: fc.integer({ min: 0, max: 20 }), closed: fc.boolean(), messages: fc.nat(3) });
    const groups = fc.array(
      fc.record({ members: fc.array(member, { minLength: 1, maxLength: 3 }), named: fc.boolean() }),
      { minLength: 1, maxLength: 6 },
    );
    let run = 0;
    await fc.assert(
      fc.asyncProperty(groups, fc.integer({ min: 0, max: 21 }), async (drawn, day) => {
        run++;
        const stories = drawn.flatMap(({ members, named }, g) =>
          members.map((one, m) => ({
            ...one,
            id: `${run}-${g}-${m}`,
            task: `${run}-${g}`,
            group: named ? `g${run}-${g}` : null,
          })),
        );
        await record(stories.flatMap(storyOf));
        const [sums, rows] = [await checksum(db), await project.rows()];
        await project.prune({ before: new Date(Date.UTC(2026, 7, 1 + day)) });
        const left = new Set(await project.episodes());
        for (const group of new Set(stories.map(({ task }) => task))) {
          const members = stories.filter(({ task }) => task === group);
          const old = members.every((one) => one.closed && one.day < day);
          expect(members.map(({ id }) => left.has(id))).toEqual(members.map(() => !old));
        }
        expect((await reconcile(db)).ok).toBe(true);
        await rebuild(db, { judge: judgeAgain, archived: true });
        expect((await checksum(db)).tables).toEqual({ ...sums.tables, events: expect.anything() });
        if (run % 2 === 0) await project.prune({ before: new Date(Date.UTC(2026, 7, 1 + day)) });
        if (folders().length > 0) await project.restore();
        expect(await checksum(db)).toEqual(sums);
        expect(await project.rows()).toEqual(rows);
        rmSync(project.to, { recursive: true, force: true });
      }),
      { numRuns: 6 },
    );
  });
});

type DrawnEpisode = {
  readonly id: string;
  readonly task: string;
  readonly group: string | null;
  readonly day: number;
} & {
  readonly closed: boolean;
  readonly messages: number;
};

function storyOf({ id, task, group, day, closed, messages }: DrawnEpisode): Event[] {
  const time = new Date(Date.UTC(2026, 7, 1 + day, 12)).toISOString();
  const e = (n: number) => ({ id: `${id}-${n}`, time });
  return [
    event('episode.started', { episode_id: id, task_id: task, group_id: group }, e(0)),
    ...Array.from({ length: messages }, (_, n) =>
      event('message.sent', { episode_id: id, message_id: `m${n}`, from: 'user', content: `word ${n}` }, e(1 + n)),
    ),
    ...(closed ? [event('episode.finished', { episode_id: id, outcome: 'success' }, e(9))] : []),
  ];
}
