/** `troupe teams`: teams and their likeness. */
import type { Command } from 'commander';
import { query, rowsOf, sql } from '../../store/db/query.ts';
import { teamsLike } from '../../store/evaluate/consistency/stored-pool.ts';
import { projectCommand } from '../command.ts';
import { print, printJson, rounded, say, table } from '../output.ts';

const TEAMS_HELP = `
Two teams are alike as far as they have the same roles and the same wiring between roles; names of agents and prompts do not count.

Examples:
  troupe teams
  troupe teams debate-3 --json`;

export function addTo(program: Command): void {
  projectCommand(
    program.command('teams').argument('[team]', 'a team id').addHelpText('after', TEAMS_HELP),
    async ({ db, catchUp }, [team], flags) => {
      await catchUp();
      if (team !== undefined) {
        const teams = await teamsLike(db, team);
        if (flags.json) printJson({ team_id: team, teams });
        else {
          const columns = ['team_id', 'name', 'score', 'roles', 'wiring', 'reason'] as const;
          print(
            table(
              columns,
              teams.map((one) => columns.map((column) => rounded(one[column]))),
            ),
          );
        }
        return;
      }
      const rows = await rowsOf(
        db,
        query
          .selectFrom('facts.teams as t')
          .leftJoin(
            (episodes) =>
              episodes
                .selectFrom('traj.episodes')
                .select([
                  'team_id',
                  sql<number>`count(*)::integer`.as('episodes'),
                  sql<number>`count(reward)::integer`.as('rated'),
                  sql<number | null>`avg(reward)`.as('mean_reward'),
                ])
                .groupBy('team_id')
                .as('e'),
            (on) => on.onRef('e.team_id', '=', 't.team_id'),
          )
          .select(['t.team_id', 't.name', 't.team_version'])
          .select([
            sql<number | null>`json_array_length(t.agents)`.as('agents'),
            sql<number | null>`json_array_length(t.edges)`.as('edges'),
            sql<number>`coalesce(e.episodes, 0)`.as('episodes'),
            sql<number>`coalesce(e.rated, 0)`.as('rated'),
            'e.mean_reward',
          ])
          .orderBy('t.team_id'),
      );
      if (flags.json) printJson({ teams: rows });
      else if (rows.length === 0) say('There are no teams yet; the event team.defined records one.');
      else
        print(
          table(
            Object.keys(rows[0]!),
            rows.map((row) => Object.values(row).map(rounded)),
          ),
        );
    },
  );
}
