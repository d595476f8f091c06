/**
 * Proof that trainers of others take an exported dataset as it is: a made-up team's work is imported, frozen and exported in every layout;
 * Hugging Face datasets loads each folder with its splits and the rows as they were recorded, chat templates of three kinds write its messages, and SFTTrainer, DPOTrainer, KTOTrainer and
 * GRPOTrainer of TRL take two steps on a tiny model, none of them with a warning about the data. In the full form the loaders of LLaMA-Factory,
 * verl and Axolotl take this team, one with a single tool, and tau-bench where TROUPE_DATA names the folder: what they learn is held against the
 * frozen rows.
 */
import { execFile } from 'node:child_process';
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { openProject } from '../cli/open-project.ts';
import { exportDataset } from '../store/datasets/export.ts';
import { LAYOUTS } from '../store/datasets/layouts/catalogue.ts';
import { openDataset } from '../store/datasets/read.ts';
import { calculatorTeam, TOOLS } from './calculator-team.ts';
import type { Outcome, Proof, Setting } from './proof.ts';
import { findTrainer, TRAINERS, type Trainer, takenBy } from './trainers.ts';
import { findTrl } from './trl.ts';

const run = promisify(execFile);
const ROOT = join(import.meta.dirname, '..');
const TASKS = 12;

type TrainerReport = {
  readonly versions: Readonly<Record<string, string>>;
  readonly layouts: Readonly<
    Record<
      string,
      {
        splits: Record<string, number>;
        columns: readonly string[];
        first: Record<string, unknown>;
        rendered?: Record<string, { texts: number; refused: readonly string[] }>;
      }
    >
  >;
  /** By the layout that was trained on. */
  readonly trainers: Readonly<
    Record<string, { trainer: string; losses: readonly number[]; learnt: { ids: number[]; text: string } | null }>
  >;
  readonly warnings: readonly string[];
};

/** What transformers says of its own settings, whatever the data. */
const OF_SETTINGS = /^(training_args|modeling_utils)\.py: .*gradient_checkpointing.* is deprecated/;

export const proof: Proof = {
  name: 'trainers-take-datasets',
  needs: ['python'],
  async run({ short, scratch, say, python }: Setting): Promise<Outcome> {
    const trl = findTrl(process.env, python);
    if ('missing' in trl) return { ok: true, lines: [], skipped: [trl.missing] };
    const lines: string[] = [];
    let skipped: readonly string[] = [];
    const check = (what: string, fine: boolean, otherwise: unknown = ''): void => {
      lines.push(fine ? `ok  ${what}` : `NOT OK  ${what}: ${JSON.stringify(otherwise)}`);
      say(lines.at(-1)!);
    };
    const { DATABASE_URL: before } = process.env;
    delete process.env.DATABASE_URL;
    const folder = join(scratch, 'layouts');
    try {
      const team = join(scratch, 'events.jsonl');
      writeFileSync(team, calculatorTeam(TASKS));
      const { counts, directory } = await exportAll(team, join(scratch, 'home'), folder);
      await writeChats(directory, join(scratch, 'chats.jsonl'));
      const model = join(scratch, 'model');
      const flags = ['--vocab', '400', '--family', 'qwen2', '--hidden', '64', '--heads', '2', '--context', '512'];
      const text = ['--text', join(scratch, 'chats.jsonl')];
      await run(process.execPath, [join(ROOT, 'bin/troupe.js'), 'model', 'new', '--dir', model, ...text, ...flags]);
      const program = join(import.meta.dirname, 'trainers_take_datasets.py');
      const env = { ...process.env, OMP_NUM_THREADS: '1' };
      const { stdout } = await run(trl.python, [program, folder, model], { env, maxBuffer: 2 ** 26 });
      judge(JSON.parse(stdout.slice(stdout.indexOf('{"versions"'))) as TrainerReport, counts, check);
      if (!short) {
        const datasets = [{ name: 'a made-up team', directory, folder }, ...(await furtherDatasets(scratch))];
        skipped = await byTheirLoaders(datasets, model, check);
      }
    } finally {
      if (before !== undefined) process.env.DATABASE_URL = before;
    }
    return { ok: lines.every((line) => line.startsWith('ok')), lines, skipped };
  },
};

/** Writes every layout that has rows into a folder of its name. @returns for each the rows of its splits, and steps of the dataset by split */
async function exportAll(file: string, home: string, folder: string) {
  const project = await openProject({ home });
  try {
    await project.import({ paths: [file] });
    const layout = ['arrow', 'jsonl'] as const;
    const { directory } = await project.dataset.freeze({ recipe: { name: 'sums', layout, split: { held_out: 0.25 } } });
    const dataset = await openDataset(directory);
    const counts: Record<string, Record<string, number>> = {};
    for (const layout of LAYOUTS) {
      try {
        const { manifest } = await exportDataset(dataset, layout, join(folder, layout.name));
        const rows = Object.entries(manifest.rows).map(([file, count]) => [file.split('.')[0]!, count]);
        counts[layout.name] = Object.fromEntries(rows);
      } catch (error) {
        if (!/has no row of dataset/.test(String(error))) throw error;
      }
    }
    symlinkSync(directory, join(folder, 'frozen'));
    counts.frozen = { train: dataset.frame('train').rows, held_out: dataset.frame('held_out').rows };
    return { counts, directory };
  } finally {
    await project.close();
  }
}

async function writeChats(directory: string, file: string): Promise<void> {
  const chats = [...(await openDataset(directory)).rows()].map((row) => ({ messages: row.prompt, tools: TOOLS }));
  writeFileSync(file, chats.map((chat) => `${JSON.stringify(chat)}\n`).join(''));
}

