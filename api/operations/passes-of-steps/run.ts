/** A forward pass over recorded episodes: its numbers are given, or recorded where the judge reads them. */
import { got, TroupeError } from '../../../errors.ts';
import { anyOf, query, rowsOf } from '../../../store/db/query.ts';
import { readEpisodeFilter } from '../../../store/filter/episode-filter.ts';
import { filterText } from '../../../store/filter/filter-text.ts';
import { openModelForIds } from '../../../trainer/model/model-directory.ts';
import { episodesWhere, passEpisodes, reasonsOf } from '../../../trainer/sample/pass-episodes.ts';
import type { Pass } from '../../../trainer/sample/passes.ts';
import { checkpointAt } from '../checkpoint-places.ts';
import type { ChangeContext } from '../operation.ts';

/** Refused steps that are shown. */
const EXAMPLES = 10;

export async function overEpisodes(
  context: ChangeContext,
  input: {
    readonly model: string;
    readonly episodes: string;
    readonly record: boolean;
    readonly threads?: number;
  },
  pass: Pass,
) {
  const { db, log, home, settings, now, catchUp, progress } = context;
  const { record, threads = settings.threads ?? 1 } = input;
  await catchUp();
  const { ids, warnings } = await chosenEpisodes(db, input.episodes);
  const model = await openModelForIds(checkpointAt(home, input.model));
  const rows: { episode_id: string; step_id: string; without?: string; logprobs?: number[]; values?: number[] }[] = [];
  const passed = await passEpisodes(ids, pass, {
    ...{ db, log: record ? log : null, model, threads, now },
    onPart: ({ rows: part, numbers, done, tokens }) => {
      context.signal.throwIfAborted();
      progress(done, ids.length, `${tokens} tokens`);
      if (record) return;
      for (const [i, { episodeId, stepId, without }] of part.entries()) {
        const about = { episode_id: episodeId, step_id: stepId, ...(without === null ? {} : { without }) };
        rows.push({ ...about, [pass.of]: numbers[i]! });
      }
    },
  });
  if (record) await catchUp();
  const { rows: steps, tokens, recorded, known, refused } = passed;
  return {
    ...{ checkpoint_id: model.id, pass: pass.name, episodes: ids.length, steps, tokens },
    ...(record ? { recorded, known } : { rows }),
    refused: { steps: refused.length, reasons: reasonsOf(refused), examples: refused.slice(0, EXAMPLES) },
    warnings,
  };
}

/** Ids of episodes that there are, in order. @throws TroupeError `not_found` for an id nobody has, `recipe_invalid` for a filter that is none. */
async function chosenEpisodes(db: ChangeContext['db'], which: string) {
  if (/^\s*\{|[=<>(]|\sis\s|\slike\s|\shas\s/iu.test(which)) {
    const { written, filter, warnings } = await readEpisodeFilter(db, which, 'episodes');
    const ids = await episodesWhere(db, filter);
    const none = ids.length === 0 ? [`No episode meets ${filterText(written)}.`] : [];
    return { ids, warnings: [...warnings, ...none] };
  }
  const named = [...new Set(which.split(',').map((id) => id.trim()))].filter(Boolean);
  const rows = await rowsOf(
    db,
    query
      .selectFrom('facts.episodes')
      .select('episode_id')
      .where('episode_id', '=', anyOf(named))
      .orderBy('episode_id'),
  );
  const found = new Set(rows.map(({ episode_id }) => episode_id));
  const absent = named.find((id) => !found.has(id));
  if (absent !== undefined || named.length === 0)
    throw new TroupeError('not_found', `There is no episode ${got(absent ?? which)}.`, {
      hint: '`troupe episodes` lists them.',
    });
  return { ids: [...found], warnings: [] };
}
