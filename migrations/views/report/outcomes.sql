create view report.outcomes as
  select e.episode_id, e.task_id, coalesce(e.group_id, e.task_id, e.episode_id) as group_id, e.team_id, t.name as team,
         e.outcome, e.reward,
         case when e.reward is not null then e.reward >= 1
              when e.outcome = 'success' then true
              when e.outcome in ('failure', 'timeout') then false end as solved,
         case when e.reward is not null then 'reward'
              when e.outcome in ('success', 'failure', 'timeout') then 'outcome' end as solved_by,
         nullif(e.agents, 0) as members, e.calls, e.steps, e.tool_calls, e.input_tokens, e.output_tokens,
         e.input_tokens + e.output_tokens as tokens, e.closed,
         k.split collate "C" as split, array_to_string(e.spoke_policies, ' + ') collate "C" as policy,
         array_to_string(e.spoke_checkpoints, ' + ') collate "C" as checkpoint_id, array_to_string(e.spoke_weights, ' + ') collate "C" as weights,
         e.tags ->> 'rollout' as rollout,
         (select case when count(*) = count(c.usage ->> 'cost_usd') then sum((c.usage ->> 'cost_usd')::double precision) end
          from facts.calls c where c.episode_id = e.episode_id and c.copied is not true) as cost_usd
  from facts.episodes e left join facts.teams t using (team_id) left join facts.tasks k on k.task_id = e.task_id;

comment on view report.outcomes is 'The definition of solved for every report: a recorded reward of 1 or more; without a reward, the outcome (success, or failure and timeout). Error, aborted, unknown and unfinished episodes without a reward are null: neither solved nor failed. Misleads if rewards have another scale than 0 to 1. Group by team_id, split, policy and weights before you average.';
comment on column report.outcomes.group_id is 'the comparison group: the announced group, otherwise its task, otherwise the episode alone';
comment on column report.outcomes.solved_by is 'reward or outcome: which of the two decided';
comment on column report.outcomes.members is 'agents named in the episode; null if there are none';
comment on column report.outcomes.tokens is 'null unless input and output were counted; the sum omits calls without a count';
comment on column report.outcomes.split is 'of its task: training, validation, test or the source''s name; null if not recorded';
comment on column report.outcomes.policy is 'the policies that generated its calls, joined by " + "; null if no call names one';
comment on column report.outcomes.checkpoint_id is 'the checkpoints that generated its calls, joined by " + "; null if no call names one';
comment on column report.outcomes.weights is 'what generated its calls: the checkpoint of each or, if none is recorded, its model, joined by " + ". Reports of rates separate weights and compare only equal ones';
comment on column report.outcomes.rollout is 'the rollout that played it (its tag rollout); null if none did';
comment on column report.outcomes.cost_usd is 'US dollars of its calls; null unless each of them has a cost';
