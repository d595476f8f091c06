/** Datasets and training: freeze, look, train, sample, score. */
import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import type { Command } from 'commander';
import { loadConfig } from '../../config.ts';
import { EXIT, TroupeError } from '../../errors.ts';
import { datasetDiff } from '../../store/datasets/diff.ts';
import { freeze } from '../../store/datasets/freeze.ts';
import { findDataset, listDatasets, openDataset } from '../../store/datasets/read.ts';
import { readRecipe, recipeSchema } from '../../store/datasets/recipe.ts';
import { homeAt } from '../../store/db/home.ts';
import { projectAll } from '../../store/projector.ts';
import { closeLearner, openLearner, saveLearner } from '../../trainer/learner.ts';
import { openModel } from '../../trainer/model-directory.ts';
import { Policy } from '../../trainer/policy.ts';
import { rlPass } from '../../trainer/rl.ts';
import { sft } from '../../trainer/sft.ts';
import { policyRow, type StepRow, supervisedRow } from '../../trainer/training-rows.ts';
import { plainCommand, projectCommand, wholeNumber } from '../command.ts';
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
    const found = await listDatasets(home.datasets);
    if (flags.json) printJson({ datasets: found });
    else if (found.length === 0) print('No datasets yet. Freeze one: troupe dataset freeze RECIPE');
    else print(found.map((one) => JSON.stringify(one)).join('\n'));
    return EXIT.done;
  });
  projectCommand(
    dataset.command('show').description('the manifest of a dataset').argument('<dataset>', 'id, name or folder'),
    async ({ home }, [name]) => {
      const { manifest } = await openDataset(await datasetAt(home.datasets, name!));
      printJson(manifest);
      return EXIT.done;
    },
  );
  projectCommand(
    dataset.command('diff').description('which rows two datasets do not share').argument('<a>').argument('<b>'),
    async ({ home }, [a, b], flags) => {
      const diff = await datasetDiff(
        await openDataset(await datasetAt(home.datasets, a!)),
        await openDataset(await datasetAt(home.datasets, b!)),
      );
      if (flags.json) printJson(diff);
      else print(JSON.stringify(diff, null, 2));
      return EXIT.done;
    },
  );
  plainCommand(program.command('recipe').description('the JSON Schema of a recipe'), async () => {
    printJson(recipeSchema);
    return EXIT.done;
  });
}

function trainCommands(program: Command): void {
  const train = program.command('train').description('train a checkpoint on a frozen dataset');
  const shared = (command: Command) =>
    command
      .requiredOption('--model <dir>', 'directory of the model or checkpoint to go on from')
      .requiredOption('--data <dir>', 'directory (or id) of a frozen dataset of unit step')
      .requiredOption('--out <dir>', 'folder the new checkpoint is saved in')
      .option('--seed <n>', 'seed of the order', wholeNumber('seed'), 0)
      .option('--lr <x>', 'learning rate', Number, 1e-3)
      .option('--warmup <n>', 'steps over which the rate rises', wholeNumber('warmup'), 20)
      .option('--entropy <x>', 'weight of the entropy bonus', Number, 0);
  plainCommand(
    shared(train.command('sft').description('supervised fine-tuning, mean over sequences of the mean over tokens'))
      .option('--steps <n>', 'optimizer steps for each role', wholeNumber('steps'), 100)
      .option('--batch <n>', 'rows in a step', wholeNumber('batch'), 32)
      .addHelpText(
        'after',
        '\nExample:\n  troupe train sft --model ./model --data .troupe/datasets/ab12… --out ./checkpoints --steps 200',
      ),
    async (_, flags) => {
      const { learner, rows } = await opened(flags);
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
      return saved(flags, learner, { losses, grad_norms: norms });
    },
  );
  plainCommand(
    shared(train.command('rl').description('one pass of clipped policy gradient over the advantages of a dataset'))
      .option('--groups <n>', 'groups in a step', wholeNumber('groups'), 32)
      .option('--clip-low <x>', 'lower clip', Number, 0.2)
      .option('--clip-high <x>', 'upper clip', Number, 0.28),
    async (_, flags) => {
      const { learner, rows } = await opened(flags);
      const trainable = rows.map(policyRow);
      const roles = [...new Set(trainable.map((row) => row.role))];
      const metrics = await rlPass(learner.model, trainable, {
        roles: roles.map((role) => ({
          role,
          groups: Number(flags.groups),
          learning_rate: 0,
          learningRate: Number(flags.lr),
          entropy: Number(flags.entropy),
        })),
        clipLow: Number(flags.clipLow),
        clipHigh: Number(flags.clipHigh),
        warmup: Number(flags.warmup),
        seed: Number(flags.seed),
      });
      return saved(flags, learner, { roles: metrics });
    },
  );
}

