/** The two versions of a team that the gate of a plan compares. */
import { TroupeError } from '../../errors.ts';
import { appendOwn } from '../../ingest/own-event.ts';
import type { Db } from '../../store/db/pool.ts';
import type { Side } from '../../store/gating/play.ts';
import type { JobContext } from '../../store/jobs/jobs.ts';
import { waitProjected } from '../../store/projecting/positions.ts';
import { releasedTeam, type TeamVersion, teamDraft } from '../../store/teams/version.ts';
import { type PlanTeam, versionOf } from './plan.ts';

/** The released version, else the base of the plan. @throws TroupeError `not_found` where there is neither */
export async function incumbentTeam(db: Db, team: PlanTeam): Promise<TeamVersion> {
  const found = (await releasedTeam(db, team.name)) ?? versionOf(team, 'base');
  if (found !== null) return found;
  throw new TroupeError(
    'not_found',
    `Team ${team.name} has no released version yet, and team.base names none to compare the candidate with.`,
  );
}

export const sameVersion = (team_id: string): string =>
  `The candidate is ${team_id}, which is what it would be compared with: change agents, prompts or wiring.`;

/**
 * Both versions, recorded.
 * @throws TroupeError `not_found` as `incumbentTeam`; `training_failed` where they are the same
 */
export async function teamsAsked({ db, log, now }: JobContext, team: PlanTeam): Promise<Record<Side, TeamVersion>> {
  await waitProjected(db, { log });
  const incumbent = await incumbentTeam(db, team);
  const candidate = versionOf(team, 'candidate')!;
  if (candidate.team_id === incumbent.team_id) throw new TroupeError('training_failed', sameVersion(candidate.team_id));
  const at = now().toISOString();
  await appendOwn(log, [teamDraft(incumbent, at), teamDraft(candidate, at)], 'usage');
  return { incumbent, candidate };
}
