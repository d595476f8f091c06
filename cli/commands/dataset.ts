/** `troupe dataset`: freezing, listing, comparing and exporting datasets. */
import { readFile } from 'node:fs/promises';
import { basename, join, relative } from 'node:path';
import { text } from 'node:stream/consumers';
import type { Command } from 'commander';
import { countText, EXIT, TroupeError, unreadable } from '../../errors.ts';
import type { DatasetDiff } from '../../store/datasets/diff.ts';
import { plainCommand, projectCommand } from '../command.ts';
import { openedDataset } from '../open-dataset.ts';
import { print, printJson, say, table } from '../output.ts';
import { VERSION } from '../version.ts';
import { datasetMaskCommand } from './dataset-mask.ts';

/** Repeated here so that help loads no column code; a test compares it with the catalogue. */
const LAYOUT_HELP = [
  '  trl-sft           TRL SFTTrainer: prompt and completion as messages, with tools; the completion is learnt',
  '  trl-preference    TRL DPOTrainer: prompt, chosen and rejected as messages, with tools',
  '  trl-unpaired      TRL KTOTrainer: prompt and completion as messages, and a label: advantage (else reward) above 0',
  '  trl-prompts       TRL GRPOTrainer: each prompt once, with task_id and ground_truth for reward functions',
  '  trl-stepwise      TRL stepwise supervision: what an agent was asked, its answers in an episode, and a label for each',
  '  trl-tokens        TRL SFTTrainer: input_ids as sampled, labels -100 where nothing is learnt, logprobs of the answer',
  '  openai-sft        OpenAI supervised fine-tuning: messages and tools; weight 0 for answers that are not learnt',
  '  openai-dpo        OpenAI preference fine-tuning: input, preferred_output and non_preferred_output',
  '  llama-factory-sft LLaMA-Factory SFT: ShareGPT conversations with system and tools, and dataset_info.json',
  '  llama-factory-dpo LLaMA-Factory preferences: ShareGPT conversations with chosen and rejected, and dataset_info.json',
  '  axolotl           Axolotl chat_template: messages marked as learnt or not, tools as JSON text, and axolotl.yaml with its datasets',
  '  verl-rl           verl RL: each prompt once, with data_source, reward_model.ground_truth and extra_info',
  '  verl-sft          verl multi-turn SFT: whole conversations as messages, with tools; every answer is learnt; what differs from row to row is JSON, which troupe_verl.py reads',
  '  prime-rl-sft      prime-rl SFT: whole conversations as messages, with tools as JSON text; every answer is learnt',
  '  anthropic         Anthropic messages: system, messages with content blocks, and tools with input_schema',
  '  atif              ATIF 1.8: a trajectory for each conversation, with tool calls, results, token ids and logprobs',
  '  adp               Agent Data Protocol: a trajectory for each conversation, as actions and observations; every answer that calls a tool is learnt',
  '  everything        every turn with nested messages, tools, tokens, rewards and ids, for programs of your own',
].join('\n');

export function addTo(program: Command): void {
  const dataset = program
    .command('dataset')
    .addHelpText('after', '\nExamples:\n  troupe dataset freeze recipe.yaml\n  troupe dataset list');
  freezeCommand(dataset);
  recipesCommand(dataset);
  listCommand(dataset);
  showCommand(dataset);
  diffCommand(dataset);
  outdatedCommand(dataset);
  exportCommand(dataset);

  datasetMaskCommand(dataset);
}

function freezeCommand(dataset: Command): void {
  projectCommand(
    dataset
      .command('freeze')
      .description('freeze the rows that a recipe selects into an immutable folder with a manifest')
      .argument('<recipe>', 'YAML or JSON file; - for standard input')
      .option('--allow-empty', 'freeze it also where the recipe finds no row')
      .addHelpText(
        'after',
        '\nExample recipe:\n  name: good-solvers\n  where: reward >= 1 and count(tool_calls where error) = 0\n  unit: step\n  roles: [solver]\n  layout: [arrow, jsonl]\n\nFewer rows, easy tasks first:\n  name: few-and-easy-first\n  pass_rate: { of: count(steps where checkpoint_id = ck-7) > 0, least: 0.2, most: 0.9 }\n  order: easy_first\n  decontaminate: { files: [gsm8k-test.jsonl] }\n  near_duplicates: { threshold: 0.8 }\n  caps: [{ of: task, rows: 4 }]\n\nRows that count more or less in the loss:\n  name: weighed\n  weight: [{ where: role = critic, weight: 0.5 }, { where: task.difficulty = hard, weight: 2 }]\n\nA fifth of the rows from an earlier dataset:\n  name: new-and-old\n  replay: [{ dataset: good-solvers, share: 0.2 }]\n\nExample:\n  troupe dataset freeze recipe.yaml',
      ),
    async ({ db, log, home, now, catchUp, patiently }, [file], flags) => {
      await catchUp();
      const [{ readRecipe }, { freeze }] = await Promise.all([
        import('../../store/datasets/recipe.ts'),
        import('../../store/datasets/freeze.ts'),
      ]);
      const recipe = readRecipe(await textOf(file!), file === '-' ? 'The recipe' : `The recipe ${file}`);
      const allowEmpty = flags.allowEmpty === true;
      const { datasets: directory, benchmarks } = home;
      const options = { directory, benchmarks, codeVersion: VERSION, log, at: now().toISOString(), allowEmpty };
      const frozen = await patiently(() => freeze(db, recipe, options));
      await catchUp();
      if (flags.json) printJson({ ...frozen.manifest, warnings: frozen.warnings });
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
      for (const warning of frozen.warnings) say(warning);
    },
  );
}