async function opened(flags: Readonly<Record<string, unknown>>) {
  const config = loadConfig(flags, process.env);
  const dataset = await openDataset(await datasetAt(homeAt(config.home).datasets, String(flags.data)));
  if (dataset.manifest.recipe.unit !== 'step') {
    throw new TroupeError(
      'usage',
      `The dataset's unit is ${dataset.manifest.recipe.unit}; training takes datasets of unit step.`,
    );
  }
  const learner = await openLearner(String(flags.model), { threads: config.threads });
  return { learner, dataset, rows: [...dataset.rows('train')] as unknown as StepRow[] };
}

async function saved(
  flags: Readonly<Record<string, unknown>>,
  learner: Awaited<ReturnType<typeof openLearner>>,
  metrics: object,
): Promise<number> {
  const checkpoint = await saveLearner(learner, resolve(String(flags.out)), {
    datasets: [],
    plan_hash: null,
    seed: Number(flags.seed),
    log_positions: {},
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
      .option('--temperature <x>', '0 is greedy', Number, 1)
      .option('--seed <n>', 'seed', wholeNumber('seed'), 0)
      .option('--n <n>', 'samples', wholeNumber('n'), 1)
      .addHelpText(
        'after',
        '\nExample:\n  troupe sample --model ./checkpoint --prompt-ids 1,2,3 --max-tokens 8 --temperature 0 --json',
      ),
    async (_, flags) => {
      const config = loadConfig(flags, process.env);
      const model = await openModel(String(flags.model));
      const promptIds = (flags.promptIds as number[] | undefined) ?? model.tokenizer.encode(String(flags.prompt ?? ''));
      const policy = await Policy.load(model.config, model.weights, { threads: config.threads });
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
      .requiredOption('--data <file>', 'JSON lines {"input_ids":[…]}, or a frozen dataset'),
    async (_, flags) => {
      const config = loadConfig(flags, process.env);
      const rows = await tokenRows(String(flags.data), homeAt(config.home).datasets);
      const model = await openModel(String(flags.model));
      const policy = await Policy.load(model.config, model.weights, { threads: config.threads });
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

async function tokenRows(data: string, datasets: string): Promise<number[][]> {
  if (!data.endsWith('.jsonl')) {
    const dataset = await openDataset(await datasetAt(datasets, data));
    return ([...dataset.rows('train')] as unknown as StepRow[]).map((row) => {
      const { promptIds, tokenIds } = policyRow({ ...row, logprobs: row.logprobs ?? [] });
      return [...promptIds, ...tokenIds];
    });
  }
  const lines = (await readFile(data, 'utf8')).split('\n').filter((line) => line.trim() !== '');
  return lines.map((line, i) => {
    const ids = (JSON.parse(line) as { input_ids?: unknown }).input_ids;
    if (Array.isArray(ids) && ids.length >= 2 && ids.every((id) => Number.isSafeInteger(id) && id >= 0))
      return ids as number[];
    throw new TroupeError('input_refused', `${data}:${i + 1} should have input_ids, a list of at least two token ids.`);
  });
}

const datasetAt = (folder: string, name: string): Promise<string> =>
  name.includes('/') ? Promise.resolve(resolve(name)) : findDataset(folder, name);

const textOf = async (file: string): Promise<string> => {
  const read = file === '-' ? readFile('/dev/stdin', 'utf8') : readFile(file, 'utf8');
  return read.catch((cause) => {
    throw new TroupeError('not_found', `The recipe ${file} cannot be read: ${(cause as Error).message}.`, { cause });
  });
};
