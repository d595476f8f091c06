/** The kinds of work the store does: judging, freezing, evaluating. Each waits until the tables have read what the log held when it began. */
import { Type } from 'typebox';
import { AsOf } from '../../datasets/as-of.ts';
import { freeze } from '../../datasets/freeze.ts';
import { episodesTagged, evaluateEpisodes } from '../../evaluate/judging/evaluate.ts';
import { judge, type MethodRequest, unjudged } from '../../evaluate/judging/judge.ts';
import { parseFilter } from '../../filter/select.ts';
import { TASKS, WrittenSpec, writtenTasks } from '../../loop/play/written-tasks.ts';
import { PRUNE, PruneSpec, prunedTeam } from '../../loop/team/prune.ts';
import { waitProjected } from '../../projecting/positions.ts';
import { checkedSpec, type Handler, type JobContext } from './jobs.ts';

const Scope = {
  episodes: Type.Optional(Type.Array(Type.String())),
  tags: Type.Optional(Type.Record(Type.String(), Type.Union([Type.String(), Type.Number()]))),
};
const MethodSchema = Type.Object({
  method: Type.String(),
  params: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
  reads: Type.Optional(Type.String()),
});
export const JudgeSpec = Type.Object({
  methods: Type.Array(MethodSchema),
  ...Scope,
  where: Type.Optional(Type.Unknown({ description: 'filter: episodes that changed since; null: all that did' })),
});
export const FreezeSpec = Type.Object({
  recipe: Type.Unknown(),
  allow_empty: Type.Optional(Type.Boolean()),
  as_of: Type.Optional(AsOf),
});
export const EvaluateSpec = Type.Object({ sets: Type.Record(Type.String(), Type.Object(Scope)) });

export type StoreSettings = {
  readonly datasets: string;
  /** Folder of the files that recipes decontaminate against. */
  readonly benchmarks?: string;
  readonly codeVersion: string;
  /** Seconds without an event after which a group is no longer waited for; half an hour if left out. */
  readonly closeAfter?: number;
};

export function storeHandlers(
  context: JobContext,
  { datasets, benchmarks, codeVersion, closeAfter }: StoreSettings,
): Readonly<Record<string, Handler>> {
  const { db, log, now } = context;
  const scope = async ({
    episodes,
    tags,
  }: {
    readonly episodes?: readonly string[];
    readonly tags?: Readonly<Record<string, string | number>>;
  }) => episodes ?? (await episodesTagged(db, tags ?? {}));
  /** Closed episodes of complete groups that these methods have not seen as they are. */
  const changed = (methods: readonly MethodRequest[], where: unknown) =>
    unjudged(db, methods, {
      now: now(),
      where: where === null ? null : parseFilter(where),
      ...(closeAfter === undefined ? {} : { closeAfter }),
    });
  return {
    judge: async ({ spec }) => {
      const { methods, where, ...named } = checkedSpec(JudgeSpec, spec);
      await waitProjected(db, { log });
      const episodes = where === undefined ? await scope(named) : await changed(methods, where);
      const judging = await judge(db, log, { methods, episodes, now });
      return { judge_ids: judging.judge_ids, episodes: judging.episodes, rows: judging.rows };
    },
    [TASKS]: async ({ spec }) => {
      await waitProjected(db, { log });
      return writtenTasks(db, checkedSpec(WrittenSpec, spec));
    },
    [PRUNE]: async ({ spec }) => {
      await waitProjected(db, { log });
      return prunedTeam(db, checkedSpec(PruneSpec, spec));
    },
    freeze: async ({ spec }) => {
      const { recipe, allow_empty: allowEmpty = false, as_of: asOf } = checkedSpec(FreezeSpec, spec);
      await waitProjected(db, { log });
      const at = now().toISOString();
      const files = { ...(benchmarks === undefined ? {} : { benchmarks }), ...(asOf === undefined ? {} : { asOf }) };
      const frozen = await freeze(db, recipe, { directory: datasets, ...files, codeVersion, log, at, allowEmpty });
      const { dataset_id, content_sha256, rows, funnel } = frozen.manifest;
      const { directory, warnings } = frozen;
      return { dataset_id, content_sha256, rows, funnel, directory, warnings };
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
