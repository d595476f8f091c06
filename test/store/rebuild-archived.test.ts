import { randomBytes } from 'node:crypto';
import { readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { decodeDraft } from '../../ingest/events/decode.ts';
import { cutOtlp } from '../../ingest/formats/traces/live-traces.ts';
import { decodeOtlp } from '../../ingest/traces/otlp/decode.ts';
import { snapshotAt, unchangedSince } from '../../store/datasets/as-of.ts';
import { judge, judgeAgain, unjudged } from '../../store/evaluate/judging/judge.ts';
import { eraseEverywhere } from '../../store/keep/erase-archived.ts';
import { reconcile } from '../../store/log/reconcile.ts';
import { projectAll } from '../../store/projecting/projector.ts';
import { checksum } from '../../store/projecting/rebuilding/checksum.ts';
import { type RebuildOptions, rebuild } from '../../store/projecting/rebuilding/rebuild.ts';
import { newEpisodes } from '../../store/queue/schedules/new-episodes.ts';
import { aTrace, request } from '../ingest/support/spans.ts';
import { anEpisode, anExecution, aStory, at, event } from './support/events.ts';
import { aProject, lateWord, METHODS, now, type Project } from './support/pruning.ts';

/** A message that is an image, whose bytes lie apart from it. */
const picture = (episode_id: string) => {
  const url = `data:image/png;base64,${randomBytes(3000).toString('base64')}`;
  const content = [{ type: 'image_url', image_url: { url } }];
  return event(
    'message.sent',
    { episode_id, message_id: 'p', from: 'user', role: 'user', content: content as never },
    { id: `${episode_id}-p`, time: at(3) },
  );
};

describe('a rebuild with archives', () => {
  let project: Project;
  beforeEach(async () => {
    project = await aProject();
  });
  afterEach(() => project.close());

  const again = (more: Partial<RebuildOptions> = {}) => rebuild(project.db, { judge: judgeAgain, ...more });
  /** Of the tables and of what calls read, which hold what lies in archives; the log does not. */
  const tables = async () => {
    const { events: _, ...sums } = (await checksum(project.db)).tables;
    return sums;
  };
  const sound = async () => expect(await reconcile(project.db)).toMatchObject({ ok: true, orphans: {} });
  const inTables = async () =>
    (
      await project.db.query<{ id: string }>(
        'select episode_id as id from traj.pruned where in_tables and episode_id is not null order by 1',
      )
    ).rows.map(({ id }) => id);
  const looked = () => unjudged(project.db, METHODS, { now: now() });
  const onlyFolder = (): string => join(project.to, readdirSync(project.to)[0]!);

  it('P15: gives the tables of before the prune, keeps them with each rebuild, and a prune takes them out again', async () => {
    const { db, record } = project;
    const spans = cutOtlp(decodeOtlp(request(aTrace()))).flatMap(({ drafts }) =>
      drafts.map((draft) => decodeDraft(draft).event!),
    );
    await record([...aStory(), ...anExecution('x1'), ...anExecution('x2', { reward: 0 }), ...spans]);
    await record(anEpisode('stays', { task: 't3' }));
    await judge(db, project.log, { methods: METHODS, episodes: ['e1', 'x1', 'stays'], now });
    await projectAll(db);
    await again();
    const [before, sums, unseen] = [await tables(), await checksum(db), await looked()];
    const stays = { where: { not: { field: 'episode_id', op: '=', value: 'stays' } } } as const;
    const done = await project.prune({ before: new Date('2026-11-20'), ...stays });
    expect(done).toMatchObject({ episodes: 5, archived: 0 });
    const pruned = await checksum(db);
    expect(await again()).toMatchObject({ archived: 0, left_out: done.events });
    expect(await checksum(db)).toEqual(pruned);

    const progress: number[] = [];
    expect(
      await again({ archived: true, portion: 3, onProgress: ({ applied, total }) => progress.push(applied / total) }),
    ).toMatchObject({ archived: done.events, left_out: 0 });
    expect(progress.at(-1)).toBe(1);
    expect(await tables()).toEqual(before);
    expect(await looked()).toEqual(unseen);
    expect((await inTables()).length).toBe(5);
    expect((await checksum(db)).tables.events).toEqual(pruned.tables.events);
    await sound();
    expect(await again()).toMatchObject({ archived: done.events, left_out: 0 });
    expect(await tables()).toEqual(before);
    await sound();

    expect(await project.prune({ before: new Date('2026-11-20'), ...stays })).toMatchObject({
      ...{ episodes: 5, archived: 5, events: 0, archives: [], changed: 0 },
    });
    expect([await checksum(db), await inTables()]).toEqual([pruned, []]);
    await sound();
    await again({ archived: true });
    expect(await project.restore()).toMatchObject({ episodes: 5, events: done.events });
    expect([await checksum(db), await looked()]).toEqual([sums, unseen]);
    await sound();
    await again({ archived: true });
    expect(await checksum(db)).toEqual(sums);
  });

  it('P7: takes feedback from elsewhere and new members of a group, refuses the rest, and a prune archives what is new alone', async () => {
    const { db, log, record } = project;
    const first = [...anEpisode('a', { group: 'g' }), ...anEpisode('b', { group: 'g', reward: 0 })];
    const answered = event(
      'generation.completed',
      { episode_id: 'a', call_id: 'c9', choices: [], response_id: 'resp-9' },
      { id: 'r9', time: '2026-09-10T10:00:08Z' },
    );
    const target = { kind: 'foreign', id: 'resp-9' } as const;
    const late = event(
      'feedback.recorded',
      { feedback_id: 'f', target, kind: 'score', name: 'helpful', value: 1 },
      { id: 'f', time: '2026-09-10T10:00:50Z' },
    );
    await record([...first, answered]);
    await judge(db, log, { methods: [{ method: 'grpo_advantage' }], episodes: ['a', 'b'], now });
    await projectAll(db);
    await project.prune();
    await again({ archived: true });
    expect(await log.append([lateWord('a')])).toEqual([{ pruned: expect.stringContaining(project.to) }]);
    await record([late, ...anEpisode('c', { group: 'g', reward: 0 })]);
    await judge(db, log, { methods: [{ method: 'grpo_advantage' }], episodes: ['c'], now });
    await projectAll(db);
    const { rows } = await db.query<{ id: string }>(
      'select resolved_episode_id as id from facts.feedback where key = $1',
      ['x/resp-9'],
    );
    expect(rows).toEqual([{ id: 'a' }]);
    const whole = await tables();
    await again();
    expect(await tables()).toEqual(whole);

    expect(await project.prune()).toMatchObject({ groups: 1, episodes: 3, archived: 2, archives: [{ episodes: 1 }] });
    expect(await project.episodes()).toEqual([]);
    await sound();
    await again({ archived: true });
    expect(await tables()).toEqual(whole);
    await project.prune();
    expect(await project.restore()).toMatchObject({ episodes: 3 });
    expect(await tables()).toEqual(whole);
    await sound();
  });

  it('P42: names an archive that is not there or was changed, with what to do, and changes nothing', async () => {
    const { db, record } = project;
    await record([...anEpisode('a'), ...anEpisode('b', { task: 'task-2' })]);
    const before = await tables();
    await project.prune();
    const uri = onlyFolder();
    const pruned = await checksum(db);
    const refused = async (code: string) => {
      await expect(again({ archived: true })).rejects.toMatchObject({
        ...{ code, message: expect.stringContaining(uri) },
        detail: { hint: expect.stringMatching(/prune restore PLACE.*without --archived/) },
      });
      expect([await checksum(db), await inTables()]).toEqual([pruned, []]);
      await sound();
    };
    renameSync(uri, `${uri}-away`);
    await refused('not_found');
    renameSync(`${uri}-away`, uri);
    for (const name of ['events-00000.parquet', 'manifest.json']) {
      const bytes = readFileSync(join(uri, name));
      writeFileSync(join(uri, name), Buffer.concat([bytes, Buffer.from(' ')]));
      await refused('dataset_damaged');
      rmSync(join(uri, name));
      await refused(name === 'manifest.json' ? 'not_found' : 'dataset_damaged');
      writeFileSync(join(uri, name), bytes);
    }
    await again({ archived: true });
    expect(await tables()).toEqual(before);
    renameSync(uri, `${uri}-away`);
    await expect(again()).rejects.toMatchObject({ code: 'not_found' });
    await project.prune();
    expect(await again()).toMatchObject({ archived: 0 });
    expect(await checksum(db)).toEqual(pruned);
  });

  it('P42: leaves nothing that counts where it is interrupted, and the next one makes all of it', async () => {
    const { db, record } = project;
    await record([...anEpisode('a'), picture('a'), ...anEpisode('b', { task: 'task-2' })]);
    const before = await tables();
    await project.prune();
    const pruned = await checksum(db);
    const dies = async () => {
      throw new Error('the power went');
    };
    await expect(again({ archived: true, judge: dies })).rejects.toThrow('the power went');
    expect([await checksum(db), await inTables()]).toEqual([pruned, []]);
    await sound();
    await again();
    const { rows } = await db.query(
      `select 1 from troupe.bodies where key like 'e/%' union all select 1 from troupe.blobs`,
    );
    expect([rows.length, await checksum(db)]).toEqual([0, pruned]);
    await sound();
    await again({ archived: true });
    expect(await tables()).toEqual(before);
  });

  it('P49: shows nothing of an episode that is erased then, nor what an interrupted one left of it', async () => {
    const { db, log, record } = project;
    await record([...anEpisode('a', { group: 'g' }), ...anEpisode('b', { group: 'g', reward: 0 })]);
    const methods = [{ method: 'grpo_advantage' }, { method: 'trl_advantage', params: { scale: 'batch' } }];
    await judge(db, log, { methods, episodes: ['a', 'b'], now });
    await projectAll(db);
    await project.prune();
    await again({ archived: true });
    const stops = async () => {
      throw new Error('the power went');
    };
    await expect(again({ judge: stops })).rejects.toThrow('the power went');
    const erased = await eraseEverywhere(
      db,
      { episode: 'a' },
      {
        ...{ log, places: project.places, now, judge: judgeAgain, codeVersion: '0' },
        ...{ removeBody: project.artifacts.remove, removeDataset: async () => false },
      },
    );
    expect(erased).toMatchObject({ archives: [{ rewritten: true }] });
    expect([await project.episodes(), await inTables()]).toEqual([['b'], ['b']]);
    const { rows: left } = await db.query(
      `select 1 from troupe.bodies where key = 'e/a' union all select 1 where to_regnamespace('facts_next') is not null`,
    );
    expect(left).toEqual([]);
    await sound();
    const afterwards = await tables();
    expect(await again({ archived: true })).toMatchObject({ left_out: 0 });
    expect([await project.episodes(), await tables()]).toEqual([['b'], afterwards]);
    await sound();
  });

  it('knows of an archived episode that it is no new one, and no older than its archive', async () => {
    const { db, log, record } = project;
    await record(anEpisode('a'));
    const since = [{ log: 0, partition: 0, position: 0 }];
    await project.prune();
    await again({ archived: true });
    await judge(db, log, { methods: METHODS, episodes: ['a'], now });
    expect((await newEpisodes(db, since)).count).toBe(1);
    await judge(db, log, { methods: [{ method: 'grpo_advantage' }], episodes: ['a'], now });
    const { until } = await newEpisodes(db, since);
    await judge(db, log, { methods: [{ method: 'drmas_advantage' }], episodes: ['a'], now });
    expect((await newEpisodes(db, until)).count).toBe(0);
    const kept = async (time: string) =>
      (await db.transaction(async (tx) => unchangedSince(tx, ['a'], await snapshotAt(tx, time)))).ids;
    expect([await kept('2026-11-20T00:00:00Z'), await kept('2026-11-22T00:00:00Z')]).toEqual([[], ['a']]);
  });
});
