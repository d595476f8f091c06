/** `troupe pool`: the best team for each kind of query. */
import { writeFileSync } from 'node:fs';
import { type Command, InvalidArgumentError } from 'commander';
import { storedPool } from '../../store/evaluate/consistency/stored-pool.ts';
import { projectCommand } from '../command.ts';
import { print, printJson, rounded, say, table } from '../output.ts';

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

function score(text: string): number | null {
  if (text === 'none') return null;
  const value = Number(text);
  if (text.trim() !== '' && Number.isFinite(value)) return value;
  throw new InvalidArgumentError('--min-score should be a number or none.');
}
