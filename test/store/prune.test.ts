import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { decodeDraft } from '../../ingest/events/decode.ts';
import type { Event } from '../../ingest/events/events.ts';
import { sha256 } from '../../ingest/events/json.ts';
import { cutOtlp } from '../../ingest/formats/traces/live-traces.ts';
import { writeRecord } from '../../ingest/log/kafka-record.ts';
import { prunedRefusal } from '../../ingest/log/log.ts';
import { decodeOtlp } from '../../ingest/traces/otlp/decode.ts';
import { judge, judgeAgain, unjudged } from '../../store/evaluate/judging/judge.ts';
import { planPrune } from '../../store/keep/prune.ts';
import { archiveIn } from '../../store/log/archive.ts';
import { letterOf, replay } from '../../store/log/dead-letters.ts';
import { reconcile } from '../../store/log/reconcile.ts';
import { projectAll } from '../../store/projecting/projector.ts';
import { checksum } from '../../store/projecting/rebuilding/checksum.ts';
import { rebuild } from '../../store/projecting/rebuilding/rebuild.ts';
import { requestJob } from '../../store/queue/jobs/jobs.ts';
import { aTrace, request } from '../ingest/support/spans.ts';
import { anEpisode, anExecution, aStory, at, event } from './support/events.ts';
import { aProject, lateWord, METHODS, now, type Project, reopened } from './support/pruning.ts';

