/** `troupe jobs`: what was requested, what runs, and how to cancel it. */
import type { Command } from 'commander';
import { countText } from '../../errors.ts';
import { query, rowsOf } from '../../store/db/query.ts';
import { databaseCommand, newest, projectCommand, who, wholeNumber } from '../command.ts';
import { print, printJson, table } from '../output.ts';

/** Ids that `jobs cancel` prints. */
const CANCELLED_SHOWN = 5;

export function addTo(program: Command): void {
  const jobs = program
    .command('jobs')
    .option('--limit <n>', 'maximum number of rows', wholeNumber('limit'), 20)
    .addHelpText(
      'after',
      '\nExamples:\n  troupe jobs --limit 5\n  troupe jobs cancel schedule/nightly/2026-11-24T02:00:00Z --reason "wrong dataset"',
    );

  projectCommand(
    jobs
      .command('cancel')
      .description('cancel a queued or running job and its children; nothing it still produces is published')
      .argument('<job>', 'its id')
      .option('--reason <text>', 'reason to record')
      .option('--by <who>', 'who cancels it (default: the user of this machine)')
      .addHelpText(
        'after',
        '\nA worker that runs the job stops within seconds, a training run after its current step.\n\nExample:\n  troupe jobs cancel schedule/nightly/2026-11-24T02:00:00Z --reason "wrong dataset"',
      ),
    async (context, [id], flags) => {
      const { cancelJob } = await import('../../store/queue/jobs/jobs.ts');
      const reason = flags.reason === undefined ? null : String(flags.reason);
      const cancelled = await cancelJob(context, id!, { by: who(flags), reason });
      await context.catchUp();
      if (flags.json) printJson({ cancelled });
      else {
        // Of a rollout thousands of attempts end with it.
        const shown = cancelled.slice(0, CANCELLED_SHOWN).join(', ');
        const more = cancelled.length - CANCELLED_SHOWN;
        print(`Cancelled: ${shown}${more > 0 ? ` and ${countText(more, 'part')} more; --json lists all` : ''}`);
      }
    },
  );

  databaseCommand(jobs, async (context, _, flags) => {
    const { waitsForTraining } = await import('../training/training-turn.ts');
    const waitsFor = await waitsForTraining(context);
    const read = await rowsOf(
      context.db,
      query
        .selectFrom('traj.jobs')
        .select(['job_id', 'kind', 'state', 'outcome', 'requested_at', 'finished_at', 'error'])
        .orderBy('requested_at', (order) => order.desc().nullsLast())
        .limit((flags.limit as number) + 1),
    );
    const found = newest(read, flags, 'job');
    const rows = found.rows.map((row) => ({ ...row, waits_for: waitsFor(row) }));
    if (flags.json) printJson({ jobs: rows, truncated: found.truncated });
    else
      print(
        rows.length === 0
          ? 'No jobs yet.'
          : table(
              ['job', 'kind', 'state', 'outcome', 'requested', 'waits for', 'error'],
              rows.map((r) => [r.job_id, r.kind, r.state, r.outcome, r.requested_at, r.waits_for, r.error]),
            ),
      );
  });
}
