/** A home of many episodes, made in bulk: each has rows in every view that names an episode. */
import type { Db } from '../../../store/db/pool.ts';

export async function fillWithEpisodes(db: Db, episodes: number): Promise<void> {
  await db.query(`
    create temp table e as select 'e' || n as id, 'e/e' || n as key, n from generate_series(1, ${episodes}) n;
    create temp table c as select e.*, i, 'c' || i as call from e cross join generate_series(0, 9) i;
    insert into facts.teams (team_id, name, version) values ('m', 'M', 'v');
    insert into facts.tasks (task_id, query, split, version) select 't' || n, 'What is ' || n || '?', 'train', 'v' from generate_series(1, ${Math.ceil(episodes / 4)}) n;
    insert into facts.episodes (episode_id, task_id, team_id, budgets, tags, answer, outcome, reward, agents, calls, steps, tool_calls, closed, spoke_weights, finished_version)
      select id, 't' || (n + 3) / 4, 'm', '{"tool_calls":9}', '{}', '42', 'success', n % 2, 2, 10, 10, 3, true, '{w}', 'v' from e;
    insert into facts.agents (episode_id, agent_id, name, role, depth, version) select id, a, a, a, 0, 'v' from e cross join unnest(array['x', 'y']) a;
    insert into troupe.bodies (hash, previous, key, body)
      select md5(key || i)::uuid, case when i > 0 then md5(key || (i - 1))::uuid end, key, json_build_object('content', 'message ' || i, 'role', 'user')::text from c;
    insert into troupe.bodies (hash, key, body, media_type) select md5(key || 'image')::uuid, key, '?', 'image/png' from e;
    insert into facts.calls (episode_id, call_id, requested_agent_id, requested_seq, requested_version, completed_version, response_model, checkpoint_id, usage, context)
      select id, call, case i % 2 when 0 then 'x' else 'y' end, i, 'v', 'v', 'w', 'k', '{"cost_usd":0.5}', md5(key || i)::uuid from c;
    insert into facts.steps (episode_id, call_id, candidate, text, version) select id, call, 0, 'An answer of a few words, ' || i, 'v' from c;
    insert into facts.messages (episode_id, message_id, sender, receivers, role, text, version) select id, 'm' || i, 'x', '["y"]', 'user', 'hello', 'v' from c where i < 3;
    insert into facts.tool_calls (episode_id, tool_call_id, call_id, agent_id, name, arguments, status, output, called_version) select id, 'u' || i, call, 'x', 'add', '{}', 'ok', '"3"', 'v' from c where i < 3;
    insert into facts.decisions (episode_id, event_source, event_id, author, kind, decision, version) select id, 's', 'd', 'x', 'handoff', '{"to_agent":"y"}', 'v' from e;
    insert into facts.observations (episode_id, event_source, event_id, kind, content, version) select id, 's', 'o', 'output', '"seen"', 'v' from e;
    insert into facts.artifacts (key, artifact_id, episode_id, role, version) select key, 'file', id, 'file', 'v' from e;
    insert into facts.feedback (key, feedback_id, episode_id, target_kind, target_id, kind, name, value, label, version)
      select key, 'f' || i, id, 'step', call || '/0', case when i < 2 then 'score' else 'reward' end, 'graded', i % 2, case when i < 2 then case i when 0 then 'wrong' else 'right' end end, 'v' from c where i < 4
      union all select key, 'fail', id, 'step', 'c3/0', 'failure', 'FM-1.3', null, null, 'v' from e;
    insert into facts.feedback (key, feedback_id, episode_id, target_kind, target_id, kind, name, matrix, version)
      select key, 'matrix', id, 'episode', id, 'execution', 'tests',
        '{"programs":[{"step_id":"c0/0"},{"step_id":"c2/0"}],"tests":[{"name":"one","ground_truth":true},{"step_id":"c1/0"}],"pass":[[0,1],[1,1]]}', 'v' from e;
    insert into facts.judged_methods values ('k1', 'one_advantage', 1, 'credit', '{}'), ('k2', 'two_advantage', 1, 'credit', '{}'), ('k3', 'dylan_importance', 1, 'credit', '{}'),
      ('kf', 'correctness_filter', 1, 'filter', '{}'), ('kr', 'a_reward', 1, 'reward', '{}'), ('ks', 'a_score', 1, 'score', '{}'), ('kb', 'a_blame', 1, 'blame', '{}');
    insert into facts.credits (episode_id, step_id, method_key, value) select id, call || '/0', k, i - n % 3 from c cross join unnest(array['k1', 'k2', 'k3']) k;
    insert into facts.verdicts (episode_id, step_id, method_key, keep) select id, call || '/0', 'kf', i % 2 = 0 from c;
    insert into facts.rewards (episode_id, step_id, method_key, value) select id, call || '/0', 'kr', i from c;
    insert into facts.scores (key, method_key, value) select key, 'ks', n from e;
    insert into facts.blames (episode_id, method_key, agent_id, step_id, value) select id, 'kb', 'x', 'c3/0', 1 from e;
    insert into facts.checkpoints (checkpoint_id, dataset_ids, version) values ('k', '["d"]', 'v'), ('other', '["d"]', 'v');
    insert into facts.dataset_rows (dataset_id, split, row, episode_id, call_id, candidates) select 'd', 'train', n * 10 + i, id, call, '{0}' from c;
    insert into troupe.stored_events (position, partition, log, key, source, id, name, digest, data)
      select n, 0, 0, key, 's', 'e', 'episode.started', ''::bytea, '{"redactions":{"token":1}}'::json from e
      union all select n * 10 + i, 1, 0, key, 's', call, 'generation.completed', ''::bytea, '{"text":"An answer"}' from c;
    insert into troupe.archives (archive_id, uri, state, written_at) values ('a', 'file:///a', 'kept', now());
    insert into troupe.pruned (key, archive_id, group_id, events, pruned_at) select key, 'a', 'g', 1, now() from e;
    drop table e, c;
    analyze`);
}
