/**
 * A writer of teams: for each problem it writes which members work on it, in which order; the team that it wrote is then run, and what the
 * team got right is the reward. Each run is an episode that the writer's episode launched, with a team of its own.
 *
 *   node --import tsx examples/team-writer/team.ts --url http://127.0.0.1:7717 [--writer policy:writer] [--member policy:member]
 */
import { createHash } from 'node:crypto';
import type { Attempt } from '../lib/leases.ts';
import { seedOf } from '../lib/random.ts';
import { type Play, runTeam, type Tools } from '../lib/worker.ts';

type Problem = { readonly task_id: string; readonly number: number; readonly members: readonly string[] };
type Run = { readonly reward: number; readonly answer: string | null };

/** What each kind of member makes of a number from 0 to 5. */
const KINDS: Readonly<Record<string, (number: number) => number>> = {
  next: (number) => (number + 1) % 6,
  twice: (number) => (2 * number) % 6,
  mirror: (number) => 5 - number,
};
/** How often each design is run. */
const RUNS = 2;
/** Most members of a team. */
const MEMBERS = 2;

/** Share of the places at which two lists have the same. */
function alike<T>(found: readonly T[], right: readonly T[]): number {
  const length = Math.max(found.length, right.length);
  return length === 0 ? 1 : right.filter((one, i) => found[i] === one).length / length;
}

/** Runs a design once; members that do not exist are left out. The reward is the mean of the design's fit, of what its members got right, and of the answer. */
async function runDesign(
  attempt: Attempt<Problem>,
  design: readonly string[],
  run: number,
  tools: Tools,
): Promise<Run> {
  const { gateway, recorder, models } = tools;
  const { task, seed } = attempt;
  const episode = `${attempt.episode_id}/run-${run}`;
  const team = design.filter((kind) => Object.hasOwn(KINDS, kind));
  recorder.episode({
    ...memberOf(attempt),
    episode_id: episode,
    parent_episode_id: attempt.episode_id,
    team_id: define(tools, team),
  });
  let number: number | null = task.number;
  let right = 0;
  for (const [turn, kind] of team.entries()) {
    if (number === null) break;
    const messages = [{ role: 'user' as const, content: `member ${kind} ${number}` }];
    const call = { episode, agent: kind, role: 'member', turn, model: models.member!, messages, n: 1, maxTokens: 1 };
    const [answer] = await gateway.ask({ ...call, temperature: 1, seed: seedOf(seed, run, turn) >>> 1 });
    if (answer!.text === String(KINDS[kind]!(number))) right++;
    number = /^[0-5]$/.test(answer!.text) ? Number(answer!.text) : null;
  }
  const truth = task.members.reduce((value, kind) => KINDS[kind]!(value), task.number);
  const solved = number === truth && team.length > 0;
  const parts = [alike(design, task.members), team.length === 0 ? 0 : right / team.length, solved ? 1 : 0];
  const reward = parts.reduce((a, b) => a + b) / parts.length;
  const target = { kind: 'episode' as const, id: episode, episode_id: episode };
  recorder.feedback({
    feedback_id: `${episode}/reward`,
    target,
    kind: 'reward',
    name: 'reward',
    value: reward,
    by: 'env',
  });
  const answer = number === null ? null : String(number);
  recorder.finish({
    episode_id: episode,
    outcome: solved ? 'success' : 'failure',
    ...(answer === null ? {} : { answer }),
  });
  return { reward, answer };
}

/** What makes an episode a member of the rollout and of the group of an attempt. */
const memberOf = ({ rollout_id, group_id, task }: Attempt<Problem>) => ({
  task_id: task.task_id,
  group_id,
  tags: { rollout: rollout_id },
});

/** Each list of members is a version of the team. */
function define({ recorder }: Tools, team: readonly string[]): string {
  const agents = team.map((kind) => ({ name: kind, role: 'member', prompt: `member ${kind} NUMBER` }));
  const content_hash = createHash('sha256').update(JSON.stringify(agents)).digest('hex');
  const team_id = `written@${content_hash.slice(0, 12)}`;
  const data = { team_id, name: `written: ${team.join(' ')}`, agents, edges: [], content_hash };
  recorder.event({ name: 'team.defined', id: `team/${team_id}`, time: null, data });
  return team_id;
}

const play: Play<Problem> = async (attempt, tools) => {
  const { episode_id, task, seed } = attempt;
  const messages = [{ role: 'user' as const, content: `write ${task.number} ${task.members.join(' ')}` }];
  const call = { episode: episode_id, role: 'writer', model: tools.models.writer!, messages, n: 1, maxTokens: MEMBERS };
  const [written] = await tools.gateway.ask({ ...call, temperature: 1, seed: seedOf(seed, 'writer') >>> 1 });
  const design = written!.text.split(' ').filter((word) => word !== '');
  const runs = await Promise.all(Array.from({ length: RUNS }, (_, run) => runDesign(attempt, design, run, tools)));
  const reward = runs.reduce((sum, one) => sum + one.reward, 0) / RUNS;
  return { reward, answer: written!.text, solved: alike(design, task.members) === 1 };
};

await runTeam<Problem>({
  name: 'writer of teams',
  source: '/examples/team-writer',
  runner: 'writers',
  agents: [{ name: 'writer', role: 'writer', prompt: 'write NUMBER KINDS' }],
  models: { writer: 'policy:writer', member: 'policy:member' },
  play,
});
