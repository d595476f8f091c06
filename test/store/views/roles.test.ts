/** The role of an agent that was given none is its name, and says so. */
import { afterEach, beforeEach, expect, it } from 'vitest';
import { postgresLog } from '../../../ingest/log/postgres.ts';
import { fieldSql } from '../../../store/filter/filter-fields.ts';
import { projectAll } from '../../../store/projecting/projector.ts';
import { freshDatabase, type TestDatabase } from '../../support/database.ts';
import { event } from '../support/events.ts';
import { rowsOf } from './attempts.ts';

let fresh: TestDatabase;
beforeEach(async () => {
  fresh = await freshDatabase();
  const e = { episode_id: 'a' };
  const completed = (call_id: string, more: object) =>
    event('generation.completed', { ...e, call_id, choices: [{ index: 0, content: 'x' }], ...more });
  await postgresLog(fresh.db).append([
    event('episode.started', { ...e, task_id: 't' }),
    event('agent.defined', { ...e, agent_id: 'p1', name: 'planner' }),
    event('agent.defined', { ...e, agent_id: 'c1', name: 'Ada', role: 'coder' }),
    completed('c0', { agent_id: 'p1' }),
    completed('c1', { agent_id: 'c1' }),
    completed('c2', { agent_id: 'c1', role: 'critic' }),
    completed('c3', { agent_id: 'undefined' }),
    completed('c4', {}),
    event('tool.returned', { ...e, tool_call_id: 't1', status: 'ok', output: 'Error: no', flags: ['apparent_error'] }),
  ]);
  await projectAll(fresh.db);
});
afterEach(() => fresh.close());

it('agents and steps show a given role as given, else the name of the agent as such', async () => {
  expect(
    await rowsOf(
      fresh.db,
      "select agent_id, role, role_source from traj.agents where agent_id <> 'undefined' order by 1",
    ),
  ).toEqual([
    { agent_id: 'c1', role: 'coder', role_source: 'given' },
    { agent_id: 'p1', role: 'planner', role_source: 'agent name' },
  ]);
  expect(await rowsOf(fresh.db, 'select call_id, role, role_source from traj.steps order by 1')).toEqual([
    { call_id: 'c0', role: 'planner', role_source: 'agent name' },
    { call_id: 'c1', role: 'coder', role_source: 'given' },
    { call_id: 'c2', role: 'critic', role_source: 'given' },
    { call_id: 'c3', role: 'undefined', role_source: 'agent name' },
    { call_id: 'c4', role: null, role_source: null },
  ]);
  expect(await rowsOf(fresh.db, 'select role from report.role_performance order by 1')).toEqual(
    ['coder', 'critic', 'planner', 'undefined'].map((role) => ({ role })),
  );
});

it('a recipe or filter selects by the same role', async () => {
  const from = `facts.steps s join facts.calls c using (episode_id, call_id)
    left join facts.agents a on a.episode_id = s.episode_id and a.agent_id = coalesce(c.completed_agent_id, c.requested_agent_id)`;
  expect(
    await rowsOf(fresh.db, `select call_id from ${from} where ${fieldSql('role')} in ('planner', 'critic') order by 1`),
  ).toEqual([{ call_id: 'c0' }, { call_id: 'c2' }]);
});

it('flags of a tool result stand beside it', async () => {
  expect(await rowsOf(fresh.db, 'select status, flags from traj.tool_calls')).toEqual([
    { status: 'ok', flags: ['apparent_error'] },
  ]);
});
