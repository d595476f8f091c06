/** A trace is kept as its spans; the events derived from them must outlive their text. */
import { describe, expect, it } from 'vitest';
import { decodeDraft, decodeEnvelope } from '../../ingest/events/decode.ts';
import { cutOtlp } from '../../ingest/formats/traces/live-traces.ts';
import { postgresLog } from '../../ingest/log/postgres.ts';
import { toAttributes } from '../../ingest/traces/otlp/any-value.ts';
import { decodeOtlp } from '../../ingest/traces/otlp/decode.ts';
import { judgeAgain } from '../../store/evaluate/judging/judge.ts';
import { erase, planErasure } from '../../store/keep/erase.ts';
import { eraseEverywhere } from '../../store/keep/erase-archived.ts';
import { projectAll } from '../../store/projecting/projector.ts';
import { checksum } from '../../store/projecting/rebuilding/checksum.ts';
import { rebuild } from '../../store/projecting/rebuilding/rebuild.ts';
import { aTrace, request, TRACE } from '../ingest/support/spans.ts';
import { freshDatabase } from '../support/database.ts';
import { anEpisode, event } from './support/events.ts';
import { aProject } from './support/pruning.ts';

const TEXTS = ['How far?', 'Ask the solver.', 'three'];

describe('an erased trace', () => {
  it('P49: keeps its rows and ids without its text, also after a rebuild, and takes no more spans', async () => {
    const { db, close } = await freshDatabase();
    const log = postgresLog(db);
    const events = cutOtlp(decodeOtlp(request(aTrace()))).flatMap(({ drafts }) =>
      drafts.map((draft) => decodeDraft(draft).event!),
    );
    await log.append(events.slice(1));
    await projectAll(db);
    const rows = async () =>
      (
        await db.query(
          `select 'step' as kind, step_id as id, agent_id as who from traj.steps union all
           select 'tool', tool_call_id, status from traj.tool_calls union all
           select 'agent', agent_id, role from traj.agents union all
           select 'task', task_id, null from traj.tasks order by 1, 2`,
        )
      ).rows;
    const text = async () =>
      JSON.stringify([
        (await db.query('select data from troupe.events')).rows,
        (await db.query('select * from traj.steps')).rows,
        (await db.query('select * from traj.messages')).rows,
        (await db.query('select * from traj.tool_calls')).rows,
        (await db.query('select query, content from traj.tasks')).rows,
      ]);
    const before = await rows();
    for (const one of TEXTS) expect(await text()).toContain(one);

    await erase(
      db,
      { episode: TRACE },
      {
        log,
        now: () => new Date(0),
        judge: judgeAgain,
        removeBody: async () => false,
        removeDataset: async () => false,
      },
    );
    await projectAll(db);
    for (const one of TEXTS) expect(await text()).not.toContain(one);
    expect(await rows()).toEqual(before);
    const sums = await checksum(db);
    await rebuild(db, { judge: judgeAgain });
    expect(await checksum(db)).toEqual(sums);
    expect(await log.append(events)).toEqual(events.map(() => 'erased'));
    await close();
  });

  it.each(['traceloop.association.properties.subject', 'ai.telemetry.metadata.subject'])(
    'P49: is found by a subject that only its spans name, as %s, in the log and in archives',
    async (attribute) => {
      const project = await aProject();
      const { db, log } = project;
      const named = aTrace().map((one) => ({
        ...one,
        attributes: [...one.attributes, ...toAttributes({ [attribute]: 'ann' })],
      }));
      const events = cutOtlp(decodeOtlp(request(named))).flatMap(({ drafts }) =>
        drafts.map((draft) => decodeDraft(draft).event!),
      );
      const closed = event(
        'episode.finished',
        { episode_id: TRACE, outcome: 'success' },
        { time: '2026-09-10T12:00:00Z' },
      );
      await project.record([...events, closed, ...anEpisode('other')]);
      expect(await planErasure(db, { subject: 'ann' })).toMatchObject({ episodes: [TRACE], events: events.length + 1 });
      expect(await planErasure(db, { subject: 'nobody' })).toMatchObject({ keys: [] });
      expect(await project.prune()).toMatchObject({ episodes: 2 });
      expect(await planErasure(db, { subject: 'ann' })).toMatchObject({ keys: [] });
      const done = await eraseEverywhere(
        db,
        { subject: 'ann' },
        {
          ...{ log, now: () => new Date(0), judge: judgeAgain, codeVersion: '0', places: project.places },
          ...{ removeBody: async () => false, removeDataset: async () => false },
        },
      );
      expect(done).toMatchObject({ episodes: [TRACE], archives: [{ rewritten: true }] });
      expect(await project.restore()).toMatchObject({ episodes: 1 });
      expect(await project.episodes()).toEqual(['other']);
      expect(await log.append(events)).toEqual(events.map(() => 'erased'));
      await project.close();
    },
  );

  it('P49: is found by the subject of an envelope, in the log and in archives', async () => {
    const project = await aProject();
    const { db, log } = project;
    const { event: sent } = decodeEnvelope({
      specversion: '1.0',
      id: 'sent',
      source: '/desk',
      type: 'troupe.message.sent.v1',
      time: '2026-09-10T10:00:04Z',
      subject: 'ann',
      data: { episode_id: 'hers', message_id: 'm9', from: 'user', content: 'I am Ann' },
    });
    await project.record([...anEpisode('hers'), sent!, ...anEpisode('other')]);
    expect(await planErasure(db, { subject: 'ann' })).toMatchObject({ episodes: ['hers'] });
    expect(await project.prune()).toMatchObject({ episodes: 2 });
    const done = await eraseEverywhere(
      db,
      { subject: 'ann' },
      {
        ...{ log, now: () => new Date(0), judge: judgeAgain, codeVersion: '0', places: project.places },
        ...{ removeBody: async () => false, removeDataset: async () => false },
      },
    );
    expect(done).toMatchObject({ episodes: ['hers'], archives: [{ rewritten: true }] });
    await project.close();
  });
});
