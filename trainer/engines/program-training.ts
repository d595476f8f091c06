/**
 * Training by a program: TRL, LLaMA-Factory, Axolotl, verl or a script. It gets a frozen dataset, a starting model and an empty folder in
 * its environment, and leaves a model in that folder. What it left is verified and becomes a checkpoint with its lineage.
 */
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Type } from 'typebox';
import { TroupeError } from '../../errors.ts';
import { hashId } from '../../ingest/events/json.ts';
import { exportDataset, layoutNamed } from '../../store/datasets/export.ts';
import { openDataset } from '../../store/datasets/read.ts';
import { checkedSpec, type Handler, type JobContext } from '../../store/queue/jobs/jobs.ts';
import { adapterMeta, publishAdapter } from '../learn/learner.ts';
import { adapterState } from '../learn/run-state.ts';
import { announceCheckpoint } from '../loop/jobs/announce.ts';
import { runCommand } from '../loop/play/command.ts';
import { openAdapter } from '../model/adapter-directory.ts';
import { saveCheckpoint } from '../model/checkpoints/checkpoint.ts';
import { checkAdapter, mergeAdapter } from '../model/lora.ts';
import { type OpenModel, openModelForIds } from '../model/model-directory.ts';
import { type Engine, findEngine } from './engines.ts';
import { metricsReader } from './metrics-file.ts';

export type ProgramSettings = {
  readonly engines: readonly Engine[];
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Folder of the checkpoints, and one for what programs write meanwhile. */
  readonly checkpoints: string;
  readonly work: string;
  readonly codeVersion: string;
  /** Ends the program; its job goes back into the queue. */
  readonly signal: AbortSignal;
};

/** What a job of kind `program` needs. */
export const ProgramSpec = Type.Object({
  engine: Type.String({ description: 'name in the setting engines' }),
  base: Type.String(),
  dataset: Type.String(),
  policy: Type.String(),
  seed: Type.Integer(),
  layout: Type.Optional(Type.String({ description: 'layout that the dataset is exported in for the program' })),
  params: Type.Optional(Type.Record(Type.String(), Type.Unknown(), { description: 'passed on as they are' })),
  keep: Type.Optional(Type.Boolean()),
  reset_optimizer: Type.Optional(Type.Boolean()),
});

/** Variables that every program needs to be found and to run. */
const ALWAYS = ['PATH', 'HOME', 'LANG', 'LC_ALL', 'TMPDIR', 'TZ'] as const;
const LOOK_MS = 500;
/** Characters of the end of the log that an error and the job's result keep. */
const TAIL = 2000;
/** Names of files that an error lists: a folder of checkpoints is known by them. */
const SHOWN = 8;

/** @returns handler of kind `program`, whose result names the checkpoint */
export function programTraining(context: JobContext, settings: ProgramSettings): Handler {
  return async (job, report, fenced) => {
    const spec = checkedSpec(ProgramSpec, job.spec);
    const engine = findEngine(settings.engines, spec.engine);
    const dataset = await openDataset(spec.dataset);
    const base = await openModelForIds(spec.base);
    const folder = join(settings.work, `${job.job_id.replaceAll(/[^A-Za-z0-9._-]/g, '_')}-${job.token}`);
    const out = join(folder, 'model');
    await mkdir(out, { recursive: true });
    const files = {
      params: join(folder, 'params.json'),
      metrics: join(folder, 'metrics.jsonl'),
      log: join(folder, 'log.txt'),
    };
    const rows = spec.layout === undefined ? spec.dataset : join(folder, 'dataset');
    if (spec.layout !== undefined) await exportDataset(dataset, layoutNamed(spec.layout), rows);
    await writeFile(files.params, `${JSON.stringify(spec.params ?? {}, null, 2)}\n`);
    const metrics = metricsReader(files.metrics);
    const last: Record<string, number> = {};
    let step = 0;
    const reportMetrics = async () => {
      for (const one of await metrics.read()) {
        step = Math.max(step, one.step);
        Object.assign(last, one.metrics);
        await report(one.step, one.metrics);
      }
    };
    const env = {
      TROUPE_DATASET: rows,
      TROUPE_BASE: base.dir,
      TROUPE_OUT: out,
      TROUPE_PARAMS: files.params,
      TROUPE_METRICS: files.metrics,
      TROUPE_LOG: files.log,
      TROUPE_SEED: String(spec.seed),
      TROUPE_POLICY: spec.policy,
    };
    await runEngine(engine, settings, { env, fenced, look: reportMetrics });
    // The manifest of a checkpoint that the program copied describes other weights.
    await rm(join(out, 'troupe.json'), { force: true });
    const { config, weights, sideFiles, adapted } = await leftModel(engine, out, base);
    const saved = await saveCheckpoint(settings.checkpoints, {
      config,
      weights,
      // A program that saves the model alone, with its generation_config.json, has the tokenizer and the template of the base.
      sideFiles: sideFiles['tokenizer.json'] === undefined ? { ...base.sideFiles, ...sideFiles } : sideFiles,
      optimizer: null,
      state: adapted === null ? null : adapterState(adapted.model.trained),
      meta: {
        ...(adapted === null ? {} : adapterMeta(adapted)),
        parent: base.id,
        step,
        datasets: [dataset.manifest.content_sha256],
        plan_hash: hashId(job.spec),
        seed: spec.seed,
        log_positions: dataset.manifest.positions['facts/embedded'] ?? {},
        code_version: settings.codeVersion,
        metrics: last,
      },
    });
    if (adapted !== null) await publishAdapter({ ...adapted, id: saved.id }, settings.checkpoints);
    await announceCheckpoint(context, {
      job,
      saved,
      parent: base.id,
      policy: spec.policy,
      datasetId: dataset.manifest.dataset_id,
      keep: true,
      step,
      metrics: last,
      codeVersion: settings.codeVersion,
      ...(adapted === null ? {} : adapterMeta(adapted)),
    });
    // The checkpoint is a copy; log and metrics stay.
    await rm(out, { recursive: true, force: true });
    return {
      checkpoint_id: saved.id,
      directory: saved.dir,
      metrics: last,
      log: files.log,
      metrics_refused: metrics.refused(),
      ...(adapted === null ? {} : adapterMeta(adapted)),
    };
  };
}

