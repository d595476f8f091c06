/** `troupe rebuild`: every table again from the log. */
import type { Command } from 'commander';
import { countText } from '../../errors.ts';
import { archivePlaces } from '../archive-places.ts';
import { projectCommand, untilInterrupted } from '../command.ts';
import { print, printJson, progressBar } from '../output.ts';

export function addTo(program: Command): void {
  projectCommand(
    program
      .command('rebuild')
      .option(
        '--archived',
        'show in the tables what was pruned too: its events are read in their archives, and stay there',
      )
      .addHelpText(
        'after',
        `
Judgements are recomputed from the requests in the log. Readers see the old tables until the swap. What was pruned stays out of the
tables, unless they show it since a rebuild with --archived; then each rebuild reads its archives again, until a prune takes it out.

Examples:
  troupe rebuild
  troupe rebuild --archived`,
      ),
    async ({ db, patiently }, _, flags) => {
      const bar = progressBar('Rebuilding', { quiet: flags.quiet === true || flags.json === true });
      const began = performance.now();
      const signal = untilInterrupted();
      const { judgeAgain, lapsedMethods } = await import('../../store/evaluate/judging/judge.ts');
      const { rebuild } = await import('../../store/projecting/rebuilding/rebuild.ts');
      const done = await patiently(() =>
        rebuild(db, {
          judge: judgeAgain,
          archived: flags.archived === true,
          places: archivePlaces,
          signal,
          onProgress: ({ applied, total }) => bar.update(applied, Math.max(applied, total)),
        }),
      ).finally(bar.stop);
      const not_judged = await patiently(() => lapsedMethods(db));
      const seconds = Math.round((performance.now() - began) / 100) / 10;
      if (flags.json) printJson({ ...done, not_judged, seconds });
      else {
        const from = done.archived > 0 ? `, ${done.archived} of them from archives` : '';
        print(`${countText(done.events, 'event')} applied in ${seconds} s${from}; the tables were swapped.`);
        if (done.left_out > 0)
          print(
            `Not in the tables: ${countText(done.left_out, 'pruned event')}; \`troupe rebuild --archived\` shows them.`,
          );
        for (const { name, version, known } of not_judged)
          print(
            `Not in the tables: results of ${name} in version ${version}. This Troupe ${
              known === null ? 'has no such method.' : `has version ${known}: \`troupe judge --methods ${name}\`.`
            }`,
          );
      }
    },
  );
}