type Laid = { readonly name: string; readonly directory: string; readonly folder: string };

/** A team with one tool, whose definitions verl takes as values, and real conversations where they are there. */
async function furtherDatasets(scratch: string): Promise<readonly Laid[]> {
  const one = join(scratch, 'one-tool.jsonl');
  writeFileSync(one, calculatorTeam(TASKS, TOOLS.slice(0, 1)));
  const { TROUPE_DATA: data } = process.env;
  const files = [
    ['a team with one tool', one] as const,
    ...(data ? [['tau-bench', join(data, 'data/tau-bench')] as const] : []),
  ];
  const laid: Laid[] = [];
  for (const [i, [name, file]] of files.entries()) {
    const folder = join(scratch, `further-${i}`);
    mkdirSync(folder);
    const { directory } = await exportAll(file, join(folder, 'home'), folder);
    laid.push({ name, directory, folder });
  }
  return laid;
}

/** What each trainer has of each dataset. @returns why some were left out */
async function byTheirLoaders(
  datasets: readonly Laid[],
  model: string,
  check: (what: string, fine: boolean, otherwise?: unknown) => void,
): Promise<readonly string[]> {
  const skipped = process.env.TROUPE_DATA ? [] : ['Without TROUPE_DATA no real conversations are among the datasets.'];
  for (const trainer of Object.keys(TRAINERS) as Trainer[]) {
    const found = findTrainer(trainer, process.env);
    if ('missing' in found) {
      skipped.push(found.missing);
      continue;
    }
    for (const { name, directory, folder } of datasets) {
      const { versions, layouts, warnings } = await takenBy(trainer, found.python, {
        dataset: directory,
        layouts: folder,
        model,
      });
      const [version] = Object.entries(versions).map((one) => one.join(' '));
      for (const [what, { rows, missing, more, examples }] of Object.entries(layouts))
        check(`${version} has the ${rows} answers of ${name} in ${what}`, rows > 0 && missing + more === 0, {
          missing,
          more,
          examples,
        });
      check(`${version} says no warning about ${name}`, warnings.length === 0, warnings.slice(0, 3));
    }
  }
  return skipped;
}

function judge(
  { versions, layouts, trainers, warnings }: TrainerReport,
  counts: Readonly<Record<string, Readonly<Record<string, number>>>>,
  check: (what: string, fine: boolean, otherwise?: unknown) => void,
): void {
  const named = Object.entries(versions).map(([name, version]) => `${name} ${version}`);
  for (const [name, { splits }] of Object.entries(layouts)) {
    const counted = Object.entries(splits).map(([split, rows]) => `${rows} ${split}`);
    const same = JSON.stringify(splits) === JSON.stringify(counts[name]);
    check(`load_dataset gives ${counted.join(' and ')} rows of ${name}`, same && 'held_out' in splits, counts[name]);
  }
  for (const [name, { rendered }] of Object.entries(layouts))
    for (const [template, { texts, refused }] of Object.entries(rendered ?? {}))
      check(
        `a template of the kind "${template}" writes all ${texts} of ${name}`,
        texts > 0 && refused.length === 0,
        refused.slice(0, 3),
      );
  const first = layouts['trl-sft']!.first as { prompt: ChatMessage[]; completion: ChatMessage[]; tools: unknown };
  const [asked] = first.completion;
  check(
    'a turn has its prompt, its call with arguments as an object, its reasoning and its tools as they were recorded',
    first.prompt.map(({ role }) => role).join() === 'system,user' &&
      /^\d+ \+ 2$/.test(asked!.tool_calls![0]!.function.arguments.expression ?? '') &&
      asked!.reasoning_content !== null &&
      JSON.stringify(sorted(first.tools)) === JSON.stringify(sorted(TOOLS)),
    first,
  );
  // Every group has one right and one wrong episode; the solver's first call and the checker's are answers to different prompts.
  const pairs = Object.values(layouts['trl-preference']!.splits).reduce((sum, rows) => sum + rows, 0);
  check(`${TASKS} tasks tried rightly and wrongly give ${TASKS} pairs`, pairs === TASKS, pairs);
  for (const [name, { trainer, losses }] of Object.entries(trainers)) {
    check(
      `${trainer} takes two steps on ${name}, losses ${losses.map((loss) => loss.toFixed(3)).join(' and ')}`,
      losses.length === 2 && losses.every(Number.isFinite),
      losses,
    );
  }
  const learnt = trainers['trl-sft']!.learnt?.text;
  const sampled = trainers['trl-tokens']!.learnt?.ids;
  check('SFTTrainer learns the tokens that the model chose, as they were sampled', sampled?.join() === '8,10', sampled);
  check(
    `SFTTrainer learns the call in the words of the template and nothing before it: ${JSON.stringify(learnt)}`,
    /^<tool_call>\n\{"name": "calculate", "arguments": \{"expression": "\d+ \+ 2"\}\}\n<\/tool_call><\|im_end\|>\s*$/.test(
      learnt ?? '',
    ),
    learnt,
  );
  const about = warnings.filter((warning) => !OF_SETTINGS.test(warning));
  check(`${named.join(', ')} give no warning about the data`, about.length === 0, about);
}

type ChatMessage = {
  readonly role: string;
  readonly reasoning_content: string | null;
  readonly tool_calls:
    | readonly { readonly function: { readonly arguments: { readonly expression?: string } } }[]
    | null;
};

/** The same value with the members of every object in the order of their names. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return value;
  const members = Object.entries(value).map(([name, member]) => [name, sorted(member)] as const);
  return Object.fromEntries(members.sort(([a], [b]) => (a < b ? -1 : 1)));
}
