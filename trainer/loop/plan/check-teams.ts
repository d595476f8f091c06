/** The teams and versions of a plan that is checked. */
import { countText, type TroupeError } from '../../../errors.ts';
import type { Db } from '../../../store/db/pool.ts';
import { requireReleasedTeam } from '../../../store/loop/team/version.ts';
import type { PlanCheck } from './check-found.ts';
import { versionOf } from './plan-parts.ts';
import type { Plan, PlanTeam } from './plan-schema.ts';
import { incumbentTeam, sameVersion } from './team-round.ts';

/** A team that a rollout or a gate names is looked up when the stage begins: after a training, where it is the gate. */
export async function playingTeamCheck(db: Db, plan: Plan, at: 'rollout' | 'gate', problems: string[]): Promise<void> {
  const played = plan[at];
  if (played === undefined || !('team' in played) || played.team === undefined) return;
  await requireReleasedTeam(db, played.team).catch((error: TroupeError) => {
    problems.push(`${at}.team: ${error.message}`);
  });
}

export async function teamCheck(
  db: Db,
  team: PlanTeam,
  alone: boolean,
  problems: string[],
): Promise<PlanCheck['team']> {
  const candidate = versionOf(team, 'candidate')?.team_id ?? null;
  const incumbent = await incumbentTeam(db, team).catch((error: TroupeError) => {
    // A person may release the first version; a comparison needs two.
    if (!alone) problems.push(error.message);
    return null;
  });
  if (candidate !== null && incumbent?.team_id === candidate) problems.push(sameVersion(candidate));
  const members = incumbent?.definition.agents as readonly unknown[] | undefined;
  if (team.prune !== undefined && members !== undefined && members.length <= team.prune.keep)
    problems.push(
      `The team has ${countText(members.length, 'member')}, and team.prune.keep is ${team.prune.keep}: nothing is left to prune.`,
    );
  return { name: team.name, candidate, incumbent: incumbent?.team_id ?? null };
}
