/** A forward pass over recorded episodes: its numbers are printed, or recorded where the judge reads them. */
import { EXIT, got, TroupeError } from '../errors.ts';
import type { Db } from '../store/db/pool.ts';
import { anyOf, query, rowsOf } from '../store/db/query.ts';
import type { Pass } from '../trainer/sample/passes.ts';
import type { Flags } from './command.ts';
import { withContext } from './context.ts';
import { episodeFilter } from './episode-filter.ts';
import { answer, printJson, progressBar, table } from './output.ts';

export const EPISODES = 'ids of episodes, separated by commas, or a filter as in a recipe: reward > 0';

export const RECORD = 'append the results to the log, where the judge reads them (default: print them)';

/** Refused steps that are shown. */
export const EXAMPLES = 10;

type PassLine = {
  readonly episode_id: string;
  readonly step_id: string;
  readonly without?: string;
  readonly numbers: readonly number[];
};

export async function overEpisodes(flags: Flags, pass: Pass): Promise<number> {
  const { passEpisodes, reasonsOf } = await import('../trainer/sample/pass-episodes.ts');
  const { openModelForIds } = await import('../trainer/model/model-directory.ts');
  return withContext(flags, async ({ db, log, config, now, catchUp }) => {
    await catchUp();
    const episodes = await chosenEpisodes(db, String(flags.episodes));
    const model = await openModelForIds(String(flags.model));
    const bar = progressBar(pass.of === 'values' ? 'Values' : 'Log-probabilities', flags);
    const printed: PassLine[] = [];
    const passed = await passEpisodes(episodes, pass, {
      db,
      log: flags.record ? log : null,
      model,
      threads: config.threads,
      now,
      onPart: ({ rows, numbers, done, tokens }) => {
        bar.update(done, episodes.length, `${tokens} tokens`);
        if (flags.record) return;
        for (const [i, { episodeId, stepId, without }] of rows.entries()) {
          const about = { episode_id: episodeId, step_id: stepId, ...(without === null ? {} : { without }) };
          printed.push({ ...about, numbers: numbers[i]! });
        }
      },
    }).finally(() => bar.stop());
    if (flags.record) await catchUp();
    const { rows: steps, tokens, recorded, known, refused } = passed;
    const why = reasonsOf(refused);
    const found = {
      checkpoint_id: model.id,
      pass: pass.name,
      episodes: episodes.length,
      steps,
      tokens,
      ...(flags.record ? { recorded, known } : {}),
      refused: { steps: refused.length, reasons: why, examples: refused.slice(0, EXAMPLES) },
    };
    if (flags.record)
      answer(flags, found, () =>
        [
          table(['what', 'value'], Object.entries({ ...found, refused: refused.length })),
          ...(refused.length > 0 ? [table(['refused because', 'steps'], Object.entries(why))] : []),
        ].join('\n'),
      );
    else printJson({ ...found, rows: printed.map(({ numbers, ...row }) => ({ ...row, [pass.of]: numbers })) });
    return refused.length > 0 ? EXIT.refused : EXIT.done;
  });
}

/** Ids of episodes that there are, in order. @throws TroupeError `not_found` for an id nobody has, `recipe_invalid` for a filter that is none. */
async function chosenEpisodes(db: Db, which: string): Promise<string[]> {
  if (/^\s*\{|[=<>(]|\sis\s|\slike\s|\shas\s/iu.test(which)) {
    const { episodesWhere } = await import('../trainer/sample/pass-episodes.ts');
    return episodesWhere(db, await episodeFilter(db, which, '--episodes'));
  }
  const ids = [
    ...new Set(
      which
        .split(',')
        .map((id) => id.trim())
        .filter(Boolean),
    ),
  ];
  const rows = await rowsOf(
    db,
    query.selectFrom('facts.episodes').select('episode_id').where('episode_id', '=', anyOf(ids)).orderBy('episode_id'),
  );
  const found = new Set(rows.map(({ episode_id }) => episode_id));
  const absent = ids.find((id) => !found.has(id));
  if (absent !== undefined || ids.length === 0)
    throw new TroupeError('not_found', `There is no episode ${got(absent ?? which)}.`, {
      hint: '`troupe episodes` lists them.',
    });
  return [...found];
}
