/** Teams beside each other: which are alike, and which team each kind of query gets. */
import { writeFileSync } from 'node:fs';
import { type Command, InvalidArgumentError } from 'commander';
import { storedPool, teamsLike } from '../../store/consistency/stored-pool.ts';
import { query, rowsOf, sql } from '../../store/db/query.ts';
import { projectCommand } from '../command.ts';
import { print, printJson, say, table } from '../output.ts';

const TEAMS_HELP = `
Two teams are alike as far as they have the same roles and the same wiring between roles; names of agents and prompts do not count.

Examples:
  troupe teams
  troupe teams debate-3 --json`;

const POOL_HELP = `
Queries that ask nearly the same are one cluster; of the teams that were played on every query of a cluster, the one of the highest
total reward is the cluster's. A team that was made from another (its tag base_team_id) takes its place on a query where it runs and does
no worse. Each query that is kept gives a triplet: query, reasoning (the tag reasoning of the team), team.

Examples:
  troupe pool
  troupe pool --embedding-model all-MiniLM-L6-v2 --min-score 0.5
  troupe pool --triplets triplets.jsonl`;

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

  projectCommand(
    program
      .command('pool')
      .option('--embedding-model <name>', 'compare queries by the embeddings of this model: troupe passes embed')
      .option('--min-score <number>', 'minimum mean reward of a query with its team; none: no minimum', score, 1)
      .option('--triplets <file>', 'file to write the triplets to, one JSON object per line')
      .addHelpText('after', POOL_HELP),
    async ({ db, catchUp }, _, flags) => {
      await catchUp();
      const { pool, refinements, triplets } = await storedPool(db, {
        embeddingModel: flags.embeddingModel === undefined ? null : String(flags.embeddingModel),
        minScore: flags.minScore as number | null,
      });
      const clusters = Object.entries(pool.clusters).map(([cluster, choice]) => ({ cluster, ...choice }));
      if (flags.triplets !== undefined) {
        writeFileSync(String(flags.triplets), triplets.map((triplet) => `${JSON.stringify(triplet)}\n`).join(''));
      }
      if (flags.json) {
        printJson({ teams: pool.teams, clusters, refinements, triplets, left_out: pool.left_out });
        return;
      }
      const rows = clusters.map(({ cluster, queries, competing, team, total, kept, reason }) =>
        [cluster, queries.length, competing.length, team, total, kept.length, reason].map(rounded),
      );
      print(table(['cluster', 'queries', 'teams', 'team', 'total', 'kept', 'reason'], rows));
      const left = Object.entries(pool.left_out).map(([reason, ids]) => `${ids.length} ${reason}`);
      say(`${triplets.length} triplets${left.length === 0 ? '' : `; episodes left out: ${left.join(', ')}`}`);
    },
  );
}

const rounded = (value: unknown): unknown => (typeof value === 'number' ? Number(value.toPrecision(6)) : value);

function score(text: string): number | null {
  if (text === 'none') return null;
  const value = Number(text);
  if (text.trim() !== '' && Number.isFinite(value)) return value;
  throw new InvalidArgumentError('--min-score should be a number or none.');
}
