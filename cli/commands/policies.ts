/** `troupe policies`: what each policy serves. */
import type { Command } from 'commander';
import { query, rowsOf } from '../../store/db/query.ts';
import { pendingText } from '../../store/loop/comparison/watch.ts';
import { reasonOf, watchOf } from '../../store/loop/comparison/watching.ts';
import { hostedModel } from '../../store/loop/play/weights.ts';
import { ROLLBACK, releasesOf } from '../../store/loop/release/releases.ts';
import { projectCommand } from '../command.ts';
import { print, printJson, say, table } from '../output.ts';
import { hostedBy } from '../processes/hosted.ts';

export function addTo(program: Command): void {
  projectCommand(
    program.command('policies').addHelpText('after', '\nExample:\n  troupe policies --json'),
    async ({ db, catchUp, now, config }, _, flags) => {
      await catchUp();
      const released = (await releasesOf(db)).at(-1);
      const saved = await rowsOf(
        db,
        query
          .selectFrom('facts.checkpoints')
          .select(['policy', 'checkpoint_id'])
          .where('policy', 'is not', null)
          .where('kept', 'is not', false)
          .orderBy('version'),
      );
      const newest = new Map(saved.map(({ policy, checkpoint_id }) => [policy!, checkpoint_id]));
      const names = [...new Set([...Object.keys(released?.policies ?? {}), ...newest.keys()])].sort();
      const policies = names.map((policy) => ({
        policy,
        released: released?.policies[policy] ?? null,
        newest: newest.get(policy) ?? null,
      }));
      const watch = released === undefined ? null : await watchOf(db, released.release_id, now());
      const why = released?.by === ROLLBACK ? await reasonOf(db, released.release_id) : null;
      const teams = released?.teams ?? {};
      if (flags.json) printJson({ release_id: released?.release_id ?? null, policies, teams, watch, rolled_back: why });
      else if (policies.length === 0 && Object.keys(teams).length === 0)
        print('No policies yet: nothing was trained, added or released.');
      else
        print(
          table(
            ['policy', 'released', 'newest checkpoint'],
            policies.map((one) => [one.policy, one.released, one.newest]),
          ),
        );
      if (!flags.json) for (const [team, id] of Object.entries(teams)) print(`Team ${team}: ${id}`);
      if (!flags.json && watch !== null)
        print(
          `Watch of release ${watch.release_id}: ${watch.outcome.replace('_', ' ')}. ${watch.reason} ${pendingText(watch)}`.trimEnd(),
        );
      if (!flags.json && why !== null) print(`Rolled back: ${why}`);
      const hosted = hostedBy(config);
      for (const [policy, id] of Object.entries(released?.policies ?? {})) {
        const model = hostedModel(id);
        if (model === null || hosted[policy] === model) continue;
        const now =
          hosted[policy] === undefined ? 'no route of it has a fallback' : `its route falls back to ${hosted[policy]}`;
        say(`${policy} should be answered by ${model}, but ${now} now.`, 'warn');
      }
    },
  );
}