function recipesCommand(dataset: Command): void {
  plainCommand(
    dataset
      .command('recipes')
      .description('the recipes that come with Troupe; with a name, that one to change and freeze')
      .argument('[name]')
      .addHelpText(
        'after',
        '\nExamples:\n  troupe dataset recipes\n  troupe dataset recipes dr-mas > recipe.yaml\n  troupe dataset recipes dr-mas | troupe dataset freeze -',
      ),
    async ([name], flags) => {
      const { readyRecipe, readyRecipes } = await import('../../store/datasets/ready.ts');
      if (name === undefined) {
        const all = readyRecipes();
        if (flags.json) printJson({ recipes: all });
        else
          print(
            table(
              ['recipe', 'judge first', 'about'],
              all.map(({ name, judge, about }) => [name, judge, about]),
            ),
          );
      } else if (flags.json) printJson(readyRecipe(name));
      else process.stdout.write(readyRecipe(name).text);
    },
  );
}

function listCommand(dataset: Command): void {
  projectCommand(
    dataset
      .command('list')
      .description('list the datasets of this home')
      .addHelpText('after', '\nExample:\n  troupe dataset list --json'),
    async ({ home }, _, flags) => {
      const { listDatasets } = await import('../../store/datasets/read.ts');
      const { unfinishedIn } = await import('../../store/datasets/unfinished.ts');
      const found = await listDatasets(home.datasets);
      const unfinished = (await unfinishedIn(home.datasets)).map(({ directory, state: { name, written } }) => ({
        directory,
        name,
        rows: Object.fromEntries(written.splits.map(({ split, rows }) => [split, rows])),
      }));
      if (flags.json) printJson({ datasets: found, unfinished });
      else if (found.length + unfinished.length === 0)
        print('No datasets yet. Freeze one: troupe dataset freeze RECIPE');
      else
        print(
          table(
            ['dataset', 'name', 'rows', 'folder'],
            [
              ...found.map(({ directory, manifest, problem }) => ({
                id: manifest?.dataset_id ?? basename(directory),
                directory,
                name: manifest?.name ?? problem,
                rows: manifest?.rows ?? null,
              })),
              ...unfinished.map((one) => ({ ...one, id: 'unfinished' })),
            ].map(({ id, name, rows, directory }) => [id, name, rows && totalOf(rows), relative('.', directory)]),
          ),
        );
    },
  );
}

function showCommand(dataset: Command): void {
  projectCommand(
    dataset
      .command('show')
      .description('show the data card of a dataset; its manifest with --json')
      .argument('<dataset>', 'id, name or folder')
      .addHelpText(
        'after',
        '\nExamples:\n  troupe dataset show good-solvers\n  troupe dataset show good-solvers --json',
      ),
    async ({ home }, [name], flags) => {
      const { directory, manifest } = await openedDataset(home.datasets, name!);
      if (flags.json) printJson(manifest);
      else {
        const card = join(directory, 'README.md');
        const text = await readFile(card, 'utf8').catch((cause: NodeJS.ErrnoException) => {
          if (cause.code !== 'ENOENT') throw cause;
          throw new TroupeError(
            'not_found',
            `${directory} has no README.md: it was removed, or the Troupe that froze the dataset wrote none. Its manifest: troupe dataset show ${name} --json`,
            { cause },
          );
        });
        // Without what the card says to programs at its beginning.
        print(text.replace(/^---\n.*?\n---\n+/s, '').trimEnd());
      }
    },
  );
}

function diffCommand(dataset: Command): void {
  projectCommand(
    dataset
      .command('diff')
      .description('show the rows that two datasets do not share')
      .argument('<a>')
      .argument('<b>')
      .addHelpText(
        'after',
        '\nExample:\n  troupe dataset diff good-solvers ab12cd34\n  troupe dataset diff good-solvers ab12cd34 --json      every row',
      ),
    async ({ home }, [a, b], flags) => {
      const { datasetDiff } = await import('../../store/datasets/diff.ts');
      const diff = await datasetDiff(await openedDataset(home.datasets, a!), await openedDataset(home.datasets, b!));
      if (flags.json) printJson(diff);
      else {
        print(diffTable(diff));
        if (diff.reordered) print('The rows that both have stand in another order.');
        if (diff.recipe.length > 0) print(`Their recipes differ in ${diff.recipe.join(', ')}.`);
      }
    },
  );
}

