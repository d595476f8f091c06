/** Datasets and training: freeze, look, train, sample, score. What reads models and columns is loaded when it is needed. */
import { readFile } from 'node:fs/promises';
import { basename, relative, resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import type { Command } from 'commander';
import { loadConfig } from '../../config.ts';
import { EXIT, TroupeError } from '../../errors.ts';
import { homeAt } from '../../store/db/home.ts';
import { projectAll } from '../../store/projector.ts';
import type { StepRow } from '../../trainer/training-rows.ts';
import { number, plainCommand, projectCommand, wholeNumber } from '../command.ts';
import { VERSION } from '../context.ts';
import { print, printJson, progressBar, table } from '../output.ts';

export function learnCommands(program: Command): void {
  datasetCommands(program);
  trainCommands(program);
  speakCommands(program);
}

function datasetCommands(program: Command): void {
  const dataset = program.command('dataset').description('frozen datasets: freeze, list, show, diff');
  projectCommand(
    dataset
      .command('freeze')
      .description('freeze what a recipe says into an immutable folder with a manifest')
      .argument('<recipe>', 'YAML or JSON file; - for standard input')
      .addHelpText(
        'after',
        '\nExample recipe:\n  name: good-solvers\n  where: {field: reward, op: ">=", value: 1}\n  unit: step\n  roles: [solver]\n  layout: [arrow, jsonl]',
      ),
    async ({ db, log, home, now }, [file], flags) => {
      await projectAll(db);
      const [{ readRecipe }, { freeze }] = await Promise.all([
        import('../../store/datasets/recipe.ts'),
        import('../../store/datasets/freeze.ts'),
      ]);
      const recipe = readRecipe(await textOf(file!));
      const frozen = await freeze(db, recipe, {
        directory: home.datasets,
        codeVersion: VERSION,
        log,
        at: now().toISOString(),
      });
      await projectAll(db);
      if (flags.json) printJson(frozen.manifest);
      else {
        print(
          table(
            ['filter', 'of', 'before', 'after'],
            frozen.manifest.funnel.map((stage) => [stage.name, stage.of, stage.before, stage.after]),
          ),
        );
        print(
          `${Object.entries(frozen.manifest.rows)
            .map(([split, rows]) => `${rows} ${split}`)
            .join(', ')} rows in ${frozen.directory}${frozen.fresh ? '' : ' (frozen before)'}`,
        );
      }
      return EXIT.done;
    },
  );
  projectCommand(dataset.command('list').description('datasets of this home'), async ({ home }, _, flags) => {
    const { listDatasets } = await import('../../store/datasets/read.ts');
    const found = await listDatasets(home.datasets);
    if (flags.json) printJson({ datasets: found });
    else if (found.length === 0) print('No datasets yet. Freeze one: troupe dataset freeze RECIPE');
    else
      print(
        table(
          ['dataset', 'name', 'rows', 'folder'],
          found.map(({ manifest, directory, problem }) => [
            manifest?.dataset_id ?? basename(directory),
            manifest?.name ?? problem,
            manifest ? Object.values(manifest.rows).reduce((sum, rows) => sum + rows, 0) : null,
            relative('.', directory),
          ]),
        ),
      );
    return EXIT.done;
  });
  projectCommand(
    dataset
      .command('show')
      .description('the manifest of a dataset')
      .argument('<dataset>', 'id, name or folder')
      .addHelpText('after', '\nExample:\n  troupe dataset show good-solvers'),
    async ({ home }, [name]) => {
      const { manifest } = await opened(home.datasets, name!);
      printJson(manifest);
      return EXIT.done;
    },
  );
  projectCommand(
    dataset
      .command('diff')
      .description('which rows two datasets do not share')
      .argument('<a>')
      .argument('<b>')
      .addHelpText('after', '\nExample:\n  troupe dataset diff good-solvers ab12cd34'),
    async ({ home }, [a, b], flags) => {
      const { datasetDiff } = await import('../../store/datasets/diff.ts');
      const diff = await datasetDiff(await opened(home.datasets, a!), await opened(home.datasets, b!));
      if (flags.json) printJson(diff);
      else print(JSON.stringify(diff, null, 2));
      return EXIT.done;
    },
  );
  plainCommand(
    program
      .command('recipe')
      .description('the JSON Schema of a recipe')
      .addHelpText('after', '\nExample:\n  troupe recipe > recipe.schema.json'),
    async () => {
      const { recipeSchema } = await import('../../store/datasets/recipe.ts');
      printJson(recipeSchema);
      return EXIT.done;
    },
  );
}

function trainCommands(program: Command): void {
  const train = program.command('train').description('train a checkpoint on a frozen dataset');
  const shared = (command: Command) =>
    command
      .requiredOption('--model <dir>', 'directory of the model or checkpoint to go on from')
      .requiredOption('--data <dir>', 'directory (or id) of a frozen dataset of unit step')
      .requiredOption('--out <dir>', 'folder the new checkpoint is saved in')
      .option('--seed <n>', 'seed of the order', wholeNumber('seed'), 0)
      .option('--lr <x>', 'learning rate', number('lr'), 1e-3)
      .option('--warmup <n>', 'steps over which the rate rises', wholeNumber('warmup'), 20)
      .option('--entropy <x>', 'weight of the entropy bonus', number('entropy'), 0);
  plainCommand(
    shared(train.command('sft').description('supervised fine-tuning, mean over sequences of the mean over tokens'))
      .option('--steps <n>', 'optimizer steps for each role', wholeNumber('steps'), 100)
      .option('--batch <n>', 'rows in a step', wholeNumber('batch'), 32)
      .addHelpText(
        'after',
        '\nExample:\n  troupe train sft --model ./model --data .troupe/datasets/ab12… --out ./checkpoints --steps 200',
      ),
    async (_, flags) => {
      const [{ sft }, { supervisedRow }] = await Promise.all([
        import('../../trainer/sft.ts'),
        import('../../trainer/training-rows.ts'),
      ]);
      const { learner, dataset, rows } = await openedLearner(flags);
      const bar = progressBar('Training', { quiet: flags.quiet === true || flags.json === true });
      const losses: number[] = [];
      const norms: number[] = [];
      const trainable = rows.map((row) => supervisedRow(row, learner.open));
      const roles = [...new Set(trainable.map((row) => row.role))];
      await sft(learner.model, trainable, {
        steps: Object.fromEntries(roles.map((role) => [role, Number(flags.steps)])),
        batch: Number(flags.batch),
        learningRate: Number(flags.lr),
        warmup: Number(flags.warmup),
        entropy: Number(flags.entropy),
        seed: Number(flags.seed),
        onStep: (step, total, { loss, gradientNorm }) => {
          losses.push(loss);
          norms.push(gradientNorm);
          bar.update(step, total, `loss ${loss.toFixed(3)}`);
        },
      });
      bar.stop();
      return saved(flags, { learner, dataset }, { losses, grad_norms: norms });
    },
  );
  plainCommand(
    shared(train.command('rl').description('one pass of clipped policy gradient over the advantages of a dataset'))
      .option('--groups <n>', 'groups in a step', wholeNumber('groups'), 32)
      .option('--clip-low <x>', 'lower clip', number('clip-low'), 0.2)
      .option('--clip-high <x>', 'upper clip', number('clip-high'), 0.28)
      .addHelpText(
        'after',
        '\nThe dataset needs a credit and the log-probabilities of its tokens.\n\nExample:\n  troupe train rl --model ./checkpoints/ab12… --data cd34… --out ./checkpoints --groups 16 --lr 5e-4',
      ),
    async (_, flags) => {
      const [{ rlPass }, { policyRow }] = await Promise.all([
        import('../../trainer/rl.ts'),
        import('../../trainer/training-rows.ts'),
      ]);
      const { learner, dataset, rows } = await openedLearner(flags);
      const trainable = rows.map(policyRow);
      const roles = [...new Set(trainable.map((row) => row.role))];
      const metrics = await rlPass(learner.model, trainable, {
        roles: roles.map((role) => ({
          role,
          groups: Number(flags.groups),
          learningRate: Number(flags.lr),
          entropy: Number(flags.entropy),
        })),
        clipLow: Number(flags.clipLow),
        clipHigh: Number(flags.clipHigh),
        warmup: Number(flags.warmup),
        seed: Number(flags.seed),
      });
      return saved(flags, { learner, dataset }, { roles: metrics });
    },
  );
}

async function openedLearner(flags: Readonly<Record<string, unknown>>) {
  const config = loadConfig(flags, process.env);
  const { openLearner } = await import('../../trainer/learner.ts');
  const dataset = await opened(homeAt(config.home).datasets, String(flags.data));
  if (dataset.manifest.recipe.unit !== 'step') {
    throw new TroupeError(
      'usage',
      `The dataset's unit is ${dataset.manifest.recipe.unit}; training takes datasets of unit step.`,
    );
  }
  const learner = await openLearner(String(flags.model), { threads: config.threads });
  return { learner, dataset, rows: [...dataset.rows('train')] as unknown as StepRow[] };
}

type Opened = Awaited<ReturnType<typeof openedLearner>>;

/** The checkpoint names the dataset it was trained on and how far the log had been read for it. */
async function saved(
  flags: Readonly<Record<string, unknown>>,
  { learner, dataset }: Pick<Opened, 'learner' | 'dataset'>,
  metrics: object,
): Promise<number> {
  const { closeLearner, saveLearner } = await import('../../trainer/learner.ts');
  const checkpoint = await saveLearner(learner, resolve(String(flags.out)), {
    datasets: [dataset.manifest.content_sha256],
    plan_hash: null,
    seed: Number(flags.seed),
    log_positions: dataset.manifest.positions['facts/embedded'] ?? {},
    code_version: VERSION,
    metrics: {},
  });
  await closeLearner(learner);
  if (flags.json) printJson({ checkpoint_id: checkpoint.id, directory: checkpoint.dir, ...metrics });
  else print(`Checkpoint ${checkpoint.id} saved in ${checkpoint.dir}`);
  return EXIT.done;
}

function speakCommands(program: Command): void {
  const ids = (text: string) => text.split(',').map((id) => wholeNumber('prompt-ids')(id.trim()));
  plainCommand(
    program
      .command('sample')
      .description('let a checkpoint continue a prompt')
      .requiredOption('--model <dir>', 'directory of the model or checkpoint')
      .option('--prompt-ids <ids>', 'token ids, separated by commas', ids)
      .option('--prompt <text>', 'text instead of ids')
      .option('--max-tokens <n>', 'new tokens at most', wholeNumber('max-tokens'), 64)
      .option('--temperature <x>', '0 is greedy', number('temperature'), 1)
      .option('--seed <n>', 'seed', wholeNumber('seed'), 0)
      .option('--n <n>', 'samples', wholeNumber('n'), 1)
      .addHelpText(
        'after',
        '\nExample:\n  troupe sample --model ./checkpoint --prompt-ids 1,2,3 --max-tokens 8 --temperature 0 --json',
      ),
    async (_, flags) => {
      const config = loadConfig(flags, process.env);
      if (flags.promptIds === undefined && flags.prompt === undefined)
        throw new TroupeError('usage', 'What shall it continue? Say --prompt TEXT or --prompt-ids 1,2,3.');
      const { model, policy } = await speaker(String(flags.model), config.threads);
      const promptIds = (flags.promptIds as number[] | undefined) ?? model.tokenizer.encode(String(flags.prompt));
      const [samples] = await policy.sample([
        {
          promptIds,
          n: Number(flags.n),
          maxTokens: Number(flags.maxTokens),
          temperature: Number(flags.temperature),
          seed: Number(flags.seed),
          stopIds: model.eosIds,
        },
      ]);
      await policy.close();
      const answers = samples!.map(({ tokenIds, logprobs }) => ({ token_ids: tokenIds, logprobs }));
      if (flags.json) printJson(Number(flags.n) === 1 ? answers[0] : { samples: answers });
      else for (const { tokenIds } of samples!) print(model.tokenizer.decode(tokenIds));
      return EXIT.done;
    },
  );
  plainCommand(
    program
      .command('logprobs')
      .description('the log-probability of each token but the first of each row')
      .requiredOption('--model <dir>', 'directory of the model or checkpoint')
      .requiredOption('--data <file>', 'JSON lines {"input_ids":[…]}, or a frozen dataset')
      .addHelpText('after', '\nExample:\n  troupe logprobs --model ./checkpoint --data rows.jsonl --json'),
    async (_, flags) => {
      const config = loadConfig(flags, process.env);
      const rows = await tokenRows(String(flags.data), homeAt(config.home).datasets);
      const { policy } = await speaker(String(flags.model), config.threads);
      const logprobs = await policy.logprobs(
        rows.map((row) => ({ promptIds: row.slice(0, 1), tokenIds: row.slice(1) })),
      );
      await policy.close();
      if (flags.json) printJson({ logprobs });
      else for (const row of logprobs) print(row.map((x) => x.toFixed(4)).join(' '));
      return EXIT.done;
    },
  );
}

async function speaker(dir: string, threads: number) {
  const [{ openModel }, { Policy }] = await Promise.all([
    import('../../trainer/model-directory.ts'),
    import('../../trainer/policy.ts'),
  ]);
  const model = await openModel(dir);
  return { model, policy: await Policy.load(model.config, model.weights, { threads }) };
}

async function tokenRows(data: string, datasets: string): Promise<number[][]> {
  if (!data.endsWith('.jsonl')) {
    const { policyRow } = await import('../../trainer/training-rows.ts');
    const dataset = await opened(datasets, data);
    return ([...dataset.rows('train')] as unknown as StepRow[]).map((row) => {
      const { promptIds, tokenIds } = policyRow({ ...row, logprobs: row.logprobs ?? [] });
      return [...promptIds, ...tokenIds];
    });
  }
  const file = await readFile(data, 'utf8').catch((cause) => {
    throw new TroupeError('not_found', `${data} cannot be read: ${(cause as Error).message}.`, { cause });
  });
  const lines = file.split('\n').filter((line) => line.trim() !== '');
  return lines.map((line, i) => {
    const ids = inputIds(line);
    if (Array.isArray(ids) && ids.length >= 2 && ids.every((id) => Number.isSafeInteger(id) && id >= 0))
      return ids as number[];
    throw new TroupeError('input_refused', `${data}:${i + 1} should have input_ids, a list of at least two token ids.`);
  });
}

function inputIds(line: string): unknown {
  try {
    return (JSON.parse(line) as { input_ids?: unknown } | null)?.input_ids;
  } catch {
    return null;
  }
}

/** A dataset named by folder, or by id or name in the home. */
async function opened(folder: string, name: string) {
  const { findDataset, openDataset } = await import('../../store/datasets/read.ts');
  return openDataset(name.includes('/') ? resolve(name) : await findDataset(folder, name));
}

const textOf = async (file: string): Promise<string> => {
  const read = file === '-' ? text(process.stdin) : readFile(file, 'utf8');
  return read.catch((cause) => {
    throw new TroupeError('not_found', `The recipe ${file} cannot be read: ${(cause as Error).message}.`, { cause });
  });
};
