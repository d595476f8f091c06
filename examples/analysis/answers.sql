select s.role, count(*) as steps, count(distinct s.episode_id) as episodes, avg(length(s.text))::float8 as characters,
       (count(*) filter (where o.solved))::float8 / nullif(count(o.solved), 0) as solved
from traj.steps s join report.outcomes o using (episode_id)
group by s.role order by s.role
