/** `troupe release`: which checkpoint each policy serves from now on. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { Command } from 'commander';
import { got, TroupeError } from '../../errors.ts';
import { firstOf, query } from '../../store/db/query.ts';
import { projectCommand } from '../command.ts';
import { print, printJson } from '../output.ts';
import { hostedBy } from '../processes/hosted.ts';

export function addTo(program: Command): void {
  projectCommand(
    program
      .command('release')
      .argument('<policy=checkpoint...>', 'such as team=ab12cd34ef56ab78, or team=upstream:MODEL')
      .option('--reason <text>', 'reason to record')
      .addHelpText(
        'after',
        '\nProcesses that serve the policies switch within a second. troupe rollback restores the previous release. With upstream:MODEL the model that\nthe route of the policy falls back to answers again.\n\nExamples:\n  troupe release solver=ab12cd34ef56ab78 --reason "better on held-out tasks"\n  troupe sql "select policy, checkpoint_id, reason from traj.releases order by released_at"',
      ),
    async ({ db, log, now, catchUp, config, home }, pairs, flags) => {
      const { inReleaseTurn, recordAfterHosted, releaseId } = await import('../../store/loop/release/releases.ts');
      const { hostedModel } = await import('../../store/loop/play/weights.ts');
      await catchUp();
      const policies = Object.fromEntries(pairs.map(policyAndCheckpoint));
      const hosted = hostedBy(config);
      for (const [policy, id] of Object.entries(policies)) {
        const model = hostedModel(id);
        if (model !== null) {
          if (hosted[policy] === model) continue;
          const found = hosted[policy] === undefined ? 'none has a fallback' : `it is ${hosted[policy]}`;
          throw new TroupeError('not_found', `${model} is not what a route of ${policy} falls back to: ${found}.`);
        }
        const stored = query
          .selectFrom('facts.checkpoints')
          .select('uri')
          .where('checkpoint_id', '=', id)
          .where('uri', 'is not', null);
        if ((await firstOf(db, stored)) === undefined)
          throw new TroupeError(
            'not_found',
            `There is no checkpoint ${id} for ${policy}; \`troupe checkpoints\` lists them.`,
            existsSync(id)
              ? { hint: `It is a folder: troupe checkpoints add ${id} --policy ${policy} records it and names its id.` }
              : existsSync(join(home.checkpoints, id))
                ? { hint: `troupe checkpoints add ${join(home.checkpoints, id)} --policy ${policy} records it.` }
                : {
                    hint: `One that was trained by hand is recorded by troupe checkpoints add FOLDER --policy ${policy}.`,
                  },
          );
      }
      const at = now().toISOString();
      const release_id = releaseId(policies, at);
      const reason = (flags.reason as string | undefined) ?? null;
      const release = { release_id, policies, reason, by: 'cli', source: '/cli', time: at };
      await inReleaseTurn(db, async () => {
        await catchUp();
        await recordAfterHosted({ db, log }, hosted, release, 'usage');
      });
      await catchUp();
      if (flags.json) printJson({ release_id, policies });
      else
        print(
          `Released: ${Object.entries(policies)
            .map(([p, c]) => `${p} → ${c}`)
            .join(', ')}`,
        );
    },
  );
}

function policyAndCheckpoint(pair: string): [policy: string, checkpoint: string] {
  const [, policy, id] = /^([^=]+)=(.+)$/.exec(pair) ?? [];
  if (policy !== undefined && id !== undefined) return [policy, id];
  throw new TroupeError('usage', `${got(pair)} should be POLICY=CHECKPOINT, such as solver=ab12cd34ef56ab78.`);
}
