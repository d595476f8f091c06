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

comment on view report.outcomes is 'What every view below means by solved: a recorded reward decides (1 or more), where there is none the outcome (success, or failure and timeout). Error, aborted, unknown and unfinished episodes without a reward are null: neither solved nor failed. Misleads where rewards have another scale than 0 to 1. Before you average over it, group by team_id, split, policy and weights.';
comment on column report.outcomes.group_id is 'what it is compared with: the announced group, else its task, else the episode alone';
comment on column report.outcomes.solved_by is 'reward or outcome: which of the two decided';
comment on column report.outcomes.members is 'agents that were named in the episode; null when none was';
comment on column report.outcomes.tokens is 'null unless both sides were counted; calls without a count are missing from the sum';
comment on column report.outcomes.split is 'of its task: training, validation, test or what the source calls it; null where nobody said';
comment on column report.outcomes.policy is 'the policies that spoke, joined by " + " where they are several; null where no call names one';
comment on column report.outcomes.checkpoint_id is 'the checkpoints that spoke, joined by " + " where they are several; null where no call names one';
comment on column report.outcomes.weights is 'what spoke: of each call its checkpoint or, where none is recorded, its model; joined by " + " where they are several. The views of rates keep weights apart and compare only the same ones';
comment on column report.outcomes.rollout is 'the rollout that played it (its tag rollout); null where none did';
comment on column report.outcomes.cost_usd is 'US dollars of its calls; null unless each of them has a cost';
