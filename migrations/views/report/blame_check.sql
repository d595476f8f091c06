-- No `with` here: PostgreSQL computes a view with one whole before joining it.
create view report.blame_check as
  select g.episode_id, g.feedback_id, g."by", g.agent as gold_agent, g.step_id as gold_step_id, g.entry as gold_entry,
         b.method, b.method_key, b.rank, coalesce(a.name, b.agent_id) as blamed_agent, b.step_id as blamed_step_id, b.entry as blamed_entry, b.value, b.reason,
         b.agent_id = g.agent_id or coalesce(a.name, b.agent_id) = g.agent as agent_right,
         case when g.step_id is not null and b.step_id is not null then g.step_id = b.step_id else g.entry = b.entry end as step_right,
         abs(g.entry - b.entry) as entries_off
  from (
    select f.episode_id, f.feedback_id, f.agent_id, f.agent, coalesce(f.entry, case when s.seq <= 2147483647 then s.seq::integer end) as entry, f.step_id, f."by"
    from report.failures f left join facts.calls c on c.episode_id = f.episode_id and c.call_id = f.call_id
    cross join lateral (select coalesce(c.requested_seq, c.completed_seq) as seq) s
    where f.kind = 'failure' and f.target_kind in ('agent', 'step', 'call')
  ) g
  left join (
    select b.episode_id, m.method, b.method_key, b.rank, b.agent_id, b.step_id, coalesce(b.entry, case when s.seq <= 2147483647 then s.seq::integer end) as entry, b.value, b.reason
    from facts.blames b join facts.judged_methods m using (method_key)
    left join facts.calls c on c.episode_id = b.episode_id and c.call_id = traj.call_of(b.step_id)
    cross join lateral (select coalesce(c.requested_seq, c.completed_seq) as seq) s
  ) b on b.episode_id = g.episode_id
  left join facts.agents a on a.episode_id = b.episode_id and a.agent_id = b.agent_id;

comment on view report.blame_check is 'Each recorded failure with what each blame method attributes it to, by rank. Rank 0 is the method''s answer: count over it. A row without a method is a failure that no method has judged. Null is no answer, not a wrong one: divide by all rows for accuracy, by answered rows for precision.';
comment on column report.blame_check.gold_entry is 'the labelled entry, otherwise the order number (seq) of the step''s call, which is the same if the source counts its entries; null if its numbers are times, as in traces';
comment on column report.blame_check.entries_off is 'distance from the blamed to the true entry';