describe('pruning', () => {
  let project: Project;
  beforeEach(async () => {
    project = await aProject();
  });
  afterEach(() => project.close());

  it('P8, P15: leaves a log that adds up without what went, and tables that a rebuild makes again', async () => {
    const { db, record } = project;
    await record([...anEpisode('a', { group: 'g' }), ...anEpisode('b', { group: 'g' }), ...anExecution('c')]);
    await record([...anEpisode('young', { task: 't2' }), reopened('young')]);
    await judge(db, project.log, { methods: METHODS, episodes: ['a', 'c'], now });
    await projectAll(db);
    const plan = await planPrune(db, project.options);
    const done = await project.prune();
    expect(done).toMatchObject({ ...plan, groups: 2, episodes: 3, changed: 0 });
    expect(await project.episodes()).toEqual(['young']);
    const left = await checksum(db);
    expect(left.tables.credits?.rows).toBe(0);
    expect(await reconcile(db)).toMatchObject({ ok: true, log: { pruned: done.events, gaps: 0 }, orphans: {} });
    await rebuild(db, { judge: judgeAgain });
    expect(await checksum(db)).toEqual(left);

    await record(anEpisode('next'));
    expect(await reconcile(db)).toMatchObject({ ok: true, tables: { lag: 0 } });
    await db.query(`delete from troupe.events where key = 'e/next' and id = 'next-3'`);
    expect(await reconcile(db)).toMatchObject({ ok: false, log: { gaps: 1 } });
  });

  it('never cuts a group, and takes none with an open, young, filtered, awaited or needed member', async () => {
    const { db, log, record, options } = project;
    const groups = ['open', 'young', 'other', 'short', 'judged', 'frozen', 'gone'];
    const both = (group: string) =>
      [1, 2].flatMap((n) => anEpisode(`${group}-${n}`, { group, task: `task of ${group}` }));
    const started = (group: string, more: object) =>
      event(
        'episode.started',
        { episode_id: `${group}-1`, group_id: group, task_id: `task of ${group}`, ...more },
        { time: at(1), id: `${group}-more` },
      );
    const target = { kind: 'episode', episode_id: 'young-2' } as const;
    await record([
      ...groups.flatMap(both),
      reopened('open-1'),
      event(
        'feedback.recorded',
        { feedback_id: 'f', target, kind: 'score', name: 'late', value: 1 },
        { time: '2026-11-01T00:00:00Z' },
      ),
      started('other', { tags: { keep: 'yes' } }),
      started('short', { group_size: 3 }),
    ]);
    await requestJob(
      { db, log, now },
      { job_id: 'j1', kind: 'judge', spec: { methods: METHODS, episodes: ['judged-2'] } },
    );
    const recipe = { name: 'f', unit: 'step', where: { field: 'task_id', op: '=', value: 'task of frozen' } };
    await requestJob({ db, log, now }, { job_id: 'j2', kind: 'freeze', spec: { recipe } });
    const where = { not: { field: 'tags.keep', op: '=', value: 'yes' } } as const;
    const waiting = { where, closeAfter: 1e9 } as const;
    expect(await planPrune(db, { ...options, ...waiting })).toMatchObject({ groups: 1, episodes: 2 });
    expect(await project.prune({ ...waiting, limit: 1 })).toMatchObject({ groups: 0, archives: [] });
    expect(await project.prune(waiting)).toMatchObject({ groups: 1, episodes: 2 });
    expect((await project.episodes()).filter((id) => id.startsWith('gone'))).toEqual([]);
    await db.query(`update troupe.job_queue set state = 'finished'`);
    expect(await project.prune({ where })).toMatchObject({ groups: 3, episodes: 6 });
    expect(await project.episodes()).toEqual(['open-1', 'open-2', 'other-1', 'other-2', 'young-1', 'young-2']);
  });

  it('P15: is undone by a restore: log, tables, judgements, bodies, and how far the judge had looked', async () => {
    const { db, record, artifacts } = project;
    const bodies = ['{"shared":true}', Buffer.from([0, 255, 0, 128])] as const;
    await artifacts.put(bodies);
    const [shared, own] = bodies.map(sha256) as [string, string];
    const raw = (id: string, body: string): Event =>
      event('episode.started', { episode_id: id, raw: { artifact_id: body } }, { id: `${id}-raw`, time: at(2) });
    const spans = cutOtlp(decodeOtlp(request(aTrace()))).flatMap(({ drafts }) =>
      drafts.map((draft) => decodeDraft(draft).event!),
    );
    await record([
      ...aStory(),
      raw('e1', own),
      raw('e2', shared),
      ...anExecution('x1'),
      ...anExecution('x2'),
      ...spans,
    ]);
    await record([...anEpisode('stays', { task: 't3' }), raw('stays', shared), reopened('stays')]);
    await judge(db, project.log, { methods: METHODS, episodes: ['e1', 'x1', 'stays'], now });
    await projectAll(db);
    await rebuild(db, { judge: judgeAgain });
    const looked = () => unjudged(db, METHODS, { now: now() });
    const [before, rows, unseen] = [await checksum(db), await project.rows(), await looked()];

    // The spans name times of their own.
    expect(await project.prune({ before: new Date('2026-11-20') })).toMatchObject({ episodes: 5, artifacts: 1 });
    expect((await reconcile(db)).ok).toBe(true);
    const pruned = await checksum(db);
    await rebuild(db, { judge: judgeAgain });
    expect(await checksum(db)).toEqual(pruned);
    expect((await artifacts.get(shared)).toString()).toBe(bodies[0]);
    await expect(artifacts.get(own)).rejects.toMatchObject({ code: 'not_found' });

    expect(await project.restore()).toMatchObject({ episodes: 5, artifacts: 2 });
    expect(await checksum(db)).toEqual(before);
    expect(await project.rows()).toEqual(rows);
    expect(await looked()).toEqual(unseen);
    expect(await artifacts.get(own)).toEqual(bodies[1]);
    expect(await reconcile(db)).toMatchObject({ ok: true, log: { pruned: 0 } });
    await rebuild(db, { judge: judgeAgain });
    expect(await checksum(db)).toEqual(before);
    expect(await project.restore()).toMatchObject({ episodes: 0, events: 0 });
  });

  it('P15: recomputes the results of a method that compares all episodes with each other', async () => {
    const { db, log, record } = project;
    const two = (group: string, rewards: readonly [number, number]) =>
      rewards.flatMap((reward, i) => anEpisode(`${group}${i}`, { group, task: group, reward }));
    await record([...two('g', [0, 9]), ...two('h', [0, 1])]);
    const methods = [{ method: 'trl_advantage', params: { scale: 'batch' } }];
    await judge(db, log, { methods, episodes: ['g0', 'g1', 'h0', 'h1'], now });
    await projectAll(db);
    const before = await checksum(db);
    const credits = async () =>
      (await db.query(`select value from traj.credits where episode_id = 'h1' order by step_id`)).rows;
    const earlier = await credits();
    await project.prune({ where: { field: 'group_id', op: '=', value: 'g' } });
    expect(await credits()).not.toEqual(earlier);
    const left = await checksum(db);
    await rebuild(db, { judge: judgeAgain });
    expect(await checksum(db)).toEqual(left);
    await project.restore();
    expect(await checksum(db)).toEqual(before);
  });

  it('P7: refuses what comes again and what comes late, naming the archive, and takes it after a restore', async () => {
    const { db, log, record } = project;
    const events = anEpisode('a');
    await record(events);
    await project.prune();
    const { rows: lying } = await db.query<{ uri: string }>(`select uri from traj.pruned where episode_id = 'a'`);
    const refused = { pruned: lying[0]!.uri };
    expect(await log.append([...events, lateWord('a'), ...anEpisode('b')])).toEqual([
      ...events.map(({ key }) => (key === 'e/a' ? refused : 'duplicate')),
      refused,
      ...anEpisode('b').map(() => 'accepted'),
    ]);
    expect(prunedRefusal(refused).expected).toContain(`troupe prune restore ${refused.pruned}`);

    await db.query(
      `insert into troupe.logs (log, name, partitions) values (1, 'kafka:t', 1);
       insert into troupe.positions (projection, log, partition, position, began) values ('archive', 1, 0, 0, 0), ('facts', 1, 0, 0, 0)`,
    );
    const { key, value, headers } = writeRecord(lateWord('a'));
    const kafka = { offset: 0, timestamp: '7', key: Buffer.from(key), value: Buffer.from(value), headers };
    const reading = { partition: 0, from: 0, next: 1, end: 1, records: [kafka] };
    expect(
      await db.transaction((tx) => archiveIn(tx, { log: 1, name: 'kafka:t', label: 'kafka:t' }, [reading])),
    ).toMatchObject({ accepted: 0, dead: 1 });
    const { rows: letters } = await db.query<{ id: number; code: string }>(
      'select dead_letter_id::float8 as id, code from traj.dead_letters',
    );
    expect(letters).toMatchObject([{ code: 'pruned' }]);
    expect((await letterOf(db, letters[0]!.id)).raw.toString()).toContain('late');
    await projectAll(db);
    expect((await reconcile(db)).ok).toBe(true);

    const again = () => replay(db, { log, now, code: 'pruned', importRecord: async () => 'not from a file' });
    expect(await again()).toMatchObject({ replayed: [], refused: [{ code: 'pruned' }] });
    await project.restore();
    expect(await again()).toMatchObject({ replayed: [letters[0]!.id], refused: [] });
    await projectAll(db);
    const { rows } = await db.query(`select 1 from traj.messages where episode_id = 'a' and message_id = 'late'`);
    expect(rows.length).toBe(1);
  });
});
