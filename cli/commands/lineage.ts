/** `troupe lineage`: what something comes from, and what was made of it. */
import type { Command } from 'commander';
import { TroupeError } from '../../errors.ts';
import { query, rowsOf, sql } from '../../store/db/query.ts';
import { databaseCommand, wholeNumber } from '../command.ts';
import { print, printJson } from '../output.ts';

export function addTo(program: Command): void {
  databaseCommand(
    program
      .command('lineage')
      .argument('<id>', 'an episode, step, dataset, row of a dataset (DATASET/SPLIT/ROW) or checkpoint')
      .option('--depth <n>', 'number of relations to follow in each direction', wholeNumber('depth'), 2)
      .addHelpText(
        'after',
        `
Two trees: what it comes from, and what was made of it. At most 20 things below one and 500 in a tree are listed, the nearest
first, each followed once; a line marks what is left out. --json prints the same trees.

Examples:
  troupe lineage ab12cd34ef56ab78
  troupe lineage run-1
  troupe lineage run-1-c2/0 --depth 3
  troupe lineage 90b3dbb907620061/train/17`,
      ),
    async ({ db }, [id], flags) => {
      const rows = await rowsOf(
        db,
        query
          .selectFrom('traj.lineage')
          .select(['checkpoint_id', 'relation', 'dataset_id'])
          .select([
            sql<number>`count(distinct episode_id)::integer`.as('episodes'),
            sql<number>`count(step_id)::integer`.as('steps'),
            sql<string | null>`min(other_checkpoint_id)`.as('other_checkpoint_id'),
          ])
          .where((row) =>
            row.or([row('checkpoint_id', '=', id!), row('step_id', '=', id!), row('episode_id', '=', id!)]),
          )
          .groupBy(['checkpoint_id', 'relation', 'dataset_id'])
          .orderBy('checkpoint_id')
          .orderBy('relation')
          .orderBy('dataset_id'),
      );
      const used = query
        .selectFrom('traj.lineage')
        .select('episode_id')
        .where((row) => row.or([row('checkpoint_id', '=', id!), row('step_id', '=', id!)]));
      const frozen = query.selectFrom('traj.dataset_rows').select('episode_id').where('dataset_id', '=', id!);
      const pruned = await rowsOf(
        db,
        query
          .selectFrom('traj.pruned')
          .select(['archive_id', 'uri', sql<number>`count(*)::integer`.as('episodes')])
          .select([
            sql<string | null>`min(episode_id)`.as('first_episode_id'),
            sql<string | null>`max(pruned_at)::text`.as('pruned_at'),
          ])
          .where((row) =>
            row.or([row('episode_id', '=', id!), row('episode_id', 'in', used), row('episode_id', 'in', frozen)]),
          )
          .groupBy(['archive_id', 'uri'])
          .orderBy('archive_id'),
      );
      const depth = flags.depth as number;
      if (depth < 1 || depth > 10) throw new TroupeError('usage', `--depth should be from 1 to 10; it is ${depth}.`);
      const { lineageOf } = await import('../../store/explore/lineage.ts');
      const found = await db.transaction((tx) => lineageOf(tx, id!, depth), {
        isolation: 'repeatable read',
        readOnly: true,
      });
      if (found.length + pruned.length === 0)
        throw new TroupeError('not_found', `Nothing is known about ${id}.`, {
          hint: 'It should be the id of an episode, step, dataset, row of a dataset (DATASET/SPLIT/ROW) or checkpoint.',
        });
      if (flags.json) printJson({ lineage: rows, pruned, found });
      else if (found.length > 0) {
        const { lineageTree } = await import('../lineage-tree.ts');
        print(found.map(lineageTree).join('\n\n'));
      }
      if (!flags.json)
        for (const { uri, episodes, first_episode_id: first } of pruned)
          print(
            `${episodes === 1 ? `Episode ${first} was` : `${episodes} of these episodes were`} pruned into ${uri}.`,
          );
    },
  );
}