function outdatedCommand(dataset: Command): void {
  projectCommand(
    dataset
      .command('outdated')
      .description('what a dataset would hold if its recipe were frozen now; nothing is kept')
      .argument('<dataset>', 'id, name or folder')
      .addHelpText(
        'after',
        '\nEnds with 1 where the rows differ: after late feedback, new episodes, judging again, pruning or erasure.\n\nExamples:\n  troupe dataset outdated good-solvers\n  troupe dataset outdated good-solvers --json',
      ),
    async ({ db, home, catchUp, patiently }, [name], flags) => {
      await catchUp();
      const { outdated } = await import('../../store/datasets/outdated.ts');
      const dataset = await openedDataset(home.datasets, name!);
      const found = await patiently(() =>
        outdated(db, dataset, { folder: home.run, benchmarks: home.benchmarks, codeVersion: VERSION }),
      );
      if (flags.json) printJson(found);
      else if (!found.outdated)
        print(`${dataset.manifest.name} is what its recipe finds now: ${countText(found.rows.same, 'row')}.`);
      else {
        print(diffTable(found.rows));
        for (const { before, now } of found.methods) print(`It would read ${now} instead of ${before}.`);
      }
      return found.outdated ? EXIT.failed : EXIT.done;
    },
  );
}

function exportCommand(dataset: Command): void {
  projectCommand(
    dataset
      .command('export')
      .description('write a frozen dataset in the file layout of another trainer')
      .argument('<dataset>', 'id, name or folder')
      .requiredOption('--layout <name>', 'file layout; see the list below')
      .requiredOption('--out <dir>', 'folder to write; must not exist or be empty')
      .addHelpText(
        'after',
        `
Layouts:
${LAYOUT_HELP}

manifest.json in the folder names the rows that were left out and what the layout cannot hold, with counts.

Examples:
  troupe dataset export good-solvers --layout trl-sft --out sft
  troupe dataset export good-solvers --layout openai-dpo --out pairs --json`,
      ),
    async ({ home }, [name], flags) => {
      const { exportDataset, layoutNamed } = await import('../../store/datasets/export.ts');
      const layout = layoutNamed(String(flags.layout));
      const opened = await openedDataset(home.datasets, name!);
      const { manifest, directory } = await exportDataset(opened, layout, String(flags.out));
      if (flags.json) printJson({ ...manifest, directory });
      else {
        const rows = Object.entries(manifest.rows).map(([file, count]) => `${count} in ${file}`);
        // Rows may be joined to conversations or paired, and some left out.
        const [all, written] = [opened.manifest.rows, manifest.rows].map(totalOf) as [number, number];
        const made = all === written ? '' : `, made of ${countText(all, 'row')} of the dataset`;
        print(`${layout.name}: ${rows.join(', ')} of ${directory}${made}`);
        for (const { what, count } of manifest.left_out) say(`Left out: ${count} × ${what}`);
        const lost = manifest.not_held.map(({ what, count }) => `${what} (${count})`);
        if (lost.length > 0) say(`${layout.name} has no place for: ${lost.join(', ')}`);
      }
    },
  );
}

const textOf = async (file: string): Promise<string> => {
  const read = file === '-' ? text(process.stdin) : readFile(file, 'utf8');
  return read.catch(async (cause) => {
    const { readyRecipes } = await import('../../store/datasets/ready.ts');
    const ready = readyRecipes().some(({ name }) => name === file);
    const error = unreadable(`The recipe ${file}`, cause);
    if (!ready) throw error;
    const hint = `${file} comes with Troupe: troupe dataset recipes ${file} | troupe dataset freeze -`;
    throw new TroupeError(error.code, error.message, { hint, cause });
  });
};

const totalOf = (rows: Readonly<Record<string, number>>): number =>
  Object.values(rows).reduce((sum, count) => sum + count, 0);

/** How many rows became what, with the first of each. */
function diffTable({ same, added, removed, changed, moved }: DatasetDiff): string {
  const first = (rows: DatasetDiff['added']): string =>
    rows
      .slice(0, 3)
      .map(({ episode_id, step_id }) => (step_id === null ? episode_id : `${episode_id} ${step_id}`))
      .join(', ');
  return table(
    ['rows', 'count', 'for example'],
    [
      ['same', same, ''],
      ...Object.entries({ added, removed, changed, moved }).map(([kind, rows]) => [kind, rows.length, first(rows)]),
    ],
  );
}
