/** `troupe reward`: rewards recorded episodes by a source of the configuration. */
import { randomUUID } from 'node:crypto';
import type { Command } from 'commander';
import { postJson } from '../../api/http/post.ts';
import { countText, EXIT } from '../../errors.ts';
import { parseFilter } from '../../store/filter/select.ts';
import { requestJob, waitForJob } from '../../store/queue/jobs/jobs.ts';
import { runJobs } from '../../store/queue/jobs/worker.ts';
import { programEnv } from '../../trainer/loop/play/by-command.ts';
import { REWARD, type RewardReport, rewardHandler } from '../../trainer/loop/rewards/job.ts';
import { findScorer, readScorers } from '../../trainer/loop/rewards/source.ts';
import { projectCommand, untilInterrupted, wholeNumber } from '../command.ts';
import { answer } from '../output.ts';

const HELP = `
Takes closed episodes without a reward, and records what the source gives as feedback. An episode that the source gives no reward stays
without one, and the reasons are printed. Live episodes are rewarded on a schedule: a job of kind reward with the spec {use, where}.

Examples:
  troupe reward grader
  troupe reward grader --where 'task.domain = airline and tags.rollout is null' --limit 100`;

/** Longest time that the command waits for its own job, in milliseconds. */
const LONGEST_MS = 7 * 86_400_000;

export function addTo(program: Command): void {
  projectCommand(
    program
      .command('reward')
      .argument('<name>', 'source of the rewards: a name under rewards in troupe.yaml')
      .option('--where <filter>', 'only these episodes: a filter as in a recipe')
      .option('--limit <n>', 'at most this many episodes', wholeNumber('limit'))
      .addHelpText('after', HELP),
    async ({ db, log, now, config, catchUp }, [use], flags) => {
      const scorers = readScorers(config.rewards);
      findScorer(scorers, use!);
      const spec = {
        use: use!,
        ...(flags.where === undefined ? {} : { where: parseFilter(String(flags.where), '--where') }),
        ...(flags.limit === undefined ? {} : { limit: flags.limit }),
      };
      await catchUp();
      const context = { db, log, now };
      const id = `reward-${randomUUID()}`;
      await requestJob(context, { job_id: id, kind: REWARD, spec });
      const done = new AbortController();
      const interrupted = untilInterrupted();
      const env = programEnv(process.env, []);
      const scoring = { post: postJson(), env, keys: process.env, hide: (text: string) => text };
      const handlers = {
        [REWARD]: rewardHandler(context, { scorers, scoring, caughtUp: () => catchUp(), signal: interrupted }),
      };
      const working = runJobs(context, {
        worker: `reward-${process.pid}`,
        within: id,
        handlers,
        signal: done.signal,
        pollMs: 50,
      });
      const result = (await waitForJob(db, id, { timeoutMs: LONGEST_MS }).finally(() => done.abort())) as RewardReport;
      await working;
      await catchUp();
      answer(
        flags,
        { job_id: id, ...result },
        [
          `Rewarded: ${result.rewarded} of ${countText(result.episodes, 'episode')} without a reward.`,
          ...Object.entries(result.failed).map(([reason, episodes]) => `${episodes}: ${reason}`),
        ].join('\n'),
      );
      if (interrupted.aborted) return EXIT.interrupted;
      return result.rewarded === result.episodes ? EXIT.done : EXIT.failed;
    },
  );
}