/**
 * Runs the program of an engine to its end, looking at what it reports meanwhile.
 * @throws TroupeError `interrupted` where it was stopped, `training_failed` with the end of its log where it did not end well
 */
async function runEngine(
  engine: Engine,
  settings: ProgramSettings,
  {
    env,
    fenced,
    look,
  }: {
    readonly env: Readonly<Record<string, string>> & { readonly TROUPE_LOG: string };
    readonly fenced: AbortSignal;
    readonly look: () => Promise<void>;
  },
): Promise<void> {
  const lost = new AbortController();
  const ended = new AbortController();
  const running = runCommand(logged(engine.command), {
    env: {
      ...inherited(settings.env, [...ALWAYS, ...engine.env]),
      ...env,
    },
    input: '',
    timeoutS: engine.timeoutS,
    signal: AbortSignal.any([settings.signal, fenced, lost.signal]),
  }).finally(() => ended.abort());
  try {
    while (!ended.signal.aborted) {
      await look();
      await sleep(LOOK_MS, undefined, { signal: ended.signal }).catch(() => {});
    }
  } catch (error) {
    // Whoever cannot report has lost the job: nothing of this program may be left.
    lost.abort();
    await running.catch(() => {});
    throw error;
  }
  const ran = await running;
  await look();
  const log = await tailOf(env.TROUPE_LOG);
  if (ran.ended === 'stopped')
    throw new TroupeError('interrupted', `Engine ${engine.name} was stopped; its job begins again.`);
  if (ran.ended === 'timeout')
    throw new TroupeError(
      'training_failed',
      `Engine ${engine.name} was ended after ${engine.timeoutS} s, which is engines.${engine.name}.timeout_s. The end of its log, ${env.TROUPE_LOG}:\n${log}`,
    );
  if (ran.code !== 0)
    throw new TroupeError(
      'training_failed',
      `Engine ${engine.name} ended with ${ran.code ?? 'a signal'}. The end of its log, ${env.TROUPE_LOG}:\n${log}`,
    );
}

/**
 * What a program left: a whole model, or an adapter as PEFT writes it, which lies over the weights that the program began with.
 * @throws TroupeError as `openModelForIds` and `openAdapter` do, and where the adapter does not fit the model
 */
async function modelIn(out: string, left: readonly string[], base: OpenModel) {
  if (left.includes('config.json') || !left.includes('adapter_config.json'))
    return { ...(await openModelForIds(out)), adapted: null };
  const { adapter, weights } = await openAdapter(out);
  checkAdapter(base.config, adapter, weights);
  return {
    config: base.config,
    weights: mergeAdapter(base.config, base.weights, adapter, weights),
    sideFiles: base.sideFiles,
    adapted: { base: { id: base.id, dir: base.dir }, model: { adapter, trained: weights, config: base.config } },
  };
}

/** The same. @throws TroupeError `training_failed` naming what was left where it is no model */
async function leftModel(engine: Engine, out: string, base: OpenModel) {
  const left = (await readdir(out)).sort();
  return modelIn(out, left, base).catch((error: TroupeError) => {
    const names = left.length === 0 ? 'nothing' : left.slice(0, SHOWN).join(', ');
    throw new TroupeError(
      'training_failed',
      `Engine ${engine.name} ended well, but what it left in TROUPE_OUT is no model that can be used: ${error.message} It left ${names}${left.length > SHOWN ? ` and ${left.length - SHOWN} more` : ''}.`,
      { cause: error },
    );
  });
}

/** Everything that the program prints goes into the log. */
const logged = (command: readonly string[]): string[] => [
  '/bin/sh',
  '-c',
  'exec "$@" >"$TROUPE_LOG" 2>&1',
  'sh',
  ...command,
];

const inherited = (env: ProgramSettings['env'], names: readonly string[]): Record<string, string> =>
  Object.fromEntries(names.flatMap((name) => (env[name] === undefined ? [] : [[name, env[name]]])));

const tailOf = async (path: string): Promise<string> =>
  (await readFile(path, 'utf8').catch(() => '')).slice(-TAIL).trimEnd();
