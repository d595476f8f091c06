/** A trace is kept as its spans; what they told must outlive their text. */
import { describe, expect, it } from 'vitest';
import { decodeDraft } from '../../ingest/decode.ts';
import { cutOtlp } from '../../ingest/formats/live-traces.ts';
import { postgresLog } from '../../ingest/log/postgres.ts';
import { decodeOtlp } from '../../ingest/otlp/decode.ts';
import { checksum } from '../../store/checksum.ts';
import { erase } from '../../store/erase.ts';
import { judgeAgain } from '../../store/judge.ts';
import { projectAll } from '../../store/projector.ts';
import { rebuild } from '../../store/rebuild.ts';
import { aTrace, request, TRACE } from '../ingest/support/spans.ts';
import { freshDatabase } from '../support/database.ts';

const SAID = ['How far?', 'Ask the solver.', 'three'];

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
    for (const said of SAID) expect(await text()).toContain(said);

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
    for (const said of SAID) expect(await text()).not.toContain(said);
    expect(await rows()).toEqual(before);
    const sums = await checksum(db);
    await rebuild(db, { judge: judgeAgain });
    expect(await checksum(db)).toEqual(sums);
    expect(await log.append(events)).toEqual(events.map(() => 'erased'));
    await close();
  });
});
