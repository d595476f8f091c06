/** One episode, page by page. */
import { got, TroupeError } from '../../../errors.ts';
import { firstOf, query } from '../../../store/db/query.ts';
import { readEpisodePage } from '../../../store/explore/episodes/read-page.ts';
import type { ReadContext } from '../operation.ts';

/** @throws TroupeError `not_found`, which says where a pruned episode is */
export async function show(
  { db }: ReadContext,
  { episode, ...options }: { readonly episode: string; readonly tokens: boolean; readonly after?: string },
) {
  const page = await readEpisodePage(db, episode, options);
  if (page) return page;
  const pruned = await firstOf(db, query.selectFrom('traj.pruned').select('uri').where('episode_id', '=', episode));
  const [message, hint] = pruned
    ? [
        `Episode ${got(episode)} was pruned into ${pruned.uri}.`,
        `\`troupe prune restore ${pruned.uri}\` brings it back; \`troupe rebuild --archived\` shows it while it stays there.`,
      ]
    : [`There is no episode ${got(episode)}.`, '`troupe episodes` lists them; new events take a moment to appear.'];
  throw new TroupeError('not_found', message, { field: 'episode', got: got(episode), hint });
}
