/** Stored episodes of twenty steps, filled by SQL alone: what judging, freezing and exporting read. */
import { TroupeError } from '../errors.ts';
import type { Db } from '../store/db/pool.ts';

export const STEPS_AN_EPISODE = 20;
const AGENTS = 5;
const GROUP = 8;
const TOKENS = 40;

export const episodeId = (e: number): string => `episode-${String(e).padStart(7, '0')}`;

/** Groups of eight episodes of a task, five agents that take turns, rewards of 0 and 1 that depend on the number alone. */
export async function fillEpisodes(db: Db, episodes: number, { tokens = false } = {}): Promise<void> {
  const e = `'episode-' || lpad(e::text, 7, '0')`;
  const all = `generate_series(0, ${episodes} - 1) e`;
  const call = `'call-' || e || '-' || s`;
  const each = `from ${all}, generate_series(0, ${STEPS_AN_EPISODE} - 1) s order by e, s`;
  const at = `timestamptz '2026-09-01 00:00:00Z' + e * interval '10 s' + s * interval '250 ms'`;
  const sampled = tokens
    ? `array(select s * 50 + n from generate_series(1, ${TOKENS}) n), array_fill((-0.1 * (1 + s))::real, array[${TOKENS}])`
    : 'null::integer[], null::real[]';
  await db.query(`set synchronous_commit = off;
    insert into facts.episodes (episode_id, task_id, group_id, reward, closed, outcome, agents, calls, steps, revision, started_version, finished_version)
      select ${e}, 'task-' || e / ${GROUP}, 'group-' || e / ${GROUP}, ((e * 7919) % 11 < 5)::integer, true, 'success', ${AGENTS}, ${STEPS_AN_EPISODE}, ${STEPS_AN_EPISODE}, e, 'v|' || e, 'v|' || e from ${all};
    insert into facts.agents (episode_id, agent_id, name, role, version)
      select ${e}, 'agent-' || a, 'agent-' || a, 'role-' || a, 'v' from ${all}, generate_series(0, ${AGENTS} - 1) a;
    insert into facts.calls (episode_id, call_id, requested_agent_id, requested_turn, requested_seq, requested_version, completed_agent_id, completed_turn, completed_version, input_tokens, output_tokens, completed_at)
      select ${e}, ${call}, 'agent-' || s % ${AGENTS}, s / ${AGENTS}, s, 'v|' || e, 'agent-' || s % ${AGENTS}, s / ${AGENTS}, 'v|' || e, 100, 40, ${at} ${each};
    insert into facts.steps (episode_id, call_id, candidate, text, finish_reason, chosen, version, token_ids, logprobs)
      select ${e}, ${call}, 0, repeat('said something about it ', 10), 'stop', true, 'v|' || e, ${sampled} ${each};
    reset synchronous_commit`);
  await db.query('vacuum analyze');
}

/** So many steps, whole episodes of them, with tokens and their log-probabilities. @throws TroupeError `usage` for a broken episode */
export async function fillSteps(db: Db, steps: number): Promise<void> {
  if (steps % STEPS_AN_EPISODE !== 0)
    throw new TroupeError('usage', `Sizes are whole episodes of ${STEPS_AN_EPISODE} steps, but ${steps} is none.`);
  await fillEpisodes(db, steps / STEPS_AN_EPISODE, { tokens: true });
}
