/** What the operation judge does. */
import { got, TroupeError } from '../../../errors.ts';
import { asText } from '../../../ingest/events/json.ts';
import type { Db } from '../../../store/db/pool.ts';
import { anyOf, firstOf, query, rowsOf } from '../../../store/db/query.ts';
import { comparedBy } from '../../../store/evaluate/judging/compared.ts';
import {
  compareEverything,
  judge as judgeEpisodes,
  type MethodRequest,
  resolveMethods,
  unjudged,
} from '../../../store/evaluate/judging/judge.ts';
import { closedEpisodes } from '../../../store/evaluate/judging/unjudged.ts';
import { unreadRewards } from '../../../store/evaluate/judging/unread-rewards.ts';
import { episodesMeeting, readEpisodeFilter } from '../../../store/filter/episode-filter.ts';
import { filterText } from '../../../store/filter/filter-text.ts';
import type { ChangeContext, ReadContext } from '../operation.ts';
import { parseMethods } from './methods.ts';
import { sharesOf } from './shares.ts';

/** Judged when neither the input nor the configuration names any. */
const DEFAULT_METHODS: readonly MethodRequest[] = [
  { method: 'correctness_filter' },
  { method: 'agreement_score' },
  { method: 'grpo_advantage' },
];

type Input = {
  readonly methods?: readonly MethodRequest[];
  readonly filter?: string;
  readonly episodes?: readonly string[];
  readonly share?: string;
  readonly all: boolean;
};

export async function judge(
  { db, log, now, settings, catchUp, patiently, progress, signal }: ChangeContext,
  { methods: asked, filter, episodes: named, share, all }: Input,
) {
  const { judge: standing, close_after } = settings;
  const methods = asked ?? (standing === null ? DEFAULT_METHODS : parseMethods(asText(standing)));
  await resolveMethods(methods);
  const shares = share === undefined ? undefined : sharesOf(share);
  if (shares && (await compareEverything(methods)))
    throw new TroupeError(
      'usage',
      'share divides groups, and one of these methods compares all of them; leave share out.',
      { field: 'share' },
    );
  await catchUp();
  const { where, warnings } = filter === undefined ? { where: null, warnings: [] } : await chosenBy(db, filter);
  const chosen = { where, ...(shares ? { shares } : {}) };
  const found = () =>
    all ? closedEpisodes(db, chosen) : unjudged(db, methods, { now: now(), closeAfter: close_after, ...chosen });
  if (named !== undefined) await requireEpisodes(db, named);
  const episodes = named ?? (await patiently(found));
  const { rows, without_value, silent, ...judging } = await judgeEpisodes(db, log, {
    methods,
    episodes,
    now,
    patiently,
    onProgress: ({ judged, total }) => {
      progress(judged, total);
      if (signal.aborted)
        throw new TroupeError('interrupted', `Interrupted: ${judged} of ${total} episodes are judged.`);
    },
  });
  await catchUp();
  const unread = await unreadRewards(db, judging.methods, episodes);
  const compared = await comparedBy(db, episodes, { now: now(), closeAfter: close_after });
  const names = methods.map(({ method }) => method);
  return {
    ...{ episodes: judging.episodes, methods: names, rows, without_value, silent, unread },
    ...compared,
    ...{ close_after, warnings },
  };
}

/** The episodes that a filter chooses, with a sentence on each value that nothing has. */
export async function chosenBy(db: Db, text: string) {
  const { written, filter, warnings } = await readEpisodeFilter(db, text, 'filter');
  const one = await firstOf(db, episodesMeeting(filter).limit(1));
  const none = one === undefined ? [`No episode meets the filter ${filterText(written)}.`] : [];
  return { where: filter, warnings: [...warnings, ...none] };
}

/** @throws TroupeError `not_found` for a name that no episode has: nothing would be judged, and nobody would know why */
async function requireEpisodes(db: Db, named: readonly string[]): Promise<void> {
  const there = query.selectFrom('facts.episodes').select('episode_id').where('episode_id', '=', anyOf(named));
  const found = new Set((await rowsOf(db, there)).map(({ episode_id }) => episode_id));
  const absent = named.find((id) => !found.has(id));
  if (absent !== undefined)
    throw new TroupeError('not_found', `There is no episode ${got(absent)}.`, {
      field: 'episodes',
      hint: '`troupe episodes` lists them.',
    });
}

export async function waiting(
  { db, now, settings, catchUp, patiently }: ReadContext,
  { methods }: { readonly methods: readonly MethodRequest[] },
) {
  await resolveMethods(methods);
  await catchUp();
  const options = { now: now(), closeAfter: settings.close_after };
  return { episodes: await patiently(() => unjudged(db, methods, options)) };
}
