/** `troupe rollback`: an earlier release again. */
import type { Command } from 'commander';
import { TroupeError } from '../../errors.ts';
import { hostedWeights } from '../../store/loop/play/weights.ts';
import {
  inForce,
  inReleaseTurn,
  ROLLBACK,
  recordRelease,
  releaseId,
  releasesOf,
} from '../../store/loop/release/releases.ts';
import { projectCommand } from '../command.ts';
import { print, printJson, say } from '../output.ts';
import { hostedBy } from '../processes/hosted.ts';

export function addTo(program: Command): void {
  projectCommand(
    program
      .command('rollback')
      .argument('[release]', 'release to go back to; the one before what is released now if left out')
      .option('--reason <text>', 'reason to record')
      .addHelpText(
        'after',
        `
The whole map of that release comes back in one release of its own: a policy that a later release changed has the checkpoint
it had then. Rolling back again goes one release further back.

Examples:
  troupe rollback --reason "answers got longer"
  troupe rollback nightly-3/1
  troupe sql "select release_id, policy, checkpoint_id, released_at from traj.releases order by released_at"`,
      ),
    async ({ db, log, now, catchUp, config }, [asked], flags) => {
      await catchUp();
      const hosted = hostedBy(config);
      const { target, release_id, policies, teams, gone } = await inReleaseTurn(db, async () => {
        await catchUp();
        const all = await releasesOf(db);
        const target = asked === undefined ? inForce(all).at(-2) : all.find((one) => one.release_id === asked);
        const own = Object.keys(all.at(-1)?.policies ?? {}).find((policy) => hosted[policy] !== undefined);
        const hint =
          asked !== undefined || own === undefined
            ? undefined
            : `troupe release ${own}=${hostedWeights(hosted[own]!).checkpoint_id} gives ${own} to the model that its route falls back to.`;
        if (target === undefined)
          throw new TroupeError(
            'not_found',
            asked === undefined
              ? `There is no release to go back to: ${all.length === 0 ? 'nothing was released' : 'the first one is in force'}.`
              : `There is no release ${asked}; traj.releases lists them.`,
            hint === undefined ? {} : { hint },
          );
        const at = now().toISOString();
        const { policies, teams } = target;
        const release_id = releaseId(policies, at);
        const reason = (flags.reason as string | undefined) ?? `back to release ${target.release_id}`;
        await recordRelease(log, { release_id, policies, teams, reason, by: ROLLBACK, source: '/cli', time: at });
        const gone = Object.keys(all.at(-1)!.policies).filter((policy) => policies[policy] === undefined);
        return { target, release_id, policies, teams, gone };
      });
      await catchUp();
      if (flags.json) printJson({ release_id, back_to: target.release_id, policies, teams });
      else {
        const restored = Object.entries({ ...policies, ...teams }).map(([policy, id]) => `${policy} → ${id}`);
        print(`Back to release ${target.release_id}: ${restored.join(', ')}`);
      }
      for (const policy of gone)
        say(`${policy} had no release then: its processes go on with what they have until the next one.`, 'warn');
    },
  );
}
