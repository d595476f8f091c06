/** The kinds of work the store does: judging, freezing, evaluating. Each waits until the tables have read what the log held when it began. */
import { Type } from 'typebox';
import { Compile } from 'typebox/compile';
import { freeze } from '../datasets/freeze.ts';
import { episodesTagged, evaluateEpisodes } from '../judging/evaluate.ts';
import { judge } from '../judging/judge.ts';
import { waitProjected } from '../projecting/positions.ts';
import { checkedSpec, type Handler, type JobContext } from './jobs.ts';

const Scope = {
  episodes: Type.Optional(Type.Array(Type.String())),
  tags: Type.Optional(Type.Record(Type.String(), Type.Union([Type.String(), Type.Number()]))),
};
const MethodAsked = Type.Object({
  method: Type.String(),
  params: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
  reads: Type.Optional(Type.String()),
});
const JudgeSpec = Compile(Type.Object({ methods: Type.Array(MethodAsked), ...Scope }));
const FreezeSpec = Compile(Type.Object({ recipe: Type.Unknown() }));
const EvaluateSpec = Compile(Type.Object({ sets: Type.Record(Type.String(), Type.Object(Scope)) }));

export type StoreSettings = { readonly datasets: string; readonly codeVersion: string };

export function storeHandlers(
  context: JobContext,
  { datasets, codeVersion }: StoreSettings,
): Readonly<Record<string, Handler>> {
  const { db, log, now } = context;
  const scope = async ({
    episodes,
    tags,
  }: {
    readonly episodes?: readonly string[];
    readonly tags?: Readonly<Record<string, string | number>>;
  }) => episodes ?? (await episodesTagged(db, tags ?? {}));
  return {
    judge: async ({ spec }) => {
      const { methods, ...where } = checkedSpec(JudgeSpec, spec);
      await waitProjected(db, { log });
      const judging = await judge(db, log, { methods, episodes: await scope(where), now });
      return { judge_ids: judging.judge_ids, episodes: judging.episodes, rows: judging.rows };
    },
    freeze: async ({ spec }) => {
      const { recipe } = checkedSpec(FreezeSpec, spec);
      await waitProjected(db, { log });
      const frozen = await freeze(db, recipe, { directory: datasets, codeVersion, log, at: now().toISOString() });
      const { dataset_id, content_sha256, rows, funnel } = frozen.manifest;
      return { dataset_id, content_sha256, rows, funnel, directory: frozen.directory };
    },
    evaluate: async ({ spec }) => {
      const { sets } = checkedSpec(EvaluateSpec, spec);
      await waitProjected(db, { log });
      const results: Record<string, unknown> = {};
      for (const [name, where] of Object.entries(sets)) results[name] = await evaluateEpisodes(db, await scope(where));
      return results;
    },
  };
}
