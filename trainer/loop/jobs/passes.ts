/** A forward pass as a job: what a model says of the steps of recorded episodes is appended to the log, where methods read it. */
import { Type } from 'typebox';
import { parseFilter } from '../../../store/filter/select.ts';
import { waitProjected } from '../../../store/projecting/positions.ts';
import { checkedSpec, type Handler, type JobContext } from '../../../store/queue/jobs/jobs.ts';
import { openModelForIds, openValueModel } from '../../model/model-directory.ts';
import { episodesWhere, passEpisodes, reasonsOf } from '../../sample/pass-episodes.ts';
import { PASS_AS, PASS_NAMES, passNamed } from '../../sample/passes.ts';

/** Job kind of a forward pass. */
export const PASS = 'pass';

export const PassSpec = Type.Object({
  pass: Type.Enum(PASS_NAMES),
  as: Type.Optional(Type.Enum(PASS_AS, { description: 'of a pass `ifd`: which of the two models it is' })),
  model: Type.String({ description: 'directory of the model or checkpoint' }),
  where: Type.Unknown({ description: 'filter of the episodes; null: all' }),
});

/** @returns handler of kind `pass`, whose result is a `PassResult`. A language model that is asked for values says 0. */
export const passHandler =
  ({ db, log, now }: JobContext, { threads }: { readonly threads: number }): Handler =>
  async (job, report) => {
    const { pass: name, as, model: dir, where } = checkedSpec(PassSpec, job.spec);
    const pass = passNamed(name, as);
    await waitProjected(db, { log });
    const episodes = await episodesWhere(db, where === null ? null : parseFilter(where));
    const model = await (pass.of === 'values' ? openValueModel : openModelForIds)(dir);
    const passed = await passEpisodes(episodes, pass, {
      db,
      log,
      model,
      threads,
      now,
      onPart: ({ done, tokens }) => report(Math.floor(done), { share: done / episodes.length, tokens }),
    });
    return {
      checkpoint_id: model.id,
      episodes: episodes.length,
      steps: passed.rows,
      recorded: passed.recorded,
      refused: { steps: passed.refused.length, reasons: reasonsOf(passed.refused) },
    };
  };
