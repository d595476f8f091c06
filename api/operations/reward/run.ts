/** What the operation reward does. */
import { TroupeError } from '../../../errors.ts';
import { programEnv } from '../../../trainer/loop/play/by-command.ts';
import { rewardRecorded, rewardSpec } from '../../../trainer/loop/rewards/job.ts';
import { findScorer, readScorers } from '../../../trainer/loop/rewards/source.ts';
import { postJson } from '../../http/post.ts';
import type { ChangeContext } from '../operation.ts';

/** @throws TroupeError `interrupted` with how many are rewarded */
export async function reward(
  context: ChangeContext,
  { filter, ...asked }: { readonly use: string; readonly filter?: string; readonly limit?: number },
) {
  const { settings, env, catchUp, progress, signal } = context;
  const scorers = readScorers(settings.rewards ?? null);
  findScorer(scorers, asked.use);
  const found = await rewardRecorded(
    context,
    rewardSpec({ ...asked, ...(filter === undefined ? {} : { where: filter }) }),
    {
      scorers,
      scoring: { post: postJson(), env: programEnv(env, []), keys: env, hide: (text) => text },
      caughtUp: () => catchUp(),
    },
    async (done, { of = 0 }) => progress(done, of),
    signal,
  );
  if (!signal.aborted) return found;
  throw new TroupeError('interrupted', `Interrupted: ${found.rewarded} of ${found.episodes} episodes are rewarded.`);
}
